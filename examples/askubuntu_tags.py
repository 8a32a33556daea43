"""Complete the tags of a question on Ask Ubuntu: one is hidden, the rest of the graph as it was then is there.

    python examples/askubuntu_tags.py [--data ../shared/data]

Seeds are edges, question to tag, each with the time when it came up, and each in a tree of its own of what was there
by then: the question's other tags, the people who took part in it, what they took part in before, and the tags that
these earlier questions had. The seed edge itself is kept out. Three SAGE layers of PyG carry messages from tags to
questions, from questions to people, from people to the seed; all 3,029 tags are ranked but for those that the question
shows. The rule that learns nothing ranks them by how often they were used in the 90 days before the test.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch_geometric.nn import SAGEConv

import snapdb
from snapdb.train import hits_at, mean_reciprocal_rank, ranks, seeded, torch_threads

SHARED = os.environ.get("SNAPDB_DATA", str(Path(__file__).parents[2] / "shared" / "data"))
DAY = 24 * 60 * 60 * 1000

LOAD = """
CREATE TABLE question AS SELECT id FROM '{folder}/nodes.parquet' WHERE type = 'question';
CREATE TABLE member AS SELECT id FROM '{folder}/nodes.parquet' WHERE type = 'user';
CREATE TABLE tag AS SELECT id, name FROM '{folder}/nodes.parquet' WHERE type = 'tag';
CREATE TABLE has_tag AS SELECT src AS question, dst AS tag, ts FROM '{folder}/edges.parquet' WHERE type = 'has_tag';
CREATE TABLE took_part AS
  SELECT src AS member, dst AS question, ts FROM '{folder}/edges.parquet' WHERE type = 'participated';
CREATE PROPERTY GRAPH askubuntu
  VERTEX TABLES (question KEY (id), member KEY (id), tag KEY (id))
  EDGE TABLES (
    has_tag SOURCE KEY (question) REFERENCES question DESTINATION KEY (tag) REFERENCES tag EVENT TIME (ts),
    took_part SOURCE KEY (member) REFERENCES member DESTINATION KEY (question) REFERENCES question EVENT TIME (ts));
CREATE SNAPSHOT site OF askubuntu;
"""

SAMPLE = """
SAMPLE FROM site SEEDS EDGES has_tag (SELECT e_id, ts AS seed_time FROM site.has_tag WHERE ts >= {first} AND ts < {end})
  FANOUT (has_tag OUT => [5, 0, 5], took_part IN => [8, 0, 0], took_part OUT => [0, 20, 0])
  METHOD LATEST TEMPORAL <= SEED_TIME EXCLUDE SEEDS BATCH 512 REPEATABLE (1)
"""

POPULAR = """
SELECT count(ts) AS uses FROM tag LEFT JOIN has_tag ON tag.id = has_tag.tag AND ts >= {first} AND ts < {end}
  GROUP BY tag.id ORDER BY tag.id
"""

TAGS = "tag", "rev_has_tag", "question"
PAST = "question", "rev_took_part", "member"
PEOPLE = "member", "took_part", "question"


class Tagger(nn.Module):
    """How likely each tag is: as popular as it is, moved by what three SAGE layers see."""

    def __init__(self, uses: Tensor, *, width: int = 32, seed: int = 0) -> None:
        """Weights follow from `seed`; `uses` are how often each tag was used of late."""
        super().__init__()
        with seeded(seed):
            self.tag = nn.Parameter(0.1 * torch.randn(len(uses), width))
            self.tags, self.past, self.people = (SAGEConv(width, width) for _ in range(3))
        self.blank = nn.Parameter(torch.zeros(1, width))
        self.read = nn.Parameter(torch.zeros(width, len(uses)))
        self.popular = nn.Parameter((uses + 1).log())

    def forward(self, batch: snapdb.Batch) -> Tensor:
        """[batch_size, tags] logits; -inf for tags that the question shows."""
        data = batch.to_pyg()
        tag = data["tag"].n_id  # ids follow the keys' order, as POPULAR's rows do
        question, member = (self.blank.expand(data[kind].num_nodes, -1) for kind in ("question", "member"))
        question = self.tags((self.tag[tag], question), data[TAGS].edge_index).relu()
        member = self.past((question, member), data[PAST].edge_index).relu()
        state = self.people((member, question), data[PEOPLE].edge_index).relu()
        logits = state[batch.src_index] @ self.read + self.popular
        shown = data[TAGS].edge_index[0, : data[TAGS].num_sampled_edges[0]]  # the first hop is the seeds' own
        return logits.index_put((data["tag"].batch[shown], tag[shown]), torch.tensor(-torch.inf))


def main(argv: Sequence[str] | None = None) -> dict[str, float]:
    """Learns from days before the last ones and is tested on these; answers the figures, or nothing without data."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path(SHARED), help="folder that holds askubuntu/")
    parser.add_argument("--train-days", type=int, default=120)
    parser.add_argument("--test-days", type=int, default=60, help="how many of the last days to be tested on")
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(argv)
    folder = options.data / "askubuntu"
    if not folder.exists():
        print(f"skipped: no data set at {folder}; pass --data", file=sys.stderr)
        return {}
    started = time.perf_counter()
    with snapdb.connect() as db, torch_threads(1):
        for statement in LOAD.format(folder=folder).strip().split(";\n"):
            print(statement.strip())
            db.execute(statement)
        end = db.execute("SELECT max(ts) + 1 FROM has_tag").fetchall()[0][0]
        first = end - options.test_days * DAY
        query = SAMPLE.format(first=first - options.train_days * DAY, end=first)
        print(query.strip(), POPULAR.format(first=first - 90 * DAY, end=first).strip(), sep="\n")
        uses = torch.tensor(db.execute(POPULAR.format(first=first - 90 * DAY, end=first)).fetchall()).squeeze(1)
        model = trained(db.stream(query), uses, epochs=options.epochs, seed=options.seed)
        figures = tested(db.stream(SAMPLE.format(first=first, end=end)), model, uses)
    figures["seconds"] = time.perf_counter() - started
    print(f"popular in the last 90 days MRR {figures['popular: mrr']:.4f}  Hits@10 {figures['popular: hits@10']:.4f}")
    print(f"three SAGE layers           MRR {figures['mrr']:.4f}  Hits@10 {figures['hits@10']:.4f}")
    print(f"{figures['violations']} sampled edges tell what they must not; {figures['seconds']:.0f} s")
    return figures


def trained(stream: snapdb.BatchStream, uses: Tensor, *, epochs: int, seed: int) -> Tagger:
    """A model that went through the stream so often."""
    model = Tagger(uses, seed=seed)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.005)
    for _ in range(epochs):
        for batch in stream:
            loss = nn.functional.cross_entropy(model(batch), batch.n_id["tag"][batch.dst_pos_index])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return model


@torch.no_grad()
def tested(stream: snapdb.BatchStream, model: Tagger, uses: Tensor) -> dict[str, float]:
    """How the model ranks the hidden tags, how popularity does, and how many sampled edges give one away."""
    learned, popular, violations = [], [], 0
    for batch in stream:
        hidden, logits = batch.n_id["tag"][batch.dst_pos_index], model(batch)
        learned.append(ranks(hidden, logits))
        popular.append(ranks(hidden, torch.where(logits.isinf(), -1, uses)))
        violations += sum(batch.audit().values())
    figures: dict[str, float] = {"violations": violations}
    for name, found in (("", np.concatenate(learned)), ("popular: ", np.concatenate(popular))):
        figures |= {f"{name}mrr": mean_reciprocal_rank(found), f"{name}hits@10": hits_at(10, found)}
    return figures


if __name__ == "__main__":
    main()

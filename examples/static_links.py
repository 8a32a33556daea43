"""Predict links of a given split: train edges carry messages, test edges are seeds, and no negative is a known edge.

    python examples/static_links.py [--data ../shared/data]

The table of facts of FB15k-237 is two edge types of one graph: `fact`, of which the snapshot holds the training split,
and `target`, of which it holds the test split. FANOUT names `fact` only, so that no test edge is in message passing.
EXCLUDE KNOWN by itself looks at the seeds' own type, and draws training edges as negatives; IN lists both. A model that
was fitted on the training split, with negatives that know nothing of the test split, then scores the test pairs.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits

import snapdb
from snapdb.train import seeded, torch_threads

SHARED = os.environ.get("SNAPDB_DATA", str(Path(__file__).parents[2] / "shared" / "data"))

LOAD = """
CREATE TABLE entity AS SELECT id FROM '{folder}/nodes.parquet';
CREATE TABLE fact AS SELECT DISTINCT ON (src, dst, split) src, dst, split FROM '{folder}/edges.parquet'
  ORDER BY src, dst, split;
CREATE PROPERTY GRAPH freebase
  VERTEX TABLES (entity KEY (id))
  EDGE TABLES (fact SOURCE KEY (src) REFERENCES entity DESTINATION KEY (dst) REFERENCES entity,
               fact AS target SOURCE KEY (src) REFERENCES entity DESTINATION KEY (dst) REFERENCES entity);
CREATE SNAPSHOT test OF freebase WHERE fact.split = 'train' AND target.split = 'test';
CREATE SAMPLER train AS SAMPLE FROM test SEEDS EDGES fact (SELECT e_id FROM test.fact WHERE e_id % {thin} = 0)
  NEGATIVES 1 PER POSITIVE EXCLUDE KNOWN EXCLUDE SEEDS BOTH DIRECTIONS
  FANOUT (fact IN => [10], fact OUT => [10]) BATCH 1024;
CREATE SAMPLER own AS SAMPLE FROM test SEEDS EDGES target (SELECT e_id FROM test.target)
  NEGATIVES 1 PER POSITIVE EXCLUDE KNOWN FANOUT (fact IN => [10], fact OUT => [10]) BATCH 1024;
CREATE SAMPLER score AS SAMPLE USING own EXCLUDE KNOWN IN (fact, target);
"""


class Encoder(nn.Module):
    """A pair's score is the product of its ends: embeddings, and the mean of those of sampled neighbours."""

    def __init__(self, entities: int, width: int, seed: int) -> None:
        super().__init__()
        with seeded(seed):
            self.entity = nn.Embedding.from_pretrained(torch.randn(entities, width) / 10, freeze=False)
            self.mix = nn.Linear(width, width)

    def forward(self, batch: snapdb.Batch) -> Tensor:
        """[pairs] the scores of `edge_label_index`."""
        nodes = self.entity(batch.n_id["entity"])
        heard, count = torch.zeros_like(nodes), nodes.new_ones(len(nodes))
        for source, destination in batch.edge_index.values():
            heard = heard.index_add(0, destination, nodes[source])
            count = count + torch.bincount(destination, minlength=len(nodes))
        states = nodes + self.mix(heard / count[:, None])
        source, destination = batch.edge_label_index
        return (states[source] * states[destination]).sum(dim=1)


def known_negatives(db: snapdb.Database, sampler: str) -> tuple[int, int]:
    """How many negatives an epoch of a sampler draws, and how many of them are edges of the snapshot."""
    with db.stream(sampler) as stream:
        pairs = torch.cat([batch.n_id["entity"][batch.edge_label_index[:, batch.batch_size :]] for batch in stream], 1)
    src, dst = pairs.numpy()
    db.register("drawn", {"src": src, "dst": dst})
    edges = "SELECT src, dst FROM test.fact UNION ALL SELECT src, dst FROM test.target"
    ((known,),) = db.execute(f"SELECT count(*) FROM drawn SEMI JOIN ({edges}) USING (src, dst)").fetchall()
    return len(src), known


def fit(db: snapdb.Database, model: Encoder, epochs: int) -> None:
    """Fits the model on the training split."""
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    with db.stream("train") as stream:
        for epoch in range(epochs):
            stream.set_epoch(epoch)
            for batch in stream:
                optimizer.zero_grad()
                binary_cross_entropy_with_logits(model(batch), batch.edge_label.float()).backward()
                optimizer.step()


def test(db: snapdb.Database, model: Encoder) -> dict[str, float]:
    """The share of test pairs that outscore their negative, and how many seeds' pairs are among message edges."""
    wins, pairs, seen = 0.0, 0, 0
    with db.stream("score") as stream, torch.no_grad():
        for batch in stream:
            scores, size = model(batch), batch.batch_size
            won = scores[:size][: len(scores) - size]
            wins += float((won > scores[size:]).sum())
            pairs += len(scores) - size
            codes = {(int(a), int(b)) for a, b in batch.edge_label_index[:, :size].T}
            for key, index in batch.edge_index.items():
                ends = index if not key.edge.startswith("rev_") else index.flip(0)
                seen += (
                    sum((int(a), int(b)) in codes for a, b in ends.T) if key.edge.endswith("fact") else index.shape[1]
                )
    return {"wins": wins / pairs, "seeds seen": seen}


def main(argv: Sequence[str] | None = None) -> dict[str, float]:
    """Counts known negatives with and without IN, then fits and tests; nothing without the data."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path(SHARED), help="folder that holds fb15k237/")
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--thin", type=int, default=4, help="learn from every n-th fact; all carry messages")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(argv)
    folder = options.data / "fb15k237"
    if not folder.exists():
        print(f"skipped: no data set at {folder}; pass --data", file=sys.stderr)
        return {}
    with snapdb.connect() as db, torch_threads(1):
        db.script(LOAD.format(folder=folder, thin=options.thin))
        figures: dict[str, float] = {}
        figures["negatives"], figures["known, own type"] = known_negatives(db, "own")
        _, figures["known, both types"] = known_negatives(db, "score")
        ((entities,),) = db.execute("SELECT count(*) FROM entity").fetchall()
        model = Encoder(entities, 32, options.seed)
        fit(db, model, options.epochs)
        figures |= test(db, model)
    for name, value in figures.items():
        print(f"{name:>18} {value:,.3f}" if name == "wins" else f"{name:>18} {value:,}")
    return figures


if __name__ == "__main__":
    main()

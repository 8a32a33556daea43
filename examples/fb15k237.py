"""Complete the facts of FB15k-237 and rank the answers among all entities, other true answers left out.

    python examples/fb15k237.py [--data ../shared/data]

One snapshot holds the facts of the training split, another all of them: batches come from the first, the second only
says which answers are true as well. Seeds are facts; their own pairs are kept out of what is read about their ends. An
entity is its embedding and the mean of what its sampled facts say; an answer is scored by DistMult with a matrix for
each relation and direction. The rule to beat ranks entities by how often they answer the relation in training.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

import snapdb
from snapdb.train import hits_at, mean_reciprocal_rank, ranks, seeded, torch_threads

SHARED = os.environ.get("SNAPDB_DATA", str(Path(__file__).parents[2] / "shared" / "data"))
ENTITIES, RELATIONS = 14_541, 237
"""The file numbers both from 0, so that an entity's id is its dense id in batches, too."""

LOAD = """
CREATE TABLE entity AS SELECT id FROM '{folder}/nodes.parquet';
CREATE TABLE fact AS SELECT src, dst, type::BIGINT AS relation, split FROM '{folder}/edges.parquet';
CREATE PROPERTY GRAPH freebase
  VERTEX TABLES (entity KEY (id))
  EDGE TABLES (fact SOURCE KEY (src) REFERENCES entity DESTINATION KEY (dst) REFERENCES entity
               FEATURES (relation AS relation TYPE int64));
CREATE SNAPSHOT known OF freebase WHERE fact.split = 'train';
CREATE SNAPSHOT whole OF freebase;
CREATE TABLE asked AS
  SELECT row_number() OVER (ORDER BY e_id, turn) - 1 AS row, relation + turn * {relations} AS relation,
         CASE turn WHEN 0 THEN src ELSE dst END AS entity, CASE turn WHEN 0 THEN dst ELSE src END AS answer
  FROM whole.fact, range(2) turns(turn) WHERE split = 'test' AND e_id % {thin} = 0;
"""

TRAIN = """
SAMPLE FROM known SEEDS EDGES fact (SELECT e_id, relation AS y FROM known.fact WHERE e_id % {thin} = 0)
  NEGATIVES 1 PER POSITIVE EXCLUDE SEEDS BOTH DIRECTIONS FANOUT (fact IN => [10], fact OUT => [10])
  BATCH 1024 REPEATABLE ({seed})
"""

ENCODE = """
SAMPLE FROM known SEEDS (SELECT id FROM entity) AS entity FANOUT (fact IN => [50], fact OUT => [50])
  BATCH 1024 REPEATABLE ({seed})
"""

TRUE_AS_WELL = """
SELECT row, dst AS answer FROM asked JOIN whole.fact ON src = entity AND fact.relation = asked.relation
UNION ALL
SELECT row, src FROM asked JOIN whole.fact ON dst = entity AND fact.relation + {relations} = asked.relation
ORDER BY row
"""

POPULAR = """
SELECT relation, dst AS answer, count(*) AS facts FROM known.fact GROUP BY ALL
UNION ALL
SELECT relation + {relations}, src, count(*) FROM known.fact GROUP BY ALL
"""

Scores = Callable[[Tensor, Tensor], Tensor]
"""Entities [n], relations [n] → scores of all entities as answers [n, ENTITIES]."""


class Facts(nn.Module):
    """Embeddings of entities and relations; relations count twice, for a fact may be asked from either end."""

    def __init__(self, width: int, seed: int) -> None:
        super().__init__()
        with seeded(seed):
            self.entity = nn.Embedding.from_pretrained(torch.randn(ENTITIES, width) / 10, freeze=False)
            self.scale, self.shift, self.relation = (
                nn.Embedding.from_pretrained(torch.randn(2 * RELATIONS, width) * spread, freeze=False)
                for spread in (0.3, 0.1, 0.3)
            )
            self.mix = nn.Linear(width, width)
        self.often = nn.Parameter(torch.zeros(ENTITIES))
        self.norm = nn.LayerNorm(width)
        self.dropout = nn.Dropout(0.2)

    def forward(self, batch: snapdb.Batch) -> Tensor:
        """[seeds, width] the states of the nodes that the batch starts from, after one hop."""
        nodes = self.entity(batch.n_id["entity"])
        seeds = batch.num_sampled_nodes["entity"][0]
        heard, count = nodes.new_zeros(seeds, nodes.shape[1]), nodes.new_ones(seeds)
        for key, (source, target) in batch.edge_index.items():
            relation = batch.edge_features[key]["relation"].squeeze(1) + RELATIONS * key.edge.startswith("rev_")
            heard = heard.index_add(0, target, nodes[source] * self.scale(relation) + self.shift(relation))
            count = count + torch.bincount(target, minlength=seeds)
        return self.dropout(self.norm(nodes[:seeds] + self.mix(heard / count[:, None])))

    def loss(self, batch: snapdb.Batch) -> Tensor:
        """How far the true answers are from winning over the negatives of all seeds, asked from both ends."""
        states, often = self(batch), self.often[batch.n_id["entity"]]
        source, destination, others = batch.src_index, batch.dst_pos_index, batch.dst_neg_index
        parts = []
        for one, answer, relation in ((source, destination, batch.y), (destination, source, batch.y + RELATIONS)):
            query = states[one] * self.relation(relation)
            won = (query * states[answer]).sum(dim=1) + often[answer]
            lost = (query @ states[others].T + often[others]).masked_fill(others == answer[:, None], -torch.inf)
            logits = torch.cat([won[:, None], lost], dim=1)
            parts.append(cross_entropy(logits, torch.zeros_like(relation)))
        return (parts[0] + parts[1]) / 2


def main(argv: Sequence[str] | None = None) -> dict[str, float]:
    """Learns and ranks once; answers MRR and Hits@10 of the model and of the rule, or nothing without the data."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path(SHARED), help="folder that holds fb15k237/")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--thin", type=int, default=1, help="learn and test every n-th fact; all are read about ends")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(argv)
    folder = options.data / "fb15k237"
    if not folder.exists():
        print(f"skipped: no data set at {folder}; pass --data", file=sys.stderr)
        return {}
    started = time.perf_counter()
    with snapdb.connect() as db, torch_threads(1):
        load = LOAD.format(folder=folder, relations=RELATIONS, thin=options.thin)
        train = TRAIN.format(thin=options.thin, seed=options.seed)
        print(load, train, TRUE_AS_WELL.format(relations=RELATIONS), sep="\n")
        db.script(load)
        model = fitted(db.stream(train), options.epochs, options.seed)
        figures = ranked(db, answers(model, db.stream(ENCODE.format(seed=options.seed))))
        figures |= {f"popular: {name}": figure for name, figure in ranked(db, popularity(db)).items()}
    figures["seconds"] = time.perf_counter() - started
    print(f"filtered, both directions: MRR {figures['mrr']:.4f}, Hits@10 {figures['hits@10']:.4f}")
    print(f"by popularity: MRR {figures['popular: mrr']:.4f}, Hits@10 {figures['popular: hits@10']:.4f}")
    return figures


def fitted(stream: snapdb.BatchStream, epochs: int, seed: int) -> Facts:
    """A model that learned from the facts of the stream."""
    model = Facts(width=64, seed=seed)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    with seeded(seed):
        for epoch in range(epochs):
            started, losses = time.perf_counter(), []
            for batch in stream:
                loss = model.loss(batch)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                losses.append(loss.item())
            print(f"epoch {epoch}  loss {np.mean(losses):.4f}  {time.perf_counter() - started:.0f} s")
    return model.eval()


@torch.no_grad()
def answers(model: Facts, stream: snapdb.BatchStream) -> Scores:
    """How the model scores all entities as answers, of which it makes the states first."""
    states = torch.zeros(ENTITIES, model.entity.embedding_dim)
    for batch in stream:
        states[batch.n_id["entity"][: batch.batch_size]] = model(batch)

    def scores(entity: Tensor, relation: Tensor) -> Tensor:
        with torch.no_grad():
            return (states[entity] * model.relation(relation)) @ states.T + model.often

    return scores


def popularity(db: snapdb.Database) -> Scores:
    """How often each entity answers a relation in training, whoever asks."""
    counts = torch.zeros(2 * RELATIONS, ENTITIES)
    relation, answer, facts = columns(db, POPULAR)
    counts[relation, answer] = facts.float()
    return lambda _, relation: counts[relation]


def ranked(db: snapdb.Database, scores: Scores, block: int = 1024) -> dict[str, float]:
    """Filtered MRR and Hits@10 over all test facts, asked from both ends."""
    entity, relation, answer = columns(db, "SELECT entity, relation, answer FROM asked ORDER BY row")
    row, true = columns(db, TRUE_AS_WELL)
    found = []
    for first in range(0, len(entity), block):
        part = slice(first, first + block)
        here = slice(*torch.searchsorted(row, torch.tensor([first, first + block])).tolist())
        known = torch.stack([row[here] - first, true[here]])
        found.append(ranks(answer[part], scores(entity[part], relation[part]), known))
    every = np.concatenate(found)
    return {"mrr": mean_reciprocal_rank(every), "hits@10": hits_at(10, every)}


def columns(db: snapdb.Database, query: str) -> list[Tensor]:
    """The columns of a query's answer, as tensors."""
    table = db.execute(query.format(relations=RELATIONS)).arrow()
    return [torch.tensor(column.to_numpy(), dtype=torch.int64) for column in table.columns]


if __name__ == "__main__":
    main()

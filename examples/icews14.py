"""Forecast political events: whom will a subject act upon tomorrow? First by SQL over snapshots, then by a small model.

    python examples/icews14.py [--data ../shared/data]

A question is (subject, relation, ?, day); each fact asks two, one for either end. Ranks are over all entities, other
true answers of that day taken out. The rule that learns nothing ranks by when the answer was last true, and reads that
from a snapshot of everything before the day. The model copies from the subject's latest facts, which TEMPORAL sampling
brings, or guesses with DistMult: how much a past fact of one relation says about another, how fast facts grow old, and
what entities are like, is learned. Plain torch, one epoch.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

import snapdb
from snapdb.train import hits_at, mean_reciprocal_rank, ranks, seeded, torch_threads

SHARED = os.environ.get("SNAPDB_DATA", str(Path(__file__).parents[2] / "shared" / "data"))
RELATIONS = 230
TEST = range(335, 366)

LOAD = """
CREATE TABLE entity AS SELECT id FROM '{folder}/nodes.parquet';
CREATE TABLE fact AS
  SELECT src AS subject, type AS relation, dst AS object, ts AS day FROM '{folder}/edges.parquet'
  UNION ALL SELECT dst, type + {relations}, src, ts FROM '{folder}/edges.parquet';
CREATE PROPERTY GRAPH icews
  VERTEX TABLES (entity KEY (id))
  EDGE TABLES (fact SOURCE KEY (subject) REFERENCES entity (id) DESTINATION KEY (object) REFERENCES entity (id)
               EVENT TIME (day) FEATURES (relation AS relation TYPE int64));
CREATE SNAPSHOT year OF icews;
"""

ADVANCE = "CREATE OR REPLACE SNAPSHOT past OF icews FOR EVENT_TIME AS OF {last}"

LAST_SEEN = """
WITH seen AS (SELECT subject, relation, object, max(day) AS last FROM past.fact GROUP BY ALL),
     asked AS (SELECT subject, relation, object, last, count(*) OVER (PARTITION BY subject, relation) AS truths
               FROM fact LEFT JOIN seen USING (subject, relation, object) WHERE day = {day}),
     rival AS (FROM seen ANTI JOIN asked USING (subject, relation, object))
SELECT CASE WHEN a.last IS NULL THEN 1 + count(r.last) + ((SELECT count(*) FROM entity) - a.truths - count(r.last)) / 2
            ELSE 1 + count(r.last) FILTER (r.last > a.last) + count(r.last) FILTER (r.last = a.last) / 2 END AS rank
  FROM asked a LEFT JOIN rival r USING (subject, relation)
  GROUP BY a.subject, a.relation, a.object, a.last, a.truths
"""

SAMPLE = """
SAMPLE FROM year SEEDS (SELECT subject, day AS seed_time, relation AS asked, object AS y FROM fact
                        WHERE day >= {first} AND day < {end}) AS entity
  FANOUT (fact OUT => [200]) METHOD LATEST TEMPORAL < SEED_TIME ALLOW DUPLICATES BATCH 256 REPEATABLE (1)
"""

FACTS = "entity", "rev_fact", "entity"  # walked OUT: from what was done to whom, toward the subject


class CopyOrGuess(nn.Module):
    """The chance of each entity to be the answer: what its past facts with the subject weigh, and a guess."""

    def __init__(self, entities: int, *, width: int = 32, seed: int = 0) -> None:
        """Weights follow from `seed`. Past facts of the asked relation start as the best witnesses."""
        super().__init__()
        self.affinity = nn.Parameter(2 * torch.eye(2 * RELATIONS) - 2)
        self.decay = nn.Parameter(torch.full((2 * RELATIONS,), 0.7))
        with seeded(seed):
            self.subject = nn.Parameter(0.1 * torch.randn(entities, width))
            self.object = nn.Parameter(0.1 * torch.randn(entities, width))
            self.usual = nn.Parameter(0.1 * torch.randn(2 * RELATIONS, width))
        self.relation = nn.Parameter(torch.ones(2 * RELATIONS, width))
        self.prominence = nn.Parameter(torch.zeros(entities))
        self.surprise = nn.Parameter(torch.full((2 * RELATIONS, 1), -7.0))

    def forward(self, batch: snapdb.Batch) -> Tensor:
        """[batch_size, entities] chances, not scaled to a sum of 1."""
        asked, ids = batch.seed_columns["asked"], batch.n_id["entity"]  # keys count from 0: dense ids are the file's
        seed, past = batch.edge_index[FACTS].flip(0)
        then = batch.edge_features[FACTS]["relation"].squeeze(1)
        age = batch.edge_age[FACTS].log()
        weight = (self.affinity[asked[seed], then] - self.decay[asked[seed]] * age).exp()
        wanted = self.subject[ids[: batch.batch_size]] * self.relation[asked] + self.usual[asked]
        chance = (wanted @ self.object.T + self.prominence + self.surprise[asked]).exp()
        return chance.view(-1).index_add(0, seed * chance.shape[1] + ids[past], weight).view_as(chance)


def main(argv: Sequence[str] | None = None) -> dict[str, float]:
    """Ranks the test days' answers by the rule and by the model; answers both figures, or nothing without the data."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path(SHARED), help="folder that holds icews14/")
    parser.add_argument("--train-days", type=int, default=85, help="how many of the 304 training days to learn from")
    parser.add_argument("--test-days", type=int, default=len(TEST), help="how many of the 31 test days to forecast")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(argv)
    folder = options.data / "icews14"
    if not folder.exists():
        print(f"skipped: no data set at {folder}; pass --data", file=sys.stderr)
        return {}
    started = time.perf_counter()
    days = TEST[: options.test_days]
    with snapdb.connect() as db, torch_threads(1):
        for statement in LOAD.format(folder=folder, relations=RELATIONS).strip().split(";\n"):
            print(statement.strip())
            db.execute(statement)
        print(ADVANCE.format(last="…"), LAST_SEEN.format(day="…").strip(), sep="\n")
        figures = summed("last seen: ", np.concatenate([last_seen(db, day) for day in days]))
        query = SAMPLE.format(first=305 - options.train_days, end=305)
        print(query.strip())
        entities = db.execute("SELECT count(*) FROM entity").fetchall()[0][0]
        model = trained(db.stream(query), entities, seed=options.seed)
        figures |= summed("", forecast(db, model, days))
        audit = db.execute("AUDIT" + SAMPLE.format(first=days.start, end=days.stop)).arrow()
        figures["violations"] = sum(audit["violations"].to_pylist())
    figures["seconds"] = time.perf_counter() - started
    print(f"{figures['violations']} sampled facts are from the day that is forecast, or later")
    print(f"last seen     MRR {figures['last seen: mrr']:.4f}  Hits@10 {figures['last seen: hits@10']:.4f}")
    print(f"copy or guess MRR {figures['mrr']:.4f}  Hits@10 {figures['hits@10']:.4f}  in {figures['seconds']:.0f} s")
    print("of these days others report MRR 0.421 (RE-GCN) and 0.440 (TiRGN)")
    return figures


def summed(name: str, found: npt.NDArray[np.float64]) -> dict[str, float]:
    """What is told of ranks."""
    return {f"{name}mrr": mean_reciprocal_rank(found), f"{name}hits@10": hits_at(10, found)}


def last_seen(db: snapdb.Database, day: int) -> npt.NDArray[np.float64]:
    """The ranks of a day's answers when what was last true comes first; what never was shares the places behind."""
    db.execute(ADVANCE.format(last=day - 1))
    found: npt.NDArray[np.float64] = db.execute(LAST_SEEN.format(day=day)).arrow()["rank"].to_numpy()
    return found


def trained(stream: snapdb.BatchStream, entities: int, *, seed: int) -> CopyOrGuess:
    """A model that went through the stream's questions once."""
    model = CopyOrGuess(entities, seed=seed)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.005)
    for batch in stream:
        chance = model(batch)
        right = chance.gather(1, batch.y[:, None]).squeeze(1)
        loss = (chance.sum(dim=1).log() - right.log()).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model


@torch.no_grad()
def forecast(db: snapdb.Database, model: CopyOrGuess, days: range) -> npt.NDArray[np.float64]:
    """The ranks of the days' answers among all entities, other true answers of the day taken out."""
    query = f"SELECT day, subject, relation, list(object) FROM fact WHERE day >= {days.start} GROUP BY ALL"
    truths = {tuple(question): objects for *question, objects in db.execute(query).fetchall()}
    found = []
    for batch in db.stream(SAMPLE.format(first=days.start, end=days.stop)):
        subject = batch.n_id["entity"][: batch.batch_size]
        asked = torch.stack([batch.seed_time, subject, batch.seed_columns["asked"]], dim=1).tolist()
        known = [(row, other) for row, question in enumerate(asked) for other in truths[tuple(question)]]
        found.append(ranks(batch.y, model(batch), np.transpose(known)))
    return np.concatenate(found)


if __name__ == "__main__":
    main()

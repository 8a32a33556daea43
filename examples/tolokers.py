"""Find banned workers of a crowdsourcing platform with GraphSAGE on sampled neighbourhoods.

    python examples/tolokers.py [--data ../shared/data]

Features are standardised by SQL with the mean and deviation of the training rows alone. Training samples a few
neighbours a hop; the test uses more of them and the weights of the best validation score.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import snapdb
from snapdb.train import GraphSAGE, evaluate, fit, roc_auc, torch_threads

SHARED = os.environ.get("SNAPDB_DATA", str(Path(__file__).parents[2] / "shared" / "data"))

LOAD = """
CREATE TABLE worker AS
  WITH long AS (SELECT id, split_0 AS split, label, unnest(features) AS value, unnest(range(len(features))) AS i
                FROM '{folder}/nodes.parquet'),
       stats AS (SELECT i, avg(value) AS mean, stddev_pop(value) AS deviation
                 FROM long WHERE split = 'train' GROUP BY i)
  SELECT id, any_value(split) AS split, any_value(label) AS banned,
         list((value - mean) / deviation ORDER BY i)::FLOAT[10] AS features
  FROM long JOIN stats USING (i) GROUP BY id ORDER BY id;
CREATE TABLE worked_with AS SELECT src, dst FROM '{folder}/edges.parquet';
CREATE PROPERTY GRAPH tolokers
  VERTEX TABLES (worker KEY (id) FEATURES (features AS x) TARGET (banned))
  EDGE TABLES (worked_with SOURCE KEY (src) REFERENCES worker (id) DESTINATION KEY (dst) REFERENCES worker (id));
CREATE SNAPSHOT everyone OF tolokers;
"""

SAMPLE = """
SAMPLE FROM everyone SEEDS (SELECT id FROM worker WHERE split = '{split}') AS worker
  FANOUT (worked_with BOTH => {fanout}) BATCH 512 REPEATABLE (1)
"""


def main(argv: Sequence[str] | None = None) -> dict[str, float]:
    """Trains once; answers the test ROC AUC and the seconds it took, or nothing when the data is absent."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path(SHARED), help="folder that holds tolokers/")
    parser.add_argument("--epochs", type=int, default=25)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(argv)
    folder = options.data / "tolokers"
    if not folder.exists():
        print(f"skipped: no data set at {folder}; pass --data", file=sys.stderr)
        return {}
    started = time.perf_counter()
    with snapdb.connect() as db:
        for statement in LOAD.format(folder=folder).strip().split(";\n"):
            print(statement.strip())
            db.execute(statement)
        query = SAMPLE.format(split="train", fanout="[10, 10]")
        print(query.strip())
        with torch_threads(1):
            auc = train(db, query, options.epochs, options.seed)
    figures = {"auc": auc, "seconds": time.perf_counter() - started}
    print(f"test ROC AUC {figures['auc']:.4f} in {figures['seconds']:.0f} s")
    return figures


def train(db: snapdb.Database, query: str, epochs: int, seed: int) -> float:
    """The test ROC AUC of the epoch that is best on the validation workers."""
    model = GraphSAGE(features=10, classes=2, hidden=64, layers=2, dropout=0.2, seed=seed)
    valid = db.stream(SAMPLE.format(split="val", fanout="[20, 10]"))
    test = db.stream(SAMPLE.format(split="test", fanout="[20, 10]"))
    history = fit(
        model,
        db.stream(query),
        epochs=epochs,
        lr=0.003,
        validate=lambda: evaluate(model, valid, {"auc": roc_auc})["auc"],
        patience=8,
        seed=seed,
    )
    for epoch, (loss, score) in enumerate(zip(history.losses, history.scores, strict=True)):
        print(f"epoch {epoch:2}  loss {loss:.4f}  validation ROC AUC {score:.4f}")
    return evaluate(model, test, {"auc": roc_auc})["auc"]


if __name__ == "__main__":
    main()

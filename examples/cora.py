"""Classify papers of Cora with a two-layer GCN over full neighbourhoods.

    python examples/cora.py [--data ../shared/data]

Each undirected citation is stored once, so the sampler walks BOTH ways. FANOUT FULL takes every neighbour: two hops are
then all that a two-layer network can see, and the answer is that of training on the whole graph. Words are counts of
0 and 1, which the load turns into shares.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import mean, pstdev

import snapdb
from snapdb.train import GCN, accuracy, evaluate, fit, torch_threads

SHARED = os.environ.get("SNAPDB_DATA", str(Path(__file__).parents[2] / "shared" / "data"))

LOAD = """
CREATE TABLE paper AS
  SELECT id, label, split, list_transform(features, lambda word: word / total)::FLOAT[1433] AS words
  FROM (SELECT *, list_sum(features) AS total FROM '{folder}/nodes.parquet');
CREATE TABLE cites AS SELECT src, dst FROM '{folder}/edges.parquet';
CREATE PROPERTY GRAPH cora
  VERTEX TABLES (paper KEY (id) FEATURES (words AS x) TARGET (label))
  EDGE TABLES (cites SOURCE KEY (src) REFERENCES paper (id) DESTINATION KEY (dst) REFERENCES paper (id));
CREATE SNAPSHOT corpus OF cora;
"""

SAMPLE = """
SAMPLE FROM corpus SEEDS (SELECT id FROM paper WHERE split = '{split}') AS paper
  FANOUT (cites BOTH => [FULL, FULL]) BATCH 1024 REPEATABLE (1)
"""


def main(argv: Sequence[str] | None = None) -> dict[str, float]:
    """Trains with five seeds; answers the mean and spread of the test accuracy, or nothing when the data is absent."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path(SHARED), help="folder that holds cora/")
    parser.add_argument("--seeds", type=int, default=5, help="how many trainings to average")
    parser.add_argument("--seed", type=int, default=0, help="of the first")
    options = parser.parse_args(argv)
    folder = options.data / "cora"
    if not folder.exists():
        print(f"skipped: no data set at {folder}; pass --data", file=sys.stderr)
        return {}
    with snapdb.connect() as db:
        for statement in LOAD.format(folder=folder).strip().split(";\n"):
            print(statement.strip())
            db.execute(statement)
        print(SAMPLE.format(split="train").strip())
        # A training set of one batch with every neighbour is the same in every epoch: draw it once, keep it.
        batches = {split: list(db.stream(SAMPLE.format(split=split))) for split in ("train", "val", "test")}
        with torch_threads(1):
            scores = [train(batches, seed) for seed in range(options.seed, options.seed + options.seeds)]
    figures = {"accuracy": mean(scores), "spread": pstdev(scores)}
    print(f"test accuracy {figures['accuracy']:.4f} ± {figures['spread']:.4f} over {len(scores)} seeds")
    return figures


def train(batches: dict[str, list[snapdb.Batch]], seed: int) -> float:
    """The test accuracy of the epoch that is best on the validation papers."""
    width = batches["train"][0].x["paper"].shape[1]
    model = GCN(width, 7, hidden=16, dropout=0.5, normalize="mean", seed=seed)

    def score(split: str) -> float:
        return evaluate(model, batches[split], {"accuracy": accuracy})["accuracy"]

    history = fit(
        model,
        batches["train"],
        epochs=200,
        lr=0.01,
        weight_decay=5e-4,
        validate=lambda: score("val"),
        patience=50,
        seed=seed,
    )
    print(f"seed {seed}: test accuracy {score('test'):.4f} (best epoch {history.best}, {history.seconds:.1f} s)")
    return score("test")


if __name__ == "__main__":
    main()

"""The effect of refresh strategies on accuracy: tolokers and cora, trained with every strategy and several seeds.

    python -m benchmarks.refresh_accuracy '{"graph": "cora", …}'

prints one line of JSON with the test score of each strategy and seed.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import torch

import snapdb
from benchmarks.refresh_strategies import STRATEGIES, asked, run_apart
from examples import cora, tolokers
from snapdb.train import GCN, GraphSAGE, accuracy, evaluate, fit, roc_auc, torch_threads

SHARED = Path(os.environ.get("SNAPDB_DATA", Path(__file__).parents[2] / "shared" / "data"))


@dataclass(frozen=True, slots=True)
class Task:
    """A graph, and the model and options that are trained on it."""

    load: str
    vertex: str
    metric: str
    sample: str
    """The FROM, FANOUT and BATCH clauses."""
    judged: str
    """The additional clauses for sampling the split on which the model is evaluated."""
    model: Callable[[int], torch.nn.Module]
    """Returns the model for a seed."""
    epochs: int
    lr: float
    decay: float


TASKS = {
    "tolokers": Task(
        tolokers.LOAD,
        "worker",
        "auc",
        "SAMPLE FROM everyone {seeds} FANOUT (worked_with BOTH => [10, 10]) BATCH 512",
        "REFRESH FBL",
        lambda seed: GraphSAGE(features=10, classes=2, hidden=64, layers=2, dropout=0.2, seed=seed),
        epochs=9,
        lr=0.003,
        decay=0.0,
    ),
    "cora": Task(
        cora.LOAD,
        "paper",
        "accuracy",
        "SAMPLE FROM corpus {seeds} FANOUT (cites BOTH => [3, 3]) BATCH 1024",
        "METHOD FULL",
        lambda seed: GCN(1433, 7, hidden=16, dropout=0.5, normalize="mean", seed=seed),
        epochs=150,
        lr=0.01,
        decay=5e-4,
    ),
}


def accuracy_rows(*, quick: bool) -> list[dict[str, Any]]:
    """Return one row per graph, strategy and seed. Graphs whose data is missing are skipped."""
    rows = []
    for graph in TASKS:
        if not (SHARED / graph).exists():
            print(f"skipped: no data set at {SHARED / graph}", flush=True)
            continue
        found, _ = run_apart("refresh_accuracy", {"graph": graph, "seeds": 1 if quick else 5, "quick": quick})
        rows += found
    return rows


def main() -> None:
    """Train the requested models."""
    wish = asked()
    task = TASKS[wish["graph"]]
    rows = []
    with snapdb.connect() as database, torch_threads(1):
        database.script(task.load.format(folder=SHARED / wish["graph"]))
        for seed in range(wish["seeds"]):
            for strategy in STRATEGIES:
                if strategy.name != "FBL, cached":  # its batches are the same as FBL's
                    score = score_of(database, task, strategy.clause.format(every="AUTO"), seed, quick=wish["quick"])
                    print(f"{wish['graph']} {strategy.name}, seed {seed}: {score:.4f}", file=sys.stderr, flush=True)
                    rows.append(
                        {
                            "graph": wish["graph"],
                            "metric": task.metric,
                            "strategy": strategy.name,
                            "seed": seed,
                            "score": score,
                        }
                    )
    print(json.dumps(rows))


def score_of(database: snapdb.Database, task: Task, clause: str, seed: int, *, quick: bool) -> float:
    """Return the mean test score of the last third of the epochs.

    Test batches are sampled only once, and never from pool rows.
    """

    def stream(split: str, how: str) -> snapdb.BatchStream:
        seeds = f"SEEDS (SELECT id FROM {task.vertex} WHERE split = '{split}') AS {task.vertex}"
        return database.stream(f"{task.sample.format(seeds=seeds)} REPEATABLE ({seed}) {how}")

    metrics = {"auc": roc_auc, "accuracy": accuracy}
    model = task.model(seed)
    with stream("train", f"REFRESH {clause}") as train, stream("test", task.judged) as judging:
        tests = list(judging)
        history = fit(
            model,
            train,
            epochs=3 if quick else task.epochs,
            lr=task.lr,
            weight_decay=task.decay,
            validate=lambda: evaluate(model, tests, {task.metric: metrics[task.metric]})[task.metric],
            seed=seed,
        )
    return fmean(history.scores[-(len(history.scores) // 3) :])


if __name__ == "__main__":
    main()

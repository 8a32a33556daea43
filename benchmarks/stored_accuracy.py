"""The effect of STORED int8 on accuracy: the same models, batches and seeds with float32 features and with int8 ones.

    python -m benchmarks.stored_accuracy '{"seeds": 5}'

prints one line of JSON. The graphs are tolokers, if its data is there, and a planted one: 20,000 nodes of 40 classes
with 128 floats, which are a faint centre of the class and noise, and edges of which a half stay within a class.
"""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import snapdb
from benchmarks.refresh_accuracy import SHARED, TASKS, Task, score_of
from benchmarks.refresh_strategies import asked
from snapdb.train import GraphSAGE, torch_threads

NODES, CLASSES, WIDTH, DEGREE = 20_000, 40, 128, 10
FAINT = 0.12
"""The length of a class's centre per column, relative to the noise."""
PLANTED = Task(
    load="",
    vertex="node",
    metric="accuracy",
    sample="SAMPLE FROM whole {seeds} FANOUT (edge IN => [5, 5]) BATCH 512",
    judged="REFRESH FBL",
    model=lambda seed: GraphSAGE(features=WIDTH, classes=CLASSES, hidden=64, layers=2, dropout=0.2, seed=seed),
    epochs=6,
    lr=0.003,
    decay=0.0,
)
GRAPH = """
    CREATE PROPERTY GRAPH planted
      VERTEX TABLES (node KEY (id) FEATURES (x AS x {stored}) TARGET (y))
      EDGE TABLES (edge SOURCE KEY (a) REFERENCES node (id) DESTINATION KEY (b) REFERENCES node (id));
    CREATE SNAPSHOT whole OF planted;
"""


def main() -> None:
    """Train the models with both types."""
    wish = asked()
    rows: list[dict[str, Any]] = []
    graphs = {"planted": PLANTED}
    if (SHARED / "tolokers").exists():
        graphs["tolokers"] = TASKS["tolokers"]
    for graph, task in graphs.items():
        for stored in ("", "STORED int8"):
            with snapdb.connect() as database, torch_threads(1):
                if graph == "planted":
                    plant(database, stored)
                else:
                    database.script(_with(task, stored).load.format(folder=SHARED / graph))
                for seed in range(wish["seeds"]):
                    score = score_of(database, task, "FBL", seed, quick=False)
                    print(f"{graph} {stored or 'float32'}, seed {seed}: {score:.4f}", file=sys.stderr, flush=True)
                    rows.append({"graph": graph, "stored": stored or "float32", "metric": task.metric, "score": score})
    print(json.dumps(rows))


def plant(database: snapdb.Database, stored: str) -> None:
    """Create the planted graph."""
    rng = np.random.default_rng(5)
    labels = rng.integers(0, CLASSES, NODES)
    centres = rng.standard_normal((CLASSES, WIDTH)) * FAINT
    values = (centres[labels] + rng.standard_normal((NODES, WIDTH))).astype(np.float32)
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(values.reshape(-1)), WIDTH)
    split = np.where(rng.random(NODES) < 0.5, "train", "test")
    nodes = pa.table({"id": np.arange(NODES), "x": vectors, "y": labels, "split": split})
    sources = np.repeat(np.arange(NODES), DEGREE)
    targets = rng.integers(0, NODES, sources.size)
    order = np.argsort(labels, kind="stable")
    bounds = np.searchsorted(labels[order], np.arange(CLASSES + 1))
    of = labels[sources]
    alike = order[bounds[of] + rng.integers(0, NODES, of.size) % np.diff(bounds)[of]]
    targets = np.where(rng.random(sources.size) < 0.5, alike, targets)
    edges = pa.table({"a": sources, "b": targets})
    with TemporaryDirectory() as folder:
        for name, rows in (("node", nodes), ("edge", edges)):
            pq.write_table(rows, f"{folder}/{name}.parquet")
        database.execute(f"CREATE TABLE node AS SELECT * REPLACE (x::FLOAT[{WIDTH}] AS x) FROM '{folder}/node.parquet'")
        database.execute(f"CREATE TABLE edge AS SELECT * FROM '{folder}/edge.parquet'")
    database.script(GRAPH.format(stored=stored))


def _with(task: Task, stored: str) -> Task:
    """Return the task with STORED in its FEATURES clause."""
    return replace(task, load=task.load.replace("AS x", f"AS x {stored}"))


if __name__ == "__main__":
    main()

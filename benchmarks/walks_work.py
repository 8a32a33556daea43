"""The work of one process for the measurements of random walks, by name, with figures as JSON.

python -m benchmarks.walks_work walk '{"database": "walks.snapdb", …}'
"""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import islice
from pathlib import Path

import snapdb
from benchmarks.graphs import load_graph, write_edges
from benchmarks.storage_bench import Figures
from benchmarks.storage_work import main

LOAD = """
CREATE TABLE node AS SELECT range AS id FROM range({nodes});
CREATE TABLE edge AS SELECT src, dst FROM '{edges}';
CREATE PROPERTY GRAPH g VERTEX TABLES (node KEY (id))
  EDGE TABLES (edge SOURCE KEY (src) REFERENCES node (id) DESTINATION KEY (dst) REFERENCES node (id));
CREATE SNAPSHOT whole OF g;
"""
WALK = """WALK FROM whole SEEDS (SELECT id FROM node) AS node LENGTH {length} DIRECTION IN{bias}
  BATCH {batch} REPEATABLE (7)"""


def create(database: str, size: str) -> Figures:
    """Create a database whose snapshot `whole` is the graph, without features."""
    graph = load_graph(size)
    edges = Path(database).with_suffix(".parquet")
    write_edges(graph, edges)
    began = time.perf_counter()
    with snapdb.connect(database) as db:
        db.script(LOAD.format(nodes=len(graph.labels), edges=edges))
    edges.unlink()
    return {"seconds": time.perf_counter() - began}


def walk(
    database: str, cases: dict[str, str], length: int, batch: int, batches: dict[str, int], rounds: int, threads: int
) -> Figures:
    """Time batches of the stream, with the given clauses by case, after one batch that warms up.

    `spent` has the steps, processor seconds and wall-clock seconds of each round, by case.
    """
    began = time.perf_counter()
    spent: dict[str, list[tuple[int, float, float]]] = {}
    opened: dict[str, float] = {}
    with snapdb.connect(database) as db:
        for name, bias in cases.items():
            clock = time.perf_counter()
            with db.stream(WALK.format(length=length, bias=bias, batch=batch), threads=threads) as stream:
                found = iter(stream)
                next(found)
                opened[name] = time.perf_counter() - clock
                spent[name] = []
                for _ in range(rounds):
                    cpu, clock = time.process_time(), time.perf_counter()
                    drawn = [each.walks for each in islice(found, batches[name])]
                    taken = time.process_time() - cpu, time.perf_counter() - clock
                    spent[name].append((sum(int((walks[:, 1:] >= 0).sum()) for walks in drawn), *taken))
    return {"seconds": time.perf_counter() - began, "spent": spent, "opened": opened}


WORK: dict[str, Callable[..., Figures]] = {"create": create, "walk": walk}
"""Name → a function that accepts plain values and returns figures."""


if __name__ == "__main__":
    main(WORK)

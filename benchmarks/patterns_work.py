"""The work of one process for the measurements of graph patterns, by name, with figures as JSON.

    python -m benchmarks.patterns_work query '{"root": "uniform-1000-5000", …}'

Every piece of work runs on one core: the process is pinned to it before a library starts threads.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import snapdb
from benchmarks.patterns_data import create, load_database
from benchmarks.storage_bench import Figures
from benchmarks.storage_work import main
from snapdb.arrays import Int64s

ENDS = 1000
"""The number of vertices of the graph on which queries are warmed up, half of the number of its edges' ends."""


def query(root: str, sql: str, nodes: int, step: int) -> Figures:
    """Time one query of snapdb that returns Arrow, after it ran on a small graph to compile its kernels.

    `seconds` starts at `execute`, so it contains the opening of the snapshot. `$step` in the query becomes the step
    between the ids of sources. A row has the columns `a`, the source, and `n`, the value that is checked.
    """
    _pin()
    with tempfile.TemporaryDirectory() as folder:
        _small(Path(folder))
        with snapdb.connect(Path(folder) / "small.snapdb", threads=1) as db:
            db.execute(sql.replace("$step", "2")).arrow()
    figures: Figures = {}
    with _timed(figures, "opening_"):
        db = snapdb.connect(Path(root) / "graph.snapdb", threads=1)
    with db:
        with _timed(figures):
            rows = db.execute(sql.replace("$step", str(step))).arrow()
        return {**figures, "rows": rows.num_rows, "sums": _sums(rows, nodes, step)}


def pairs(root: str, queries: dict[str, tuple[str, str]], rounds: int) -> Figures:
    """Time pairs of queries with the same rows: a pattern, the join, and the join again, in each round.

    The order alternates between rounds. Returns the processor seconds of each query by name.
    """
    _pin()
    spent: dict[str, list[list[float]]] = {name: [] for name in queries}
    elapsed: dict[str, list[float]] = {name: [] for name in queries}
    counted = {}
    began = time.perf_counter()
    with snapdb.connect(Path(root) / "graph.snapdb", threads=1) as db:
        for name, both in queries.items():
            one, other = (db.execute(sql).fetchall() for sql in both)
            assert one == other, (name, one, other)
            counted[name] = one[0][0]
        for turn in range(rounds):
            for name, (pattern, join) in queries.items():
                seconds = [0.0, 0.0, 0.0]
                for place in (0, 1, 2) if turn % 2 == 0 else (2, 1, 0):
                    clock, cpu = time.perf_counter(), time.process_time()
                    db.execute(join if place else pattern).fetchall()
                    seconds[place] = time.process_time() - cpu
                    if place == 0:
                        elapsed[name].append(time.perf_counter() - clock)
                spent[name].append(seconds)
    return {"seconds": time.perf_counter() - began, "spent": spent, "elapsed": elapsed, "rows": counted}


def igraph(root: str, nodes: int, task: str, sources: list[int], targets: list[int]) -> Figures:
    """Time igraph's shortest paths from sources to targets, source by source."""
    import igraph as ig  # type: ignore[import-untyped]  # noqa: PLC0415  # a peer, which need not be installed

    _pin()
    figures: Figures = {}
    with _timed(figures, "opening_"):
        ends = np.load(Path(root) / "ends.npy")
        graph = ig.Graph(nodes, ends, directed=True)
        del ends
        weights = np.load(Path(root) / "cost.npy").tolist() if task == "costs" else None
        graph.neighbors(0)
    found = []
    with _timed(figures):
        for source in sources:
            if task == "paths":
                found.append(graph.get_shortest_paths(source, to=targets, mode="out", output="vpath"))
            else:
                found += graph.distances([source], targets, mode="out", weights=weights)
    return {**figures, "sums": {str(s): _total(each, task) for s, each in zip(sources, found, strict=True)}}


def networkx(root: str, nodes: int, sources: list[int], targets: list[int]) -> Figures:
    """Time networkx's shortest path lengths and paths from sources to all vertices, of which targets are then kept."""
    import networkx as nx  # type: ignore[import-untyped]  # noqa: PLC0415

    _pin()
    figures: Figures = {}
    with _timed(figures, "opening_"):
        graph = nx.DiGraph()
        graph.add_nodes_from(range(nodes))
        ends = np.load(Path(root) / "ends.npy")
        graph.add_edges_from(zip(ends[:, 0].tolist(), ends[:, 1].tolist(), strict=True))
        del ends
    found, paths = {}, {}
    with _timed(figures, "lengths_"):
        for source in sources:
            lengths = nx.single_source_shortest_path_length(graph, source)
            found[str(source)] = sum(lengths[t] for t in targets if t in lengths)
    with _timed(figures, "paths_"):
        for source in sources:
            each = nx.single_source_shortest_path(graph, source)
            paths[str(source)] = sum(len(each[t]) - 1 for t in targets if t in each)
            del each
    assert found == paths
    return {**figures, "seconds": figures["lengths_seconds"] + figures["paths_seconds"], "sums": found}


def duckdb(root: str, sql: str, step: int) -> Figures:
    """Time a query of DuckDB over the same edges in a table in memory."""
    import duckdb as engine  # noqa: PLC0415  # snapdb's own is reached through snapdb.sql_engine only

    _pin()
    figures: Figures = {}
    with engine.connect(config={"threads": 1}) as connection:
        with _timed(figures, "opening_"):
            connection.execute(f"CREATE TABLE knows AS SELECT * FROM '{root}/knows.parquet'")
        connection.execute(sql.replace("$step", str(step * 100))).fetchall()
        with _timed(figures):
            rows = connection.execute(sql.replace("$step", str(step))).fetchall()
    return {**figures, "sums": [int(value) for value in rows[0]]}


def _pin() -> None:
    """Pin the process to the last of its cores."""
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})


@contextmanager
def _timed(figures: Figures, prefix: str = "") -> Iterator[None]:
    """Add the wall-clock `seconds` and the processor seconds `cpu` of a block to figures."""
    clock, cpu = time.perf_counter(), time.process_time()
    yield
    figures[f"{prefix}seconds"] = time.perf_counter() - clock
    figures[f"{prefix}cpu"] = time.process_time() - cpu


def _small(folder: Path) -> None:
    """Create a database with a random graph on which 1,000 vertices are sources."""
    rng, edges = np.random.default_rng(1), 10 * ENDS
    ends = rng.integers(0, 2 * ENDS, (2, edges))
    times = pa.array(np.arange(edges), pa.timestamp("us"))
    table = pa.table({"src": ends[0], "dst": ends[1], "w": rng.integers(1, 11, edges, dtype=np.int32), "t": times})
    pq.write_table(table, folder / "knows.parquet")
    load_database(folder / "small.snapdb", folder / "knows.parquet", 2 * ENDS)


def _sums(rows: pa.Table, nodes: int, step: int) -> Any:
    """Return the sum of `n` per source, or the only row."""
    if "a" not in rows.column_names:
        return [int(value) for value in rows.to_pylist()[0].values()]
    values = rows.column("n").combine_chunks()
    if pa.types.is_list(values.type):
        lengths: Int64s = values.value_lengths().to_numpy() - 1
    else:
        lengths = values.cast(pa.int64()).to_numpy()
    sums = np.bincount(rows.column("a").to_numpy(), lengths, minlength=nodes)
    return {str(source): int(sums[source]) for source in range(0, nodes, step)}


def _total(found: list[Any], task: str) -> int:
    """Return the sum of the lengths or costs of the paths to the targets that were reached."""
    if task == "paths":
        return sum(len(path) - 1 for path in found if path)
    return int(sum(value for value in found if value != float("inf")))


WORK: dict[str, Callable[..., Figures]] = {
    "create": create,
    "duckdb": duckdb,
    "igraph": igraph,
    "networkx": networkx,
    "pairs": pairs,
    "query": query,
}
"""Name → a function that accepts plain values and returns figures."""


if __name__ == "__main__":
    main(WORK)

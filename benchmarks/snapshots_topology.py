"""Adjacency from Parquet: snapdb's rows against DuckDB's ORDER BY, each in a process of its own.

    python -m benchmarks.snapshots_topology --edges 20000000

Edges have dense ids, an R-MAT-like degree distribution and ascending times, as a table that grew holds them; `shuffled`
is the same file in no order.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.memory import TreeMemory
from benchmarks.report import table
from snapdb.storage.topology import build_rows

__all__ = ["METHODS"]

THREADS = 2
_ROWS = 1_000_000
_NODES_PER_EDGE = 0.1
_WARM = 1000


def write_edges(path: Path, edges: int, nodes: int, *, shuffled: bool, seed: int = 1) -> None:
    """A Parquet file of `source, destination, e_id, time`; nothing when it is there."""
    if path.exists():
        return
    part = path.with_suffix(".part")
    columns = ("source", "destination", "e_id", "time")
    with pq.ParquetWriter(part, pa.schema([(name, pa.int64()) for name in columns]), compression="snappy") as writer:
        for start in range(0, edges, _ROWS):
            rng = np.random.default_rng((seed, start))
            count = min(_ROWS, edges - start)
            near, far = (_skewed(rng, count, nodes) for _ in range(2))
            ids = np.arange(start, start + count)
            # A chunk shuffled by a stride that is prime to most counts: every row far from its neighbours in time.
            times = (ids * 7_368_787 % edges if shuffled else ids) * 10 + 1_600_000_000_000_000
            writer.write_table(pa.table([far, near, ids, times], names=columns))
    part.rename(path)


def _skewed(rng: np.random.Generator, count: int, nodes: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Nodes whose popularity falls off as a power, spread over all ids."""
    drawn = (rng.random(count) ** 3 * nodes).astype(np.int64)
    return drawn * 2_654_435_761 % nodes


def snapdb_rows(file: Path, edges: int, nodes: int, folder: Path) -> dict[str, Any]:
    """DuckDB's scan as Arrow batches, into the arrays of a topology."""
    connection = _connection(folder)
    reader = connection.sql(f"SELECT source, destination, e_id, time FROM '{file}'").to_arrow_reader(100_000)
    return build_rows(reader, nodes, nodes, edges, edges, folder)


def duckdb_table(file: Path, edges: int, nodes: int, folder: Path) -> dict[str, Any]:
    """A sorted table in DuckDB's memory: no file is written."""
    _connection(folder).execute(f"CREATE TABLE sorted AS SELECT * FROM '{file}' ORDER BY destination, time, e_id")
    return {}


def duckdb_copy(file: Path, edges: int, nodes: int, folder: Path) -> dict[str, Any]:
    """A sorted Parquet file."""
    ordered = f"SELECT * FROM '{file}' ORDER BY destination, time, e_id"
    _connection(folder).execute(f"COPY ({ordered}) TO '{folder}/sorted.parquet'")
    return {}


METHODS = {"snapdb": snapdb_rows, "DuckDB CREATE … ORDER BY": duckdb_table, "DuckDB COPY … ORDER BY": duckdb_copy}
"""What each process may run: with a file, its number of edges, that of nodes, and a folder to write to."""


def _connection(folder: Path) -> duckdb.DuckDBPyConnection:
    return duckdb.connect(config={"threads": THREADS, "temp_directory": str(folder / "spill")})


def _work(method: str, file: Path, edges: int, nodes: int) -> None:
    """Runs one method and prints its figures as JSON; compilers warm up on a few edges first."""
    with tempfile.TemporaryDirectory(dir=file.parent) as folder:
        if method == "snapdb":
            small = Path(folder) / "warm"
            small.mkdir()
            write_edges(small / "edges.parquet", _WARM, _WARM, shuffled=False)
            snapdb_rows(small / "edges.parquet", _WARM, _WARM, small)
        clock, cpu = time.perf_counter(), time.process_time()
        METHODS[method](file, edges, nodes, Path(folder))
        print(json.dumps({"seconds": time.perf_counter() - clock, "cpu": time.process_time() - cpu}))


def _measure(method: str, file: Path, edges: int, nodes: int) -> tuple[str, ...]:
    """Seconds by the clock and of CPU, and peak memory, of a fresh process."""
    with open(file, "rb") as content:  # into the page cache
        while content.read(1 << 24):
            pass
    call = [sys.executable, "-m", "benchmarks.snapshots_topology", "--work", method, "--file", str(file)]
    process = subprocess.Popen([*call, "--edges", str(edges), "--nodes", str(nodes)], stdout=subprocess.PIPE)
    with process, TreeMemory(process.pid) as memory:
        out, _ = process.communicate()
    if process.returncode:
        raise SystemExit(f"{method} failed")
    spent = json.loads(out)
    return f"{spent['seconds']:.1f} s", f"{spent['cpu']:.1f} s", f"{memory.rss / 2**30:.2f} GiB"


def main() -> None:
    """Prints one table: a row a method and order."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--edges", type=int, default=20_000_000)
    parser.add_argument("--nodes", type=int, help="a tenth of the edges when not given")
    parser.add_argument("--folder", type=Path, default=Path(__file__).parent / "data")
    parser.add_argument("--methods", nargs="*", choices=METHODS, default=list(METHODS))
    parser.add_argument("--orders", nargs="*", choices=("ordered", "shuffled"), default=("ordered", "shuffled"))
    parser.add_argument("--work", help=argparse.SUPPRESS)
    parser.add_argument("--file", type=Path, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    nodes = asked.nodes or int(asked.edges * _NODES_PER_EDGE)
    if asked.work:
        _work(asked.work, asked.file, asked.edges, nodes)
        return
    lines = []
    for order in asked.orders:
        file = asked.folder / f"edges-{asked.edges}-{nodes}-{order}.parquet"
        write_edges(file, asked.edges, nodes, shuffled=order == "shuffled")
        lines += [(name, order, *_measure(name, file, asked.edges, nodes)) for name in asked.methods]
    print(table(("method", "times", "clock", "CPU", "peak RSS"), lines))


if __name__ == "__main__":
    main()

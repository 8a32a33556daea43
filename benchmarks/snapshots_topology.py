"""Adjacency from Parquet: snapdb's rows compared with DuckDB's ORDER BY, and the whole of CREATE SNAPSHOT."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.report import table
from benchmarks.snapshots_data import Setting
from benchmarks.storage_bench import Goal, Section, memory_cells, turns
from snapdb.storage.arrays.topology import build_rows

THREADS = 2
CREATE = "CREATE SNAPSHOT whole OF phone"
OURS, IN_MEMORY, AS_FILE = "snapdb's rows, as .npy", "DuckDB CREATE TABLE … ORDER BY", "DuckDB COPY … ORDER BY"


@dataclass(frozen=True, slots=True)
class Edges:
    """A Parquet file with source, destination and ts, whose ids are dense."""

    file: Path
    edges: int
    nodes: int

    @property
    def query(self) -> str:
        """The scan with which every method starts. An edge's id is its row number in the file."""
        return (
            "SELECT source, destination, file_row_number AS e_id, epoch_us(ts) AS time "
            f"FROM read_parquet('{self.file}', file_row_number = true)"
        )


def snapdb_rows(found: Edges, folder: Path) -> None:
    """Write a topology's arrays from DuckDB's scan, which yields Arrow batches."""
    reader = _connection(folder).sql(found.query).to_arrow_reader(100_000)
    build_rows(reader, found.nodes, found.nodes, found.edges, found.edges, folder)


def duckdb_table(found: Edges, folder: Path) -> None:
    """Create a sorted table in DuckDB's memory without writing a file."""
    _connection(folder).execute(f"CREATE TABLE sorted AS {found.query} ORDER BY destination, time, e_id")


def duckdb_copy(found: Edges, folder: Path) -> None:
    """Write a sorted Parquet file."""
    ordered = f"{found.query} ORDER BY destination, time, e_id"
    _connection(folder).execute(f"COPY ({ordered}) TO '{folder}/sorted.parquet'")


METHODS: dict[str, Callable[[Edges, Path], None]] = {OURS: snapdb_rows, IN_MEMORY: duckdb_table, AS_FILE: duckdb_copy}
"""Method → the function that a process runs. Its arguments are the edges and an output folder."""


def warm_up_rows(method: str, folder: Path) -> None:
    """Compile the kernels by running the method on a few edges."""
    if method == OURS:
        small = folder / "warm"
        small.mkdir()
        times = pa.array(range(1000), pa.timestamp("us"))
        pq.write_table(pa.table({"source": range(1000), "destination": range(1000), "ts": times}), small / "e.parquet")
        snapdb_rows(Edges(small / "e.parquet", 1000, 1000), small)


def measure_topology(setting: Setting) -> Section:
    """Measure the seconds and peak memory of each method and of the statement."""
    file = setting.file("base")
    asked = {"file": file, "edges": setting.edges, "nodes": setting.nodes}
    cases = {name: partial(setting.run, "rows", warm=(file,), method=name, **asked) for name in METHODS}
    whole = f"`{CREATE}`"

    def create() -> dict[str, object]:
        database = setting.copy("bare")
        return setting.run("statements", warm=(database,), database=database, statements=[CREATE], ready=True)

    seen = turns(setting.bench, {**cases, whole: create})
    ours = seen[OURS]["seconds"]
    heads = ("what", "seconds", "rounds", "time against snapdb's rows", "peak RSS, MiB", "peak PSS, MiB")
    lines = [
        (name, f"{row['seconds']:.2f}", row["spread"], f"{row['seconds'] / ours:.2f}x", *memory_cells(row))
        for name, row in seen.items()
    ]
    text = (
        f"A Parquet file of {setting.edges:,} edges in time order ({file.stat().st_size / 1e6:,.0f} MB) between "
        f"{setting.nodes:,} nodes, read once before each run, by destination, time and number in the file. "
        f"All on {THREADS} threads; none of the first three syncs. The statement also looks up the vertices' keys, "
        "checks the table, and hashes and syncs what it publishes.\n\n" + table(heads, lines)
    )
    peer = min(seen[IN_MEMORY]["seconds"], seen[AS_FILE]["seconds"])
    peak = max(seen[name]["peak_rss"] for name in (OURS, whole)) / 2**30
    return Section(
        "Topology from Parquet",
        text,
        (
            Goal(
                "topology against the faster of DuckDB's ORDER BYs",
                "≥ 2.5x faster",
                f"{peer / ours:.2f}x",
                peer >= 2.5 * ours,
            ),
            Goal("peak RSS, the statement included", "≤ 4 GiB", f"{peak:.2f} GiB", peak <= 4),
        ),
    )


def _connection(folder: Path) -> duckdb.DuckDBPyConnection:
    return duckdb.connect(config={"threads": THREADS, "temp_directory": str(folder / "spill")})

"""The graph on which snapshots are measured, as Parquet files in time order, and databases that contain it.

As in `benchmarks.graphs`, its edges are R-MAT pairs and one partner per node, in both directions. Parallel edges are
kept.
"""

from __future__ import annotations

import os
import shutil
import sys
import time
from calendar import monthrange
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.graphs import QUADRANTS, rmat
from benchmarks.storage_bench import Bench, fresh

MODULE = "benchmarks.snapshots_work"
"""The module that performs pieces of work in separate processes."""

CALLS = {"base": 1.0, **{f"more-{i}": 0.01 for i in range(1, 6)}, "late": 0.01, "five": 0.05, "ten": 0.1}
"""File → its share of the edges. Except for `base` and `late`, the files contain edges from after the year. The edges
of `late` are from within the year."""

MIDDLE = "TIMESTAMP '2025-07-02 12:00:00'"
"""The time before which half of the edges of `base` occur."""

_YEAR = 365 * 86_400_000_000
_BEGIN = 1_735_689_600_000_000
"""2025-01-01 in microseconds."""
_ROWS = 1 << 20
_SMALL = 1 << 20
"""The size in bytes below which a database file is copied, because catalogs change and locks belong to one database."""

PEOPLE = "CREATE TABLE person AS SELECT range AS id FROM range({nodes})"
TABLE = "CREATE TABLE called AS SELECT * FROM '{file}'"
GRAPH = """CREATE PROPERTY GRAPH phone VERTEX TABLES (person KEY (id)) EDGE TABLES (called
  SOURCE KEY (source) REFERENCES person (id) DESTINATION KEY (destination) REFERENCES person (id) EVENT TIME (ts))"""


@dataclass(frozen=True, slots=True)
class Setting:
    """The numbers of edges and nodes, the number of rounds, and the location of the files."""

    bench: Bench
    edges: int
    nodes: int
    files: Path

    def file(self, name: str) -> Path:
        """Return the Parquet file of an entry of `CALLS`."""
        return self.files / f"{name}.parquet"

    def prepare(self) -> None:
        """Write missing Parquet files, and create the database with the tables and the graph."""
        self.files.mkdir(parents=True, exist_ok=True)
        if not all(self.file(name).exists() for name in CALLS):
            self.run("write_calls", edges=self.edges, nodes=self.nodes, folder=self.files)
        load = [PEOPLE.format(nodes=self.nodes), TABLE.format(file=self.file("base")), GRAPH]
        self.run("statements", database=self._kept("bare"), statements=load)

    def copy(self, name: str) -> Path:
        """Return a new copy of a database: 'bare' has tables and a graph, and 'base' also has the snapshot `whole`.

        The snapshot provides a topology. Files that never change are linked instead of copied.
        """
        kept = self._kept(name)
        if not kept.exists():
            shutil.copytree(self._kept("bare"), kept, copy_function=_linked)
            self.run("statements", database=kept, statements=["CREATE SNAPSHOT whole OF phone"])
        target = self.bench.place(f"{name}-copy.snapdb")
        shutil.copytree(kept, target, copy_function=_linked)
        return target

    def run(self, work: str, /, *, warm: tuple[Path, ...] = (), **arguments: Any) -> dict[str, Any]:
        """Run a piece of work in a new process and return its measurements."""
        began = time.perf_counter()
        figures = fresh(work, module=MODULE, warm=warm, **arguments)
        print(f"{work}: {time.perf_counter() - began:.0f} s", file=sys.stderr)
        return figures

    def seeds(self, count: int) -> str:
        """Return a SELECT of about `count` evenly spaced vertices, or of all vertices if there are fewer."""
        return f"SELECT id FROM person WHERE id % {max(self.nodes // count, 1)} = 0"

    def _kept(self, name: str) -> Path:
        return self.bench.folder / f"{name}.snapdb"


def months() -> list[str]:
    """Return the last moment of each month of the year."""
    return [f"TIMESTAMP '2025-{month:02}-{monthrange(2025, month)[1]} 23:59:59.999999'" for month in range(1, 13)]


def write_calls(edges: int, nodes: int, folder: Path) -> dict[str, Any]:
    """Write the files of `CALLS`: source, destination, ts (ascending except in `late`) and kind (random, 0 to 99)."""
    began = time.perf_counter()
    names = np.random.default_rng(1).permutation(nodes).astype(np.int32)
    first = 0
    for number, (name, share) in enumerate(CALLS.items()):
        count = round(edges * share)
        starts = 0 if name in ("base", "late") else edges + first
        _write(folder / f"{name}.parquet", partial(_chunk, number, names, edges, starts, name == "late"), count)
        first += 0 if name in ("base", "late") else count
    return {"seconds": time.perf_counter() - began}


def _write(path: Path, chunk: Any, count: int) -> None:
    part = path.with_suffix(".part")
    schema = chunk(0, 1).schema
    with pq.ParquetWriter(part, schema, compression="zstd", compression_level=3, use_dictionary=["kind"]) as writer:
        for start in range(0, count, _ROWS):
            writer.write_table(chunk(start, min(_ROWS, count - start)), row_group_size=122_880)
    part.rename(path)


def _chunk(
    number: int, names: npt.NDArray[np.int32], edges: int, starts: int, late: bool, start: int, count: int
) -> pa.Table:
    """Return edges of one file from `start` on. `starts` is the number of time steps before the file."""
    rng, nodes, pairs = np.random.default_rng((number, start)), names.size, (count + 1) // 2
    bounds = np.cumsum(np.array(QUADRANTS) * 65536).astype(np.int64)
    ends = np.empty((2, pairs), np.int32)
    rmat(nodes, int(np.ceil(np.log2(nodes))), pairs, int(rng.integers(1 << 62)), names, bounds, ends[0], ends[1])
    if not number:  # in `base`, every n-th pair connects the next node to a random one, so that no node is isolated
        every = max(edges // 2 // nodes, 1)
        mine = np.arange(-(start // 2) % every, pairs, every)
        ends[0, mine] = (start // 2 + mine) // every % nodes
        ends[1, mine] = (ends[0, mine] + rng.integers(1, nodes, mine.size)) % nodes
    source, target = (np.stack([ends[i], ends[1 - i]], axis=1).reshape(-1)[:count] for i in (0, 1))
    steps = rng.integers(0, edges, count) if late else starts + start + np.arange(count)
    return pa.table(
        {
            "source": source.astype(np.int64),
            "destination": target.astype(np.int64),
            "ts": pa.array(_BEGIN + steps * (_YEAR // edges), pa.timestamp("us")),
            "kind": rng.integers(0, 100, count, dtype=np.int16),
        }
    )


def _linked(source: str, target: str) -> None:
    if os.path.getsize(source) < _SMALL or "catalog" in os.path.basename(source):
        shutil.copy2(source, target)
    else:
        os.link(source, target)

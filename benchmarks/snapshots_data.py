"""The graph that snapshots are measured on, in Parquet in time order, and databases that hold it.

It is drawn as that of `benchmarks.graphs`: R-MAT pairs and one partner a node, both ways; parallel edges stay.
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
"""What does the pieces of work in processes of their own."""

CALLS = {"base": 1.0, **{f"more-{i}": 0.01 for i in range(1, 6)}, "late": 0.01, "five": 0.05, "ten": 0.1}
"""By file, its share of the edges. All but `base` and `late` hold edges that come after the year; `late` is of it."""

MIDDLE = "TIMESTAMP '2025-07-02 12:00:00'"
"""Half of the edges of `base` are from before it."""

_YEAR = 365 * 86_400_000_000
_BEGIN = 1_735_689_600_000_000
"""2025-01-01 in microseconds."""
_ROWS = 1 << 20
_SMALL = 1 << 20
"""Bytes up to which a file of a database is copied: catalogs change and locks belong to one of them."""

PEOPLE = "CREATE TABLE person AS SELECT range AS id FROM range({nodes})"
TABLE = "CREATE TABLE called AS SELECT * FROM '{file}'"
GRAPH = """CREATE PROPERTY GRAPH phone VERTEX TABLES (person KEY (id)) EDGE TABLES (called
  SOURCE KEY (source) REFERENCES person (id) DESTINATION KEY (destination) REFERENCES person (id) EVENT TIME (ts))"""


@dataclass(frozen=True, slots=True)
class Setting:
    """How many edges and nodes, how often, and where the files are."""

    bench: Bench
    edges: int
    nodes: int
    files: Path

    def file(self, name: str) -> Path:
        """The Parquet file of some of `CALLS`."""
        return self.files / f"{name}.parquet"

    def prepare(self) -> None:
        """Write the Parquet files where they are missing, and the databases of the tables and of the topology."""
        self.files.mkdir(parents=True, exist_ok=True)
        if not all(self.file(name).exists() for name in CALLS):
            self.run("write_calls", edges=self.edges, nodes=self.nodes, folder=self.files)
        load = [PEOPLE.format(nodes=self.nodes), TABLE.format(file=self.file("base")), GRAPH]
        self.run("statements", database=self._kept("bare"), statements=load)

    def copy(self, name: str) -> Path:
        """A fresh database: 'bare' has tables and graph, 'base' also the snapshot `whole`, so that a topology is there.

        Files that never change are linked, not copied.
        """
        kept = self._kept(name)
        if not kept.exists():
            shutil.copytree(self._kept("bare"), kept, copy_function=_linked)
            self.run("statements", database=kept, statements=["CREATE SNAPSHOT whole OF phone"])
        target = self.bench.place(f"{name}-copy.snapdb")
        shutil.copytree(kept, target, copy_function=_linked)
        return target

    def run(self, work: str, /, *, warm: tuple[Path, ...] = (), **arguments: Any) -> dict[str, Any]:
        """What a piece of work measured in a fresh process."""
        began = time.perf_counter()
        figures = fresh(work, module=MODULE, warm=warm, **arguments)
        print(f"{work}: {time.perf_counter() - began:.0f} s", file=sys.stderr)
        return figures

    def seeds(self, count: int) -> str:
        """A SELECT of about that many vertices, spread evenly; at least as many where there are."""
        return f"SELECT id FROM person WHERE id % {max(self.nodes // count, 1)} = 0"

    def _kept(self, name: str) -> Path:
        return self.bench.folder / f"{name}.snapdb"


def months() -> list[str]:
    """The last moment of each month of the year."""
    return [f"TIMESTAMP '2025-{month:02}-{monthrange(2025, month)[1]} 23:59:59.999999'" for month in range(1, 13)]


def write_calls(edges: int, nodes: int, folder: Path) -> dict[str, Any]:
    """Write the files of `CALLS`: source, destination, ts ascending (but in `late`), kind (0 to 99 by chance)."""
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
    """Edges `start` and on of one file; `starts` counts how many time steps came before it."""
    rng, nodes, pairs = np.random.default_rng((number, start)), names.size, (count + 1) // 2
    bounds = np.cumsum(np.array(QUADRANTS) * 65536).astype(np.int64)
    ends = np.empty((2, pairs), np.int32)
    rmat(nodes, int(np.ceil(np.log2(nodes))), pairs, int(rng.integers(1 << 62)), names, bounds, ends[0], ends[1])
    if not number:  # in the first file, every so many pairs one is of the next node with any other: none is alone
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

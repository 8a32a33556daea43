"""The generated graphs on which graph patterns are measured: arrays for the peers, and databases for snapdb."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import snapdb
from benchmarks.storage_bench import Figures
from snapdb.arrays import Int64s

_POWER = 3
"""With edge r of n at the end floor(nodes * (r / n)^3), degrees have a power law with exponent 2.5."""
_SCATTER = ((104_729, 271_828), (1_299_709, 577_215))
"""The factor and the summand that scatter sources, and destinations, over the ids, so that degrees are unrelated. The
factors are primes that divide no round number of nodes."""
_BEGIN = 1_735_689_600_000_000
"""2025-01-01 in microseconds."""
_YEAR = 365 * 86_400_000_000

LOAD = """
CREATE TABLE person AS SELECT range AS id, (hash(range) % 100)::INTEGER AS age FROM range({nodes});
CREATE TABLE knows AS SELECT * FROM '{file}';
CREATE PROPERTY GRAPH g VERTEX TABLES (person KEY (id)) EDGE TABLES (knows
  SOURCE KEY (src) REFERENCES person (id) DESTINATION KEY (dst) REFERENCES person (id) EVENT TIME (t));
CREATE SNAPSHOT s OF g;
"""


@dataclass(frozen=True, slots=True)
class GraphFiles:
    """A generated graph and the location of its files."""

    folder: Path
    degrees: Literal["uniform", "power law"]
    """Whether ends are drawn uniformly, or with degrees that follow a power law on both sides."""
    nodes: int
    edges: int

    @property
    def name(self) -> str:
        """The name of the graph in reports."""
        return f"{self.degrees}, {short(self.nodes)} vertices, {short(self.edges)} edges"

    @property
    def root(self) -> Path:
        """The folder with the graph's files."""
        return self.folder / f"{self.degrees.replace(' ', '-')}-{self.nodes}-{self.edges}"

    @property
    def database(self) -> Path:
        """The database with the graph `g` and its snapshot `s`."""
        return self.root / "graph.snapdb"

    @property
    def parquet(self) -> Path:
        """The Parquet file of the edges."""
        return self.root / "knows.parquet"


def short(count: int) -> str:
    """Return a number with K or M.

    >>> short(10_000_000), short(2_500)
    ('10M', '2.5K')
    """
    for size, unit in ((1_000_000, "M"), (1000, "K")):
        if count >= size:
            return f"{count / size:g}{unit}"
    return str(count)


def create(folder: str, degrees: Literal["uniform", "power law"], nodes: int, edges: int) -> Figures:
    """Write the arrays, the Parquet file and the database of a graph, and return the seconds of each.

    The arrays are `ends.npy`, int64 [edges, 2], and `cost.npy`, int32 [edges].
    """
    files = GraphFiles(Path(folder), degrees, nodes, edges)
    files.root.mkdir(parents=True)
    rng = np.random.default_rng(edges)
    ends = np.stack([_ends(rng, files, *each) for each in _SCATTER], axis=1)
    cost = rng.integers(1, 11, edges, dtype=np.int32)
    np.save(files.root / "ends.npy", ends)
    np.save(files.root / "cost.npy", cost)
    times = _BEGIN + np.sort(rng.integers(0, _YEAR, edges))
    table = pa.table({"src": ends[:, 0], "dst": ends[:, 1], "w": cost, "t": pa.array(times, pa.timestamp("us"))})
    pq.write_table(table, files.parquet, compression="zstd")
    began = time.perf_counter()
    load_database(files.database, files.parquet, nodes)
    return {"seconds": time.perf_counter() - began}


def load_database(path: Path, parquet: Path, nodes: int) -> None:
    """Create a database with the graph `g` of a Parquet file's edges, and its snapshot `s`."""
    with snapdb.connect(path) as db:
        db.script(LOAD.format(nodes=nodes, file=parquet))


def _ends(rng: np.random.Generator, files: GraphFiles, factor: int, summand: int) -> Int64s:
    """Return one end of each edge."""
    power = _POWER if files.degrees == "power law" else 1
    rank = (files.nodes * rng.random(files.edges) ** power).astype(np.int64)
    return (rank * factor + summand) % files.nodes

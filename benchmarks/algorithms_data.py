"""The generated graphs on which algorithms are measured: rows of both directions as arrays, and a database.

python -m benchmarks.algorithms_data FOLDER DEGREES NODES EDGES DATABASE
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import snapdb
from snapdb.arrays import Int32s
from snapdb.kernels.algorithms.communities import group_nodes

_POWER = {"uniform": 1, "power law": 3}
"""With edge r of n at the end floor(nodes * (r / n)^3), degrees have a power law with exponent 2.5."""
_SCATTER = ((104_729, 271_828), (1_299_709, 577_215))
"""The factor and the summand that scatter sources, and destinations, over the ids, so that degrees are unrelated."""
BLOCK = 100
"""The number of nodes of a community of the graph `communities`."""
_INSIDE = 0.6
"""The share of its edges within communities."""

_LOAD = """
CREATE TABLE node AS SELECT range AS id FROM range({nodes});
CREATE TABLE edge AS SELECT * FROM '{file}';
CREATE PROPERTY GRAPH g VERTEX TABLES (node KEY (id))
  EDGE TABLES (edge SOURCE KEY (src) REFERENCES node (id) DESTINATION KEY (dst) REFERENCES node (id));
CREATE SNAPSHOT s OF g;
"""


def create(folder: Path, degrees: str, nodes: int, edges: int, database: bool) -> float:
    """Write `ends.npy`, the rows `in.*.npy` and `out.*.npy`, and a database. Returns the seconds that it took to load.

    `ends.npy` is int32 [edges, 2], indptr are int64 [nodes + 1], and indices int32 [edges].
    """
    folder.mkdir(parents=True)
    source, destination = _ends(degrees, nodes, edges)
    np.save(folder / "ends.npy", np.stack([source, destination], axis=1))
    for name, row, other in (("out", source, destination), ("in", destination, source)):
        indptr, positions = np.zeros(nodes + 1, np.int64), np.empty(edges, np.int32)
        group_nodes(row, np.arange(edges, dtype=np.int64), indptr, positions)
        indices = other[positions]
        np.save(folder / f"{name}.indptr.npy", indptr)
        np.save(folder / f"{name}.indices.npy", indices)
    if not database:
        return 0.0
    parquet = folder / "edge.parquet"
    pq.write_table(pa.table({"src": source, "dst": destination}), parquet, compression="none")
    began = time.perf_counter()
    with snapdb.connect(folder / "graph.snapdb") as db:
        db.script(_LOAD.format(nodes=nodes, file=parquet))
    parquet.unlink()
    return time.perf_counter() - began


def _ends(degrees: str, nodes: int, edges: int) -> tuple[Int32s, Int32s]:
    """Return the sources and destinations of edges."""
    rng = np.random.default_rng(edges)
    if degrees == "communities":
        source = rng.integers(0, nodes, edges, dtype=np.int32)
        near = source // BLOCK * BLOCK + rng.integers(0, BLOCK, edges, dtype=np.int32)
        far = rng.integers(0, nodes, edges, dtype=np.int32)
        destination = np.where((rng.random(edges) < _INSIDE) & (near < nodes), near, far)
        shuffled = rng.permutation(nodes).astype(np.int32)
        return shuffled[source], shuffled[destination]
    first, second = (_scattered(rng, degrees, nodes, edges, *each) for each in _SCATTER)
    return first, second


def _scattered(rng: np.random.Generator, degrees: str, nodes: int, edges: int, factor: int, summand: int) -> Int32s:
    """Return one end of each edge."""
    rank = (nodes * rng.random(edges) ** _POWER[degrees]).astype(np.int64)
    rank *= factor
    rank += summand
    rank %= nodes
    return rank.astype(np.int32)


if __name__ == "__main__":
    where, kind, vertices, count, wanted = sys.argv[1:]
    print(json.dumps({"loading": create(Path(where), kind, int(vertices), int(count), wanted == "True")}))

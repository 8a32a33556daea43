"""Synthetic benchmark graphs: similar to R-MAT graphs, symmetric, without duplicate edges or self loops.

The name of the size and a seed determine a graph byte for byte on any machine. Other systems that use the same recipe
are measured on the same graph.

    python -m benchmarks.graphs arxiv
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
from numba import njit, prange

DATA = Path(__file__).parent / "data"
"""The folder in which generated graphs are stored. Git ignores it."""

_NODES = 100_000
"""The number of nodes that are written to a Parquet file at once."""

Int32s = npt.NDArray[np.int32]
Int64s = npt.NDArray[np.int64]

GOLDEN = 0x9E3779B97F4A7C15
QUADRANTS = (0.45, 0.22, 0.22)
"""The probabilities of the first three quadrants in an R-MAT step. The fourth quadrant has the remaining
probability."""


@dataclass(frozen=True, slots=True)
class Size:
    """The size of a graph."""

    nodes: int
    edges: int
    """The target number of directed edges, before duplicates are dropped."""
    features: int
    train: int
    """The number of training seeds."""
    classes: int


SIZES = {
    "tiny": Size(2_000, 30_000, 16, 1_000, 8),
    "arxiv": Size(170_000, 2_300_000, 128, 90_000, 40),
    "products": Size(2_400_000, 124_000_000, 100, 196_000, 47),
    "ooc": Size(10_000_000, 150_000_000, 128, 1_000_000, 40),
}


@dataclass(frozen=True, slots=True)
class Graph:
    """Adjacency, features, labels and training seeds as memory-mapped, read-only arrays."""

    indptr: Int64s
    """[nodes + 1] row bounds. The in-neighbours of v are indices[indptr[v]:indptr[v + 1]], in ascending order."""
    indices: Int32s
    features: npt.NDArray[np.float32]
    labels: Int64s
    train: Int64s


def load_graph(name: str, seed: int = 1, folder: Path = DATA) -> Graph:
    """Return the graph of this size. The first call generates it and stores it in `folder`."""
    path = folder / f"{name}-{seed}"
    if not (path / "train.npy").exists():
        path.mkdir(parents=True, exist_ok=True)
        _make(SIZES[name], seed, path)
    parts = ("indptr", "indices", "features", "labels", "train")
    return Graph(*(np.load(path / f"{part}.npy", mmap_mode="r") for part in parts))


def write_parquet(graph: Graph, folder: Path) -> tuple[Path, Path]:
    """Write node.parquet (id, x, label, train) and edge.parquet (src, dst) unless they exist, and return the paths."""
    nodes, edges = folder / "node.parquet", folder / "edge.parquet"
    if nodes.exists() and edges.exists():
        return nodes, edges
    folder.mkdir(parents=True, exist_ok=True)
    count, width = graph.features.shape
    train = np.zeros(count, dtype=np.bool_)
    train[graph.train] = True
    _write(nodes, _node_parts(graph, train, width))
    write_edges(graph, edges)
    return nodes, edges


def write_edges(graph: Graph, path: Path) -> None:
    """Write a Parquet file with the columns src and dst."""
    _write(path, _edge_parts(graph))


def _write(path: Path, parts: Iterator[pa.Table]) -> None:
    first = next(parts)
    with pq.ParquetWriter(path, first.schema) as file:
        for part in (first, *parts):
            file.write_table(part)


def _node_parts(graph: Graph, train: npt.NDArray[np.bool_], width: int) -> Iterator[pa.Table]:
    """Yield the rows of node.parquet in parts, because the features can exceed memory."""
    for low in range(0, len(graph.labels), _NODES):
        some = slice(low, low + _NODES)
        values = pa.array(np.asarray(graph.features[some]).reshape(-1))
        rows = pa.FixedSizeListArray.from_arrays(values, width)
        ids = np.arange(low, low + len(graph.labels[some]))
        yield pa.table({"id": ids, "x": rows, "label": np.asarray(graph.labels[some]), "train": train[some]})


def _edge_parts(graph: Graph) -> Iterator[pa.Table]:
    """Yield the rows of edge.parquet in parts."""
    for low in range(0, len(graph.labels), _NODES):
        bounds = np.asarray(graph.indptr[low : low + _NODES + 1])
        sources = np.asarray(graph.indices[bounds[0] : bounds[-1]], dtype=np.int64)
        receivers = np.repeat(np.arange(low, low + bounds.size - 1), np.diff(bounds))
        yield pa.table({"src": sources, "dst": receivers})


def _make(size: Size, seed: int, path: Path) -> None:
    """Draw the graph and write its arrays. The order of the random draws is part of the recipe."""
    rng = np.random.default_rng(seed)
    names = rng.permutation(size.nodes).astype(np.int32)
    indptr, indices = _adjacency(size, seed, names)
    np.save(path / "indptr.npy", indptr)
    np.save(path / "indices.npy", indices)
    features = np.lib.format.open_memmap(
        path / "features.npy", mode="w+", dtype=np.float32, shape=(size.nodes, size.features)
    )
    for low in range(0, size.nodes, 200_000):
        high = min(size.nodes, low + 200_000)
        features[low:high] = rng.standard_normal((high - low, size.features), dtype=np.float32)
    features.flush()
    np.save(path / "labels.npy", rng.integers(0, size.classes, size.nodes, dtype=np.int64))
    np.save(path / "train.npy", rng.permutation(size.nodes)[: size.train].astype(np.int64))


def _adjacency(size: Size, seed: int, names: Int32s) -> tuple[Int64s, Int32s]:
    """Return the adjacency: R-MAT pairs and one uniform partner per node, in both directions, without duplicates."""
    pairs = int(size.edges / 2 * 1.001) - size.nodes
    source = np.empty(pairs + size.nodes, np.int32)
    target = np.empty(pairs + size.nodes, np.int32)
    bounds = np.cumsum(np.array(QUADRANTS) * 65536).astype(np.int64)
    bits = int(np.ceil(np.log2(size.nodes)))
    rmat(size.nodes, bits, pairs, seed, names, bounds, source, target)
    _backbone(size.nodes, seed, pairs, source, target)
    indptr, indices = _both_ways(size.nodes, source, target)
    kept = np.cumsum(_sort_rows(indptr, indices))
    _close_gaps(indptr, indices, kept)
    return kept, indices[: kept[-1]]


@njit(inline="always")
def _mix(z: Any) -> Any:
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@njit(parallel=True)
def rmat(
    nodes: int, bits: int, pairs: int, seed: int, names: Int32s, bounds: Int64s, source: Int32s, target: Int32s
) -> None:
    """Draw each pair by `bits` R-MAT steps.

    Pair e uses 16-bit draws from a separate counter. A pair that is out of range or a self loop is drawn again.
    """
    for e in prange(pairs):
        base = _mix(np.uint64(seed) * np.uint64(GOLDEN) + np.uint64(e))
        counter = np.uint64(0)
        while True:
            u = 0
            v = 0
            word = np.uint64(0)
            for bit in range(bits):
                if bit & 3 == 0:
                    counter += np.uint64(1)
                    word = _mix(base + counter * np.uint64(GOLDEN))
                draw = np.int64(word & np.uint64(0xFFFF))
                word >>= np.uint64(16)
                u <<= 1
                v <<= 1
                if draw >= bounds[2]:
                    u |= 1
                    v |= 1
                elif draw >= bounds[1]:
                    u |= 1
                elif draw >= bounds[0]:
                    v |= 1
            if u < nodes and v < nodes and u != v:
                break
        source[e] = names[u]
        target[e] = names[v]


@njit(parallel=True)
def _backbone(nodes: int, seed: int, offset: int, source: Int32s, target: Int32s) -> None:
    """Draw one uniform partner per node, so that no node is isolated."""
    for i in prange(nodes):
        draw = _mix(np.uint64(seed) * np.uint64(0xD1342543DE82EF95) + np.uint64(i))
        j = np.int64(draw % np.uint64(nodes - 1))
        if j >= i:
            j += 1
        source[offset + i] = i
        target[offset + i] = j


@njit
def _both_ways(nodes: int, source: Int32s, target: Int32s) -> tuple[Int64s, Int32s]:
    """Return the rows of both directions, built by counting sort, including duplicates."""
    indptr = np.zeros(nodes + 1, np.int64)
    for e in range(source.size):
        indptr[source[e] + 1] += 1
        indptr[target[e] + 1] += 1
    for i in range(nodes):
        indptr[i + 1] += indptr[i]
    place = indptr[:-1].copy()
    indices = np.empty(2 * source.size, np.int32)
    for e in range(source.size):
        u = source[e]
        v = target[e]
        indices[place[v]] = u
        place[v] += 1
        indices[place[u]] = v
        place[u] += 1
    return indptr, indices


@njit(parallel=True)
def _sort_rows(indptr: Int64s, indices: Int32s) -> Int64s:
    """Sort each row, move its distinct neighbours to the front, and return their numbers after a leading 0."""
    degree = np.zeros(indptr.size, np.int64)
    for i in prange(indptr.size - 1):
        low = indptr[i]
        row = np.sort(indices[low : indptr[i + 1]])
        kept = 0
        for j in range(row.size):
            if j == 0 or row[j] != row[j - 1]:
                indices[low + kept] = row[j]
                kept += 1
        degree[i + 1] = kept
    return degree


@njit
def _close_gaps(indptr: Int64s, indices: Int32s, kept: Int64s) -> None:
    """Move the rows together, so that row i starts at kept[i]."""
    for i in range(kept.size - 1):
        low = indptr[i]
        out = kept[i]
        for j in range(kept[i + 1] - out):
            indices[out + j] = indices[low + j]


def main() -> None:
    """Generate the graphs named on the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("size", nargs="+", choices=sorted(SIZES))
    for name in parser.parse_args().size:
        graph = load_graph(name)
        print(f"{name}: {len(graph.labels):,} nodes, {len(graph.indices):,} edges")


if __name__ == "__main__":
    main()

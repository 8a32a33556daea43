"""A snapshot as named arrays, vertices numbered from 0 without gaps; they are read part by part, when they are."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from snapdb.errors import CorruptError
from snapdb.graph import GraphView
from snapdb.graph.view import Adjacency
from snapdb.kernels.rows import logical_parts, neighbours_of
from snapdb.types import EdgeElement, Relation

Int64s = npt.NDArray[np.int64]
Read = Callable[[Int64s], npt.NDArray[Any]]

_PART = 1 << 24
"""Bytes of an array that are in memory at once."""


class Array(NamedTuple):
    """One array, which can be read from its beginning as often as is wanted."""

    name: str
    """With a dot where it is a part of something: `ids.region`, `x.indptr`."""
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    parts: Callable[[], Iterator[npt.NDArray[Any]]]
    """Its values in C order."""

    def whole(self) -> npt.NDArray[Any]:
        """All of it at once."""
        found = np.empty(self.shape, self.dtype)
        flat, at = found.reshape(-1), 0
        for part in self.parts():
            flat[at : at + part.size] = part.reshape(-1)
            at += part.size
        return found


@dataclass(frozen=True, slots=True)
class Numbering:
    """The vertices of one type that are in a snapshot, counted from 0 in the order of their dense ids."""

    count: int
    dense: Int64s | None = None
    """[count] dense ids; None: dense ids have no gaps."""
    places: Int64s | None = None
    """By dense id, the number; -1 for what is not in the snapshot."""

    def parts(self, width: int) -> Iterator[Int64s]:
        """The dense ids in order, so many at once that rows of `width` bytes make one part."""
        step = max(1, _PART // max(1, width))
        for start in range(0, self.count, step):
            stop = min(start + step, self.count)
            yield np.arange(start, stop) if self.dense is None else self.dense[start:stop]

    def of(self, dense: npt.NDArray[Any]) -> Int64s:
        """The numbers of dense ids.

        Raises:
            CorruptError: one is of no vertex of the snapshot.
        """
        limit = self.count if self.places is None else self.places.size
        inside = not dense.size or (int(dense.min()) >= 0 and int(dense.max()) < limit)
        found = dense.astype(np.int64, copy=False) if self.places is None or not inside else self.places[dense]
        if not inside or (self.places is not None and bool((found < 0).any())):
            raise CorruptError(
                "an edge of the snapshot leads to no vertex of it; create the snapshot again", code="damaged-snapshot"
            )
        return found


def numbering_of(view: GraphView, vertex_type: str) -> Numbering:
    """How the vertices of a type are numbered."""
    alive = view.alive[vertex_type]
    if alive is None:
        return Numbering(view.node_counts[vertex_type])
    places = np.cumsum(alive, dtype=np.int64) - 1
    places[~alive] = -1
    dense = np.flatnonzero(alive)
    return Numbering(dense.size, dense, places)


def per_vertex(name: str, numbering: Numbering, dtype: npt.DTypeLike, width: tuple[int, ...], read: Read) -> Array:
    """An array with a row for each vertex, which `read` gives by dense ids."""
    kind, shape = np.dtype(dtype), (numbering.count, *width)
    return Array(name, kind, shape, lambda: map(read, numbering.parts(_bytes(kind, width))))


def edge_arrays(view: GraphView, edge: EdgeElement, source: Numbering, destination: Numbering) -> Iterator[Array]:
    """What an edge type holds, by destination, then event time and edge id: as PyG's `is_sorted=True` wants it."""
    rows = view.adjacency(Relation(edge.type, "IN"))
    count = rows.edges

    def column(name: str, dtype: npt.DTypeLike, width: tuple[int, ...], read: Read) -> Array:
        kind = np.dtype(dtype)
        return Array(name, kind, (count, *width), lambda: map(read, _positions(rows, _bytes(kind, width))))

    yield Array("edge_index", np.dtype(np.int64), (2, count), lambda: _ends(rows, source, destination))
    yield column("e_id", np.int64, (), rows.edge_id.read)
    named = {"edge_time": rows.time, "edge_until": rows.until, "edge_weight": rows.weight}
    for name, values in named.items():
        if values is not None:
            yield column(name, values.dtype, (), values.read)
    for name, feature in view.edge_features.get(edge.name, {}).items():

        def read(positions: Int64s, rows: Adjacency = rows, feature: Any = feature) -> npt.NDArray[Any]:
            return feature.read(rows.edge_id.read(positions))  # type: ignore[no-any-return]

        yield column(name, feature.dtype, feature.shape[1:], read)


def _ends(rows: Adjacency, source: Numbering, destination: Numbering) -> Iterator[Int64s]:
    """The numbers of all sources, then those of all destinations."""
    for positions in _positions(rows, 8):
        yield source.of(neighbours_of(rows.rows, positions))
    for part in logical_parts(rows.rows, _PART // 8):
        nodes = np.arange(part.low, part.low + part.indptr.size - 1)
        yield destination.of(np.repeat(nodes, np.diff(part.indptr)))


def _positions(rows: Adjacency, width: int) -> Iterator[Int64s]:
    """Where all edges stand, so many at once that rows of `width` bytes make one part."""
    step = max(1, _PART // max(1, width))
    for part in logical_parts(rows.rows, step):
        for start in range(0, part.positions.size, step):  # one row may hold more
            yield part.positions[start : start + step]


def _bytes(dtype: np.dtype[Any], width: tuple[int, ...]) -> int:
    return int(dtype.itemsize * np.prod(width, dtype=np.int64))

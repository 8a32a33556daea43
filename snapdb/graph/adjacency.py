"""The rows of a relation: IN as they lie on the disk, OUT and BOTH made on first need and kept."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from snapdb.graph.view import Adjacency
from snapdb.kernels.topology import merge_rows
from snapdb.storage.topology import EdgeArrays, Rows, check_rows, sort_edges
from snapdb.types import EdgeType, Relation

__all__ = ["AdjacencyShelf", "rows_adjacency"]


@dataclass(frozen=True)
class AdjacencyShelf:
    """Opens relations of one snapshot; each is made once, whichever thread asks first."""

    incoming: Mapping[EdgeType, Callable[[], Adjacency]]
    """Opens an edge type's in-neighbours."""
    node_counts: Mapping[str, int]
    _made: dict[Relation, Adjacency] = field(default_factory=dict)
    _guard: threading.Lock = field(default_factory=threading.Lock)

    def __call__(self, relation: Relation) -> Adjacency:
        with self._guard:
            return self._open(relation)

    def __getstate__(self) -> dict[str, object]:
        """For DataLoader workers that are spawned: a lock does not travel, and rows are made again."""
        return {"incoming": self.incoming, "node_counts": self.node_counts}

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__dict__.update(state, _made={}, _guard=threading.Lock())

    def _open(self, relation: Relation) -> Adjacency:
        if relation not in self._made:
            self._made[relation] = self._make(relation)
        return self._made[relation]

    def _make(self, relation: Relation) -> Adjacency:
        if relation.direction == "IN":
            return self.incoming[relation.edge]()
        incoming = self._open(Relation(relation.edge, "IN"))
        if relation.direction == "OUT":
            far = self.node_counts[relation.expands]
            check_rows(incoming.starts, incoming.ends, incoming.indices, far, relation.edge.edge)
            return _outgoing(incoming, self.node_counts[relation.expands], self.node_counts[relation.reaches])
        return _both(incoming, self._open(Relation(relation.edge, "OUT")))


def _outgoing(incoming: Adjacency, nodes: int, far_nodes: int) -> Adjacency:
    """The same edges as rows of their sources, by (time, edge id)."""
    degrees = incoming.ends - incoming.starts
    held = _positions(incoming)
    edges = EdgeArrays(
        source=incoming.indices[held].astype(np.int64),
        destination=np.repeat(np.arange(degrees.size), degrees),
        edge_id=np.asarray(incoming.edge_id)[held],
        time=None if incoming.time is None else incoming.time[held],
        weight=None if incoming.weight is None else incoming.weight[held],
    )
    return rows_adjacency(sort_edges(edges, nodes, far_nodes, outgoing=True))


def _both(incoming: Adjacency, outgoing: Adjacency) -> Adjacency:
    """Each node's IN row, then its OUT row."""
    indptr, origin, outward = merge_rows(incoming.starts, incoming.ends, outgoing.starts, outgoing.ends)

    def joined(name: str) -> Any:
        ins, outs = getattr(incoming, name), getattr(outgoing, name)
        if ins is None:
            return None
        values = np.empty(origin.size, ins.dtype)
        values[~outward] = ins[origin[~outward]]
        values[outward] = outs[origin[outward]]
        return values

    columns = {name: joined(name) for name in ("indices", "edge_id", "time", "weight")}
    return Adjacency(starts=indptr[:-1], ends=indptr[1:], outward=outward, **columns)


def _positions(adjacency: Adjacency) -> npt.NDArray[np.int64]:
    """Every position that the rows hold, row after row."""
    degrees = adjacency.ends - adjacency.starts
    firsts = np.cumsum(degrees) - degrees
    held: npt.NDArray[np.int64] = np.arange(int(degrees.sum())) + np.repeat(adjacency.starts - firsts, degrees)
    return held


def rows_adjacency(rows: Rows, ends: npt.NDArray[np.int64] | None = None) -> Adjacency:
    """Rows, cut at `ends` where given, as a sampler reads them."""
    return Adjacency(
        rows.indptr[:-1], rows.indptr[1:] if ends is None else ends, rows.indices, rows.edge_id, rows.time, rows.weight
    )

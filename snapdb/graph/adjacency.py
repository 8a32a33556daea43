"""The rows of a relation: IN as they lie on the disk, OUT and BOTH made on first need and kept."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from snapdb.graph.view import Adjacency, Column, Source
from snapdb.kernels.forms import LiveArrays, PatchArrays, patch_arrays, row_arrays
from snapdb.kernels.topology import merge_rows
from snapdb.storage.arrays.patches import LazyPatch, Patch, open_patch
from snapdb.storage.arrays.topology import EdgeArrays, LazyRows, Rows, check_rows, open_rows, rows_of, sort_edges
from snapdb.storage.manifests import PublishedDir
from snapdb.types import EdgeType, Relation


@dataclass(frozen=True)
class AdjacencyShelf:
    """Opens relations of one snapshot; each is made once, whichever thread asks first."""

    incoming: Mapping[EdgeType, Callable[[], Adjacency]]
    """Opens an edge type's in-neighbours."""
    node_counts: Mapping[str, int]
    outgoing: Mapping[EdgeType, Callable[[], Adjacency]] = field(default_factory=dict)
    """Opens an edge type's out-neighbours, where they lie on the disk too."""
    _made: dict[Relation, Adjacency] = field(default_factory=dict)
    _guard: threading.Lock = field(default_factory=threading.Lock)

    def __call__(self, relation: Relation) -> Adjacency:
        with self._guard:
            return self._open(relation)

    def __getstate__(self) -> dict[str, object]:
        """For DataLoader workers that are spawned: a lock does not travel, and rows are made again."""
        return {"incoming": self.incoming, "node_counts": self.node_counts, "outgoing": self.outgoing}

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__dict__.update(state, _made={}, _guard=threading.Lock())

    def _open(self, relation: Relation) -> Adjacency:
        if relation not in self._made:
            self._made[relation] = self._make(relation)
        return self._made[relation]

    def _make(self, relation: Relation) -> Adjacency:
        if relation.direction == "IN":
            return self.incoming[relation.edge]()
        if relation.direction == "OUT" and (opened := self.outgoing.get(relation.edge)):
            return opened()
        incoming = self._open(Relation(relation.edge, "IN"))
        if relation.direction == "OUT":
            expands, reaches = (self.node_counts[name] for name in (relation.expands, relation.reaches))
            return _outgoing(incoming, expands, reaches, relation.edge.edge)
        return _both(incoming, self._open(Relation(relation.edge, "OUT")))


def open_topology(root: Path, patch: Path | None, nodes: int) -> Adjacency:
    """The rows of a topology, whole, over a patch where there is one; memory-mapped; a column may be missing.

    Raises:
        CorruptError: an array is missing, or of another type or length than the others need.
    """
    rows = open_rows(PublishedDir(root))
    return rows_adjacency(rows, None if patch is None else open_patch(PublishedDir(patch), rows), nodes=nodes)


def rows_adjacency(
    rows: Rows | LazyRows,
    patch: Patch | LazyPatch | None = None,
    *,
    nodes: int | None = None,
    degrees: npt.NDArray[Any] | None = None,
    live: LiveArrays | None = None,
    outward: npt.NDArray[np.bool_] | None = None,
) -> Adjacency:
    """Rows as a sampler reads them, in any form.

    Args:
        patch: What some rows are instead.
        nodes: How many nodes have a row; None: those of `rows`.
        degrees: [nodes] how many edges of each logical row count; None: all.
        live: Which physical positions count; None: all.
        outward: For BOTH: by position, whether the edge is walked from its source.

    Raises:
        CorruptError: there is not a degree for each node or a bit for each position, or the patch is of other nodes.
    """
    count = rows.indptr.size - 1 if nodes is None else nodes
    tails = None if patch is None else _tails(patch, count, rows)
    arrays = row_arrays(rows.indptr, rows.indices, nodes=count, degrees=degrees, live=live, patch=tails)
    columns = _columns(rows, {} if patch is None else patch.rows.columns)
    return Adjacency(arrays, outward=outward, **columns)


def _columns(rows: Rows | LazyRows, behind: Mapping[str, Source]) -> dict[str, Column]:
    """The columns of rows by name, over those of their patch."""
    sources: Mapping[str, Source] = rows.columns
    return {name: Column(source, behind.get(name)) for name, source in sources.items() if name != "indices"}


def _tails(patch: Patch | LazyPatch, nodes: int, root: Rows | LazyRows) -> PatchArrays:
    rows = patch.rows
    return patch_arrays(patch.nodes, patch.kept, rows.indptr, rows.indices, nodes, root.indices.dtype)


def _outgoing(incoming: Adjacency, nodes: int, far_nodes: int, what: str) -> Adjacency:
    """The same edges as rows of their sources, by (time, edge id)."""
    flat = incoming.flat()
    check_rows(flat.indptr[:-1], flat.indptr[1:], flat.indices, nodes, what)
    destination = np.repeat(np.arange(far_nodes, dtype=flat.indices.dtype), np.diff(flat.indptr))
    edges = EdgeArrays(flat.indices, destination, flat.edge_id, flat.time, flat.weight, flat.until)
    return rows_adjacency(sort_edges(edges, nodes, far_nodes, outgoing=True))


def _both(incoming: Adjacency, outgoing: Adjacency) -> Adjacency:
    """Each node's IN row, then its OUT row."""
    inward, outs = incoming.flat(), outgoing.flat()
    bounds = [bound for rows in (inward, outs) for bound in (rows.indptr[:-1], rows.indptr[1:])]
    indptr, origin, outward = merge_rows(*bounds)
    columns = {}
    for name, ins in inward.columns.items():
        columns[name] = np.empty(origin.size, ins.dtype)
        columns[name][~outward] = ins[origin[~outward]]
        columns[name][outward] = outs.columns[name][origin[outward]]
    return rows_adjacency(rows_of(indptr, columns), outward=outward)

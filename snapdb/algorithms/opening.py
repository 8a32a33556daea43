"""A snapshot's edge types as an AlgorithmGraph: views of its files if possible, or else merged rows in memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from snapdb.algorithms.graph import AlgorithmGraph, Rows, Side
from snapdb.algorithms.nodes import Nodes
from snapdb.arrays import Array, Float64s
from snapdb.builders.element_columns import Reading, edge_weights
from snapdb.builders.outgoing import store_outgoing
from snapdb.errors import CorruptError, DataError
from snapdb.graph import open_snapshot
from snapdb.kernels.adjacency.forms import DAMAGED
from snapdb.kernels.adjacency.unions import append_rows
from snapdb.types import EdgeType, Relation
from snapdb.types.text import counted

_INT32 = 2**31
"""The number of nodes up to which a node number has 32 bits."""


@dataclass(slots=True)
class EdgeRows:
    """Opens the rows of the edge types of a call."""

    nodes: Nodes
    weights: dict[str, Float64s] = field(default_factory=dict)
    """Name of the edge type → [edge ids] weights, for columns that are not the graph's WEIGHT."""
    _close: list[Callable[[], None]] = field(default_factory=list)

    def graph(self, edges: int) -> AlgorithmGraph:
        """Return the graph, whose rows are opened on first use."""
        source = self.nodes.source
        return AlgorithmGraph(
            self.nodes.total, edges, self.open, self.nodes.alive, self.nodes.rank, source.weight is not None
        )

    def release(self) -> None:
        """Release the files that are protected from removal."""
        for close in self._close:
            close()

    @property
    def types(self) -> dict[str, EdgeType]:
        """The edge types by name."""
        graph = self.nodes.source.snapshot.graph
        return {edge.name: edge.type for edge in graph.edges if edge.name in self.nodes.source.edges}

    def open(self, side: Side) -> Rows:
        """Return the rows of a direction. OUT rows of large edge types are stored on disk, as those of streams.

        Raises:
            CorruptError: A file is missing or damaged.
            DataError: A weight is NULL, NaN, negative or infinite.
        """
        if side == "OUT":
            self._reopen()
        source, view = self.nodes.source, self.nodes.opened.view
        parts = []
        for name, type_ in self.types.items():
            self.nodes.context.step(f"reading {name}", None)
            relation = Relation(type_, side)
            flat = view.adjacency(relation).flatten()
            _check_ids(flat.indices, view.node_counts[relation.reaches])
            weight = np.empty(0) if source.weight is None else self._weight(name, source.weight, flat.columns)
            parts.append((relation, Rows(flat.indptr, flat.indices, weight)))
        if len(parts) == 1 and len(source.vertices) == 1:
            return parts[0][1]
        return self._merged(parts)

    def _reopen(self) -> None:
        """Open the snapshot again if OUT rows that are large had to be sorted and stored."""
        nodes = self.nodes
        if store_outgoing(nodes.context, nodes.source.snapshot, self.types.keys()):
            opened = open_snapshot(nodes.context.store.catalog_db, nodes.source.snapshot, lambda element: False)
            self._close.append(opened.lease.release)
            object.__setattr__(nodes, "opened", opened)

    def _weight(self, name: str, column: str, columns: Mapping[str, Array | Callable[[], Array]]) -> Float64s:
        """Return the weights of an edge type's rows."""
        nodes, graph = self.nodes, self.nodes.source.snapshot.graph
        element = graph.edge(name)
        assert element is not None, "the edge type was bound"
        own = element.weight is not None and element.weight.lower() == column.lower()
        values = _column(columns, "weight" if own else "edge_id")
        if not own:
            if name not in self.weights:
                opened = nodes.opened
                reading = Reading.of(nodes.context, nodes.source.snapshot, opened.view, opened.id_maps)
                try:
                    self.weights[name] = edge_weights(reading, name, column)
                except DataError as error:
                    error.span = nodes.source.spans["weight"]
                    raise
            values = self.weights[name][values]
        wrong = np.flatnonzero(~(np.isfinite(values) & (values >= 0)))
        if wrong.size:
            ids = _column(columns, "edge_id")[wrong]
            first = np.argsort(ids)[:3]
            shown = ", ".join(f"e_id {ids[i]}: {values[wrong[i]]}" for i in first)
            where = f"of {name} in snapshot {nodes.source.snapshot.name}"
            edges = counted(wrong.size, f"edge {where} has", f"edges {where} have")
            raise DataError(
                f"{edges} an invalid weight in {column} ({shown}): weights must be finite and not negative; correct "
                "them, or choose another column",
                span=nodes.source.spans["weight"],
                code="bad-weight",
            )
        return np.asarray(values, np.float64)

    def _merged(self, parts: list[tuple[Relation, Rows]]) -> Rows:
        """Return the rows of all edge types in one numbering of nodes."""
        offsets, total = self.nodes.offsets, self.nodes.total
        counts = np.zeros(total, np.int64)
        for relation, rows in parts:
            first = offsets[relation.expands]
            counts[first : first + rows.indptr.size - 1] += np.diff(rows.indptr)
        indptr = np.zeros(total + 1, np.int64)
        np.cumsum(counts, out=indptr[1:])
        indices = np.empty(int(indptr[-1]), np.int32 if total < _INT32 else np.int64)
        weight = np.empty(0 if self.nodes.source.weight is None else indices.size)
        place = indptr[:-1].copy()
        for relation, rows in parts:
            self.nodes.context.step(f"merging {relation.edge.edge}", None)
            first = offsets[relation.expands]
            own = place[first : first + rows.indptr.size - 1]
            append_rows(rows.indptr, rows.indices, rows.weight, offsets[relation.reaches], own, indices, weight)
        return Rows(indptr, indices, weight)


def _column(columns: Mapping[str, Array | Callable[[], Array]], name: str) -> Array:
    column = columns[name]
    return column() if callable(column) else column


def _check_ids(indices: Array, nodes: int) -> None:
    """Raise CorruptError unless all dense ids are those of nodes, because kernels do not check them."""
    if indices.size and not 0 <= int(indices.min()) <= int(indices.max()) < nodes:
        raise CorruptError(DAMAGED, code="damaged-snapshot")

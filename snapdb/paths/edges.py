"""The edges of path searches: from a snapshot's topology, or from queries that evaluate conditions and costs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from snapdb.arrays import Array, Float64s, Int64s
from snapdb.errors import DataError
from snapdb.kernels.paths.problem import STATIC
from snapdb.kernels.paths.rows import edge_rows
from snapdb.paths.numbering import Numbering
from snapdb.plan.searches import PathSearch, SearchStep, StepPart
from snapdb.types import Relation


class Edges(NamedTuple):
    """Edges in any order, or in rows."""

    tail: Int64s
    """[edges] The node before each edge."""
    head: Int64s
    """[edges] The node after each edge."""
    edge: Int64s
    """[edges] Identities: e_id times the number of edge types, plus the number of the edge's type."""
    time: Int64s
    """[edges] Event times, STATIC for edges without one, or [0] if none has one."""
    cost: Float64s
    """[edges] Costs, or [0] if every edge costs 1."""


@dataclass(slots=True)
class EdgeReader:
    """Collects the edges of all steps."""

    numbering: Numbering
    search: PathSearch
    nodes: int
    """The number of nodes, with those inside chains."""
    real: list[Int64s] = field(default_factory=list)

    def step(self, step: SearchStep) -> list[Edges]:
        """Return the edges of each place of a step's chain."""
        places: list[list[Edges]] = [[] for _ in step.variables]
        for part in step.parts:
            edges = self._topology(part) if part.query is None else None
            rows = [edges] if edges is not None else self._queried(part, step)
            for place, own in zip(places, rows, strict=True):
                place.append(own)
        return [joined_edges(place) for place in places]

    def _code(self, ids: Array, name: str) -> Int64s:
        types = self.search.edges
        if len(types) == 1:
            return ids.astype(np.int64, copy=False)
        return ids.astype(np.int64) * len(types) + [t.lower() for t in types].index(name.lower())

    def _topology(self, part: StepPart) -> Edges:
        """Return all edges of a type in a snapshot, traversed as the part says."""
        opened, (name,) = self.numbering.opened, part.edges
        assert opened is not None
        type_ = next(t for t in opened.view.edge_types if t.edge == name)
        rows = opened.view.adjacency(Relation(type_, "IN")).flat()
        head = np.repeat(np.arange(rows.indptr.size - 1, dtype=np.int64), np.diff(rows.indptr))
        tail = rows.indices.astype(np.int64) + self.numbering.offsets[type_.source.lower()]
        head += self.numbering.offsets[type_.destination.lower()]
        time = np.empty(0, np.int64) if rows.time is None else np.asarray(rows.time)
        edges = Edges(tail, head, self._code(rows.edge_id, name), time, np.empty(0))
        if part.traversal == "right":
            return edges
        reverse = edges._replace(tail=head, head=tail)
        if part.traversal == "left":
            return reverse
        keep = head != tail
        return joined_edges([edges, Edges._make(values[keep] if values.size else values for values in reverse)])

    def _queried(self, part: StepPart, step: SearchStep) -> list[Edges]:
        """Return the edges, or the edges of each place of the chains, that a query finds."""
        assert part.query is not None
        types = list(self.search.vertices)
        what = f"edges of {', '.join(part.edges)}"
        table = self.numbering.table(part.query, types, what)
        column = {name: table.column(name) for name in table.column_names}
        length = len(part.edges)
        cost = self._costs(column["cost"], part, step) if "cost" in column else np.empty(0)
        nodes = [column[f"node{i}"].to_numpy() + self._offset(part, i) for i in range(length + 1)]
        if length > 1:
            nodes = self._chained(nodes)
        places = []
        for i in range(length):
            time = column[f"time{i}"].fill_null(STATIC).to_numpy()
            own = cost if i == 0 or not step.costs else np.zeros(table.num_rows)
            code = self._code(column[f"edge{i}"].to_numpy(), part.edges[i])
            places.append(Edges(nodes[i], nodes[i + 1], code, time.astype(np.int64), own))
        return places

    def _offset(self, part: StepPart, place: int) -> int:
        return self.numbering.offsets[part.nodes[place]]

    def _costs(self, column: object, part: StepPart, step: SearchStep) -> Float64s:
        cost: Float64s = column.to_numpy()  # type: ignore[attr-defined]
        bad = ~((cost >= 0) & (cost < np.inf))
        if bad.any():
            count, first = int(bad.sum()), cost[bad][0]
            shown = "NULL or NaN" if np.isnan(first) else f"{first:g}"
            raise DataError(
                f"COST must be finite and at least 0, and is not for {count:,} of {cost.size:,} edges of "
                f"{', '.join(part.edges)}, such as {shown}; exclude them by WHERE, or write COST greatest(…, 0)",
                span=step.cost_span,
                code="bad-cost",
            )
        return cost

    def _chained(self, nodes: list[Int64s]) -> list[Int64s]:
        """Return the nodes of chains, with nodes of their own for the inner vertices of each chain."""
        count = nodes[0].size
        inner = []
        for own in nodes[1:-1]:
            inner.append(np.arange(self.nodes, self.nodes + count, dtype=np.int64))
            self.real.append(own)
            self.nodes += count
        return [nodes[0], *inner, nodes[-1]]


def joined_edges(parts: Sequence[Edges]) -> Edges:
    """Return the edges of several parts. Times and costs are filled in if only some parts have them."""
    if len(parts) == 1:
        return parts[0]
    if not parts:
        empty = np.empty(0, np.int64)
        return Edges(empty, empty, empty, empty, np.empty(0))
    tail, head, edge = (np.concatenate([part[i] for part in parts]) for i in range(3))
    return Edges(tail, head, edge, _filled(parts, 3, STATIC), _filled(parts, 4, 1.0))


def _filled(parts: Sequence[Edges], index: int, default: float) -> Array:
    """Return a column of all parts, with a default for the parts without it, or [0] if none has it."""
    dtype = parts[0][index].dtype
    if not any(part[index].size for part in parts):
        return np.empty(0, dtype)
    sizes = [(part[index], part.tail.size) for part in parts]
    return np.concatenate([values if values.size else np.full(size, default, dtype) for values, size in sizes])


def in_rows(edges: Edges, nodes: int) -> tuple[Int64s, Edges]:
    """Return the edges in rows by the node before them, each by (time, identity, node after), and the rows' starts."""
    indptr, head, edge, time, cost = edge_rows(edges.tail, edges.head, edges.edge, edges.time, edges.cost, nodes)
    return indptr, Edges(np.repeat(np.arange(nodes), np.diff(indptr)), head, edge, time, cost)

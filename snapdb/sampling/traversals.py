"""Relations prepared for sampling: opened and checked once, as the arrays that kernels read."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple, Self

import numpy as np
import numpy.typing as npt

from snapdb.arrays import Float64s, Int64s
from snapdb.errors import BindError, CorruptError, DataError
from snapdb.graph.view import Adjacency, EdgeColumn, GraphView
from snapdb.kernels.adjacency.forms import DAMAGED, column_arrays, plain_array
from snapdb.kernels.adjacency.spans import is_plain
from snapdb.kernels.draw import scores
from snapdb.kernels.draw.eligible import STATIC, ExcludedPairs, TimeBounds, TraversalArrays
from snapdb.kernels.draw.scores import LEAST, by_edge_id, find_bad_weights
from snapdb.kernels.draw.uniform import EVERY
from snapdb.sampling.subgraph import ExcludedEdges, SamplerInput
from snapdb.storage.array_files import in_order
from snapdb.types import FULL, Drawing, Fanout, Relation, SampleSpec, Temporal

_SHOWN = 3
"""The number of invalid values that an error quotes."""


class _Weights(NamedTuple):
    """The weights of a relation's edges."""

    column: EdgeColumn
    """Weights by position."""
    zeros: bool
    """Whether some edges of the snapshot have weight 0. False under TOPK, where 0 is a normal weight."""


def _open_weights(view: GraphView, relation: Relation, adjacency: Adjacency, drawing: Drawing) -> _Weights | None:
    """Return the weights of a relation's edges, or None if all edges have the same weight.

    Raises:
        BindError: The edge type has no weights.
        CorruptError: The number of weights differs from the number of positions.
        DataError: A weight is not finite, or is negative under a method other than TOPK.
    """
    name = relation.edge.edge
    named = _column(drawing, relation)
    if not drawing.weighted or named is None:
        return None
    if (weights := view.weights.get(name)) is not None:
        column = _by_position(weights, adjacency.edge_id)
    elif adjacency.weight is not None:
        column = adjacency.weight
    else:
        raise BindError(
            f"weight {named!r} of edge type {name} does not exist; write a column of its table in WEIGHT BY",
            code="needs-weight",
        )
    return _Weights(column, _has_zeros(relation, adjacency, column, drawing))


def _column(drawing: Drawing, relation: Relation) -> str | None:
    """Return the name of the weight column of a relation's edges."""
    return {name.lower(): column for name, column in drawing.weights}.get(relation.edge.edge.lower())


def _by_position(weights: Float64s, edge_id: EdgeColumn) -> EdgeColumn:
    """Weights by edge id, gathered into the order of positions."""
    plain = plain_array(weights, np.float64)
    parts = [None if ids is None else np.empty(ids.size, np.float64) for ids in edge_id]
    for ids, out in zip(edge_id, parts, strict=True):
        if ids is not None and out is not None:
            by_edge_id(plain, plain_array(ids, ids.dtype), out)
    base, delta = parts
    assert base is not None
    return EdgeColumn(base, delta)


def _has_zeros(relation: Relation, adjacency: Adjacency, column: EdgeColumn, drawing: Drawing) -> bool:
    """Return whether some edges have weight 0. Raises DataError for weights that no draw can use."""
    rows, signed = adjacency.rows, drawing.method == "TOPK"
    shown = np.empty(_SHOWN, np.int64)
    bad, zeros = find_bad_weights(rows, column_arrays(column, np.float64, rows), signed, shown)
    if bad < 0:
        raise CorruptError(DAMAGED, code="damaged-snapshot")
    if bad:
        name, by = relation.edge.edge, _column(drawing, relation)
        asked = "finite" if signed else f"finite, and either 0 or at least {LEAST}"
        positions = shown[:bad]
        pairs = zip(adjacency.edge_id.read(positions).tolist(), column.read(positions).tolist(), strict=True)
        examples = ", ".join(f"{weight} at e_id {edge}" for edge, weight in pairs)
        raise DataError(
            f"weights of {name} must be {asked}, but {by} has {bad} that {'is' if bad == 1 else 'are'} not: "
            f"{examples}; "
            "correct them, or choose another column",
            code="bad-weight",
        )
    return bool(zeros > 0 and not signed)


_METHODS = {
    "UNIFORM": scores.FLOYD,
    "FULL": scores.FLOYD,
    "LATEST": scores.LAST,
    "TOPK": scores.TOPK,
    "PRIORITY": scores.PRIORITY,
    "BOTTOMK": scores.BOTTOMK,
    "LABOR": scores.LABOR,
}


@dataclass(frozen=True, slots=True)
class Traversal:
    """One relation, prepared for sampling hop by hop."""

    relation: Relation
    fanout: Fanout
    adjacency: Adjacency
    plain: bool
    """Whether the adjacency consists only of a base in which every position is live, so that rows are located by their
    bounds."""
    arrays: TraversalArrays
    """The arrays that `draw_rows` reads."""
    method: int
    """The method of `draw_rows`."""
    undated: bool
    """Whether an edge can lack a time, so that time bounds do not exclude a seed edge from its own tree. Set only for
    link samplers."""
    skips_zeros: bool
    """Whether some edges have weight 0 and are excluded if a hop draws a limited number of edges."""

    def count(self, hop: int) -> int:
        """Return the number of edges that a node draws at this hop."""
        counts = self.fanout.counts
        if hop >= len(counts):
            return 0
        return EVERY if counts[hop] == FULL else counts[hop]

    def is_direct(self, fanout: int) -> bool:
        """Return whether rows are drawn by `sample_uniform`, which handles neither times nor weights."""
        return self.method == scores.FLOYD or (fanout == EVERY and self.method != scores.PRIORITY)

    def excluded_pairs(self, excluded: ExcludedEdges | None, temporal: Temporal | None) -> ExcludedPairs:
        """Return the pairs that a traversal must exclude.

        Edges at a seed's time or later are already outside its tree's time bounds, unless the bound includes that time.
        """
        relation = self.relation
        seen = temporal is None or temporal.inclusive or self.undated
        if excluded is None or excluded.edge != relation.edge or not seen:
            return NO_PAIRS
        trees = np.zeros_like(excluded.trees) if temporal is None else excluded.trees
        inward = _sorted(trees, excluded.destination, excluded.source)
        outward = _sorted(trees, excluded.source, excluded.destination)
        if relation.direction == "BOTH":
            joined = [np.concatenate(pair) for pair in zip(inward, outward, strict=True)]
            return ExcludedPairs(trees.size, *joined)
        return ExcludedPairs(trees.size, *(inward if relation.direction == "IN" else outward))

    def for_one_pass(self) -> Self:
        """Return the relation for one pass over all nodes. Unlike in batches, its large files are read ahead."""
        arrays, rows = self.arrays, self.arrays.rows
        # If memory is scarce, these maps are advised for random access, without readahead, which a sequential pass
        # needs.
        rows = rows._replace(indptr=in_order(rows.indptr), indices=in_order(rows.indices))
        ids, weights = (column._replace(base=in_order(column.base)) for column in (arrays.ids, arrays.weights))
        return replace(self, arrays=arrays._replace(rows=rows, ids=ids, weights=weights))


def open_traversals(view: GraphView, spec: SampleSpec) -> tuple[Traversal, ...]:
    """Open the relations of a sampler in sampling order.

    Raises:
        BindError: Two fanouts have the same key in a batch, or an edge type has no weights.
        CorruptError: A relation's rows or columns do not match its nodes.
        DataError: A weight is negative or not finite.
        ValueError: A fanout is negative and not FULL.
    """
    _check_fanouts(spec)
    # The sampling order determines the local ids, so it must not depend on the order of clauses in the statement.
    ordered = sorted(spec.fanouts, key=lambda fanout: fanout.sort_key)
    if spec.drawing.method == "FULL":
        # FULL takes every edge. The counts of a fanout only determine whether a hop expands the relation at all.
        ordered = [replace(fanout, counts=tuple(FULL if count else 0 for count in fanout.counts)) for fanout in ordered]
    return tuple(_open(view, spec, fanout, relation) for fanout in ordered for relation in fanout.relations)


def _open(view: GraphView, spec: SampleSpec, fanout: Fanout, relation: Relation) -> Traversal:
    """Return one relation of a fanout, opened and checked against the numbers of its nodes."""
    adjacency = view.adjacency(relation)
    if adjacency.nodes != view.node_counts[relation.expands]:
        raise damaged(relation)
    weight = _open_weights(view, relation, adjacency, spec.drawing)
    # Birth times limit the nodes that a tree can contain, and only disjoint trees have time bounds.
    born = view.born.get(relation.reaches) if spec.disjoint else None
    if born is not None and born.size != view.node_counts[relation.reaches]:
        raise damaged(relation)
    arrays = _arrays(adjacency, spec, relation, None if weight is None else weight.column, born)
    undated = spec.link is not None and spec.disjoint and _is_undated(adjacency.time)
    plain = bool(is_plain(adjacency.rows))
    skips_zeros = weight is not None and weight.zeros and spec.drawing.zero_weight == "NEVER"
    skips_zeros &= any(count > 0 for count in fanout.counts)
    return Traversal(relation, fanout, adjacency, plain, arrays, _method(spec.drawing, relation), undated, skips_zeros)


def _is_undated(time: EdgeColumn | None) -> bool:
    """Return whether any edge lacks a time."""
    return time is None or any(part is not None and bool((part == STATIC).any()) for part in time)


def _arrays(
    adjacency: Adjacency, spec: SampleSpec, relation: Relation, weight: EdgeColumn | None, born: Int64s | None
) -> TraversalArrays:
    """Return the rows with the columns that draws read. Files of other columns are not opened."""
    rows, outward = adjacency.rows, adjacency.outward
    scored = spec.drawing.scores_edges(relation)
    timed = spec.disjoint or spec.drawing.method == "LATEST"
    columns: tuple[tuple[EdgeColumn | None, npt.DTypeLike], ...] = (
        (adjacency.edge_id, adjacency.edge_id.dtype) if scored else (None, np.int32),
        (adjacency.time if timed else None, np.int64),
        (adjacency.until if spec.disjoint else None, np.int64),
        (weight, np.float64),
    )
    if outward is not None and outward.size != rows.indices.size:
        raise CorruptError(
            "the adjacency of an edge type with direction BOTH is damaged; create the snapshot again",
            code="damaged-snapshot",
        )
    ids, times, ends, weights = (column_arrays(column, kind, rows) for column, kind in columns)
    plain_outward = plain_array(np.empty(0) if outward is None else outward, np.bool_)
    plain_born = plain_array(np.empty(0) if born is None else born, np.int64)
    return TraversalArrays(rows, ids, times, ends, weights, plain_outward, plain_born)


def _method(drawing: Drawing, relation: Relation) -> int:
    """Return the kernel method that implements a statement's drawing."""
    if drawing.method == "UNIFORM" and drawing.weighted:
        return scores.SHARES if drawing.replace else scores.RACE
    if drawing.method == "UNIFORM" and drawing.replace:
        return scores.REPLACE
    if drawing.method == "LATEST" and relation.direction == "BOTH":
        # IN edges and OUT edges are each sorted by time, but a row of both is not, so the last ranks are not the newest
        # edges.
        return scores.NEWEST
    return _METHODS[drawing.method]


def damaged(relation: Relation) -> CorruptError:
    """Return the error for a relation with rows that extend beyond their arrays."""
    edge = relation.edge.edge
    return CorruptError(
        f"the adjacency of {edge} is damaged: an index is out of range; CHECK DATABASE lists the file",
        code="damaged-snapshot",
    )


def _check_fanouts(spec: SampleSpec) -> None:
    """Raise an error if a fanout is negative, or if two fanouts have the same key in a batch."""
    keys: dict[tuple[str, ...], Fanout] = {}
    for fanout in spec.fanouts:
        if wrong := [count for count in fanout.counts if count < 0 and count != FULL]:
            raise ValueError(f"a fanout must be 0 or more, or FULL ({FULL}), found {wrong[0]} for {fanout.edge}")
        for relation in fanout.relations:
            if other := keys.get(relation.key):
                raise BindError(
                    f"{_name(other)} and {_name(fanout)} both have the key {tuple(relation.key)} in a batch; keep "
                    "one, or rename an edge type in the graph",
                    code="duplicate-fanout",
                )
            keys[relation.key] = fanout


def _name(fanout: Fanout) -> str:
    return f"{fanout.edge.edge} {fanout.direction}"


# The time bounds and excluded pairs of a batch's trees, as the arrays that kernels read.
FIRST, LAST = -(2**63), 2**63 - 1
_NONE: Int64s = np.empty(0, np.int64)
NO_PAIRS = ExcludedPairs(0, _NONE, _NONE, _NONE)


def time_bounds(entry: SamplerInput, temporal: Temporal | None) -> TimeBounds:
    """Return the time bounds of each tree, or empty arrays if the statement has none.

    Raises:
        ValueError: The statement has a time bound, but the seeds have no times.
    """
    if temporal is None:
        return TimeBounds(_NONE, _NONE, _NONE, _NONE, _NONE)
    if entry.times is None:
        raise ValueError("TEMPORAL needs the times of seeds; add a column seed_time to SEEDS")
    times = np.array(entry.times, np.int64)  # kernels are compiled for writable arrays
    high = _later(times, 1) if temporal.inclusive else times
    low = np.full_like(times, FIRST) if temporal.within is None else _earlier(times, min(temporal.within, LAST))
    after = low if temporal.within is not None else times if temporal.inclusive else _earlier(times, 1)
    return TimeBounds(low, high, after, times, np.array(entry.ordinals, np.int64))


def _later(times: Int64s, by: int) -> Int64s:
    """Return times + by, clamped to the range of int64."""
    return np.where(times > LAST - by, LAST, times + by)


def _earlier(times: Int64s, by: int) -> Int64s:
    """Return times - by, clamped to the range of int64."""
    return np.where(times < FIRST + by, FIRST, times - by)


def _sorted(trees: Int64s, row_node: Int64s, neighbor: Int64s) -> tuple[Int64s, Int64s, Int64s]:
    """Return pairs sorted by (tree, row_node, neighbor), as `find_windows` searches them."""
    order = np.lexsort((neighbor, row_node, trees))
    first, second, third = (np.asarray(values, np.int64)[order] for values in (trees, row_node, neighbor))
    return first, second, third

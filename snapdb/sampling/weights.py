"""What weighs the edges of a relation, checked once when a sampler is opened."""

from typing import NamedTuple

import numpy as np

from snapdb.arrays import Float64s
from snapdb.errors import BindError, CorruptError, DataError
from snapdb.graph.view import Adjacency, EdgeColumn, GraphView
from snapdb.kernels.adjacency.forms import DAMAGED, by_part, plain_array
from snapdb.kernels.draw.scores import LEAST, by_edge_id, find_bad_weights
from snapdb.types import Drawing, Relation

_SHOWN = 3
"""Examples of wrong values in an error."""


class _Weights(NamedTuple):
    """The weights of a relation's edges."""

    column: EdgeColumn
    """By position."""
    zeros: bool
    """Whether some edges of the snapshot weigh nothing; under TOPK, where 0 is a number like others, False."""


def open_weights(view: GraphView, relation: Relation, adjacency: Adjacency, drawing: Drawing) -> _Weights | None:
    """The weights of a relation's edges; None: all are alike.

    Raises:
        BindError: the edge type has none.
        CorruptError: there is not one for each position.
        DataError: one is not finite, or is negative; under TOPK it may be.
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
            f"edge type {name} has no weight {named!r}; name a column of its table by WEIGHT BY", code="needs-weight"
        )
    return _Weights(column, _has_zeros(relation, adjacency, column, drawing))


def _column(drawing: Drawing, relation: Relation) -> str | None:
    """The column that weighs a relation's edges, by its name."""
    return {name.lower(): column for name, column in drawing.weights}.get(relation.edge.edge.lower())


def _by_position(weights: Float64s, edge_id: EdgeColumn) -> EdgeColumn:
    plain = plain_array(weights, np.float64)
    found = [None if ids is None else np.empty(ids.size, np.float64) for ids in edge_id]
    for ids, out in zip(edge_id, found, strict=True):
        if ids is not None and out is not None:
            by_edge_id(plain, plain_array(ids, ids.dtype), out)
    root, patch = found
    assert root is not None
    return EdgeColumn(root, patch)


def _has_zeros(relation: Relation, adjacency: Adjacency, column: EdgeColumn, drawing: Drawing) -> bool:
    """Whether some edges weigh nothing. Weights that no draw can go by are an error."""
    rows, signed = adjacency.rows, drawing.method == "TOPK"
    root = by_part(column, 0, np.float64, rows.indices.size)
    patch = by_part(column, 1, np.float64, rows.patch.indices.size)
    shown = np.empty(_SHOWN, np.int64)
    bad, zeros = find_bad_weights(rows, root, patch, signed, shown)
    if bad < 0:
        raise CorruptError(DAMAGED, code="damaged-snapshot")
    if bad:
        name, by = relation.edge.edge, _column(drawing, relation)
        asked = "finite" if signed else f"finite, and 0 or at least {LEAST}"
        positions = shown[:bad]
        pairs = zip(adjacency.edge_id.read(positions).tolist(), column.read(positions).tolist(), strict=True)
        examples = ", ".join(f"{weight} at e_id {edge}" for edge, weight in pairs)
        raise DataError(
            f"weights of {name} are {asked}, but {by} has {bad} that {'is' if bad == 1 else 'are'} not: {examples}; "
            "correct them, or weigh by another column",
            code="bad-weight",
        )
    return bool(zeros > 0 and not signed)

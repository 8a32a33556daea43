"""Relations as a sampler walks them: opened and checked once, as the arrays that kernels read."""

from dataclasses import dataclass, replace
from typing import Self

import numpy as np
import numpy.typing as npt

from snapdb.arrays import Int64s
from snapdb.errors import BindError, CorruptError
from snapdb.graph.view import Adjacency, EdgeColumn, GraphView
from snapdb.kernels.adjacency.forms import by_part, plain_array
from snapdb.kernels.adjacency.spans import is_plain
from snapdb.kernels.draw import scores
from snapdb.kernels.draw.eligible import STATIC, WalkArrays
from snapdb.kernels.draw.uniform import EVERY
from snapdb.sampling.weights import open_weights
from snapdb.storage.array_files import in_order
from snapdb.types import FULL, Drawing, Fanout, Relation, SampleSpec

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
class Walk:
    """One relation as a sampler walks it, hop by hop."""

    relation: Relation
    fanout: Fanout
    adjacency: Adjacency
    plain: bool
    """The adjacency is nothing but a root: rows need not be located."""
    arrays: WalkArrays
    """What `draw_rows` reads of it."""
    method: int
    """By which `draw_rows` draws."""
    undated: bool
    """An edge may have no time, so that no bound hides a seed edge from its own tree. Set for link samplers only."""
    skips_zeros: bool
    """Some edges weigh nothing, and where a hop takes a number of edges they are not in its rows."""

    def count(self, hop: int) -> int:
        """How many edges a node gets at this hop."""
        counts = self.fanout.counts
        if hop >= len(counts):
            return 0
        return EVERY if counts[hop] == FULL else counts[hop]

    def is_direct(self, fanout: int) -> bool:
        """Whether rows are drawn by `sample_uniform`, which knows neither times nor weights."""
        return self.method == scores.FLOYD or (fanout == EVERY and self.method != scores.PRIORITY)

    def for_one_pass(self) -> Self:
        """The relation for one pass over all nodes: its large files are read ahead, unlike for batches."""
        arrays, rows = self.arrays, self.arrays.rows
        rows = rows._replace(indptr=in_order(rows.indptr), indices=in_order(rows.indices))
        arrays = arrays._replace(rows=rows, id_root=in_order(arrays.id_root), weight_root=in_order(arrays.weight_root))
        return replace(self, arrays=arrays)


def open_walks(view: GraphView, spec: SampleSpec) -> tuple[Walk, ...]:
    """The relations of a sampler in sampling order.

    Raises:
        BindError: two fanouts lead to the same key of a batch, or an edge type has no weights.
        CorruptError: a relation's rows or columns are not those of its nodes.
        DataError: weights are not finite, or negative.
        ValueError: a fanout is negative and not FULL.
    """
    _check_fanouts(spec)
    ordered = sorted(spec.fanouts, key=lambda fanout: fanout.sort_key)
    if spec.drawing.method == "FULL":
        ordered = [replace(fanout, counts=tuple(FULL if count else 0 for count in fanout.counts)) for fanout in ordered]
    return tuple(_open(view, spec, fanout, relation) for fanout in ordered for relation in fanout.relations)


def _open(view: GraphView, spec: SampleSpec, fanout: Fanout, relation: Relation) -> Walk:
    adjacency = view.adjacency(relation)
    if adjacency.nodes != view.node_counts[relation.expands]:
        raise damaged(relation)
    weight = open_weights(view, relation, adjacency, spec.drawing)
    born = view.born.get(relation.reaches) if spec.disjoint else None
    if born is not None and born.size != view.node_counts[relation.reaches]:
        raise damaged(relation)
    arrays = _arrays(adjacency, spec, relation, None if weight is None else weight.column, born)
    undated = spec.link is not None and spec.disjoint and _is_undated(adjacency.time)
    plain = bool(is_plain(adjacency.rows))
    skips_zeros = weight is not None and weight.zeros and spec.drawing.zero_weight == "NEVER"
    skips_zeros &= any(count > 0 for count in fanout.counts)
    return Walk(relation, fanout, adjacency, plain, arrays, _method(spec.drawing, relation), undated, skips_zeros)


def _is_undated(time: EdgeColumn | None) -> bool:
    return time is None or any(part is not None and bool((part == STATIC).any()) for part in time)


def scores_edges(drawing: Drawing, relation: Relation) -> bool:
    """Whether draws from a relation's rows look at edge ids: to hash them, or to order equal scores."""
    if drawing.weighted or drawing.method not in ("UNIFORM", "FULL", "LATEST"):
        return True
    return drawing.method == "LATEST" and relation.direction == "BOTH"


def _arrays(
    adjacency: Adjacency, spec: SampleSpec, relation: Relation, weight: EdgeColumn | None, born: Int64s | None
) -> WalkArrays:
    """The rows with the columns that draws look at; files of others are not opened."""
    rows, outward = adjacency.rows, adjacency.outward
    sizes = (rows.indices.size, rows.patch.indices.size)
    scored = scores_edges(spec.drawing, relation)
    timed = spec.disjoint or spec.drawing.method == "LATEST"
    columns: tuple[tuple[EdgeColumn | None, npt.DTypeLike], ...] = (
        (adjacency.edge_id, adjacency.edge_id.dtype) if scored else (None, np.int32),
        (adjacency.time if timed else None, np.int64),
        (adjacency.until if spec.disjoint else None, np.int64),
        (weight, np.float64),
    )
    parts = [by_part(column, part, kind, size) for column, kind in columns for part, size in enumerate(sizes)]
    if outward is not None and outward.size != sizes[0]:
        raise CorruptError(
            "the adjacency of a type walked BOTH ways is damaged; create the snapshot again", code="damaged-snapshot"
        )
    parts += [
        plain_array(np.empty(0) if outward is None else outward, np.bool_),
        plain_array(np.empty(0) if born is None else born, np.int64),
    ]
    return WalkArrays(rows, *parts)


def _method(drawing: Drawing, relation: Relation) -> int:
    if drawing.method == "UNIFORM" and drawing.weighted:
        return scores.SHARES if drawing.replace else scores.RACE
    if drawing.method == "UNIFORM" and drawing.replace:
        return scores.REPLACE
    if drawing.method == "LATEST" and relation.direction == "BOTH":
        return scores.NEWEST  # the edges in, and those out, are in the order of time each for themselves
    return _METHODS[drawing.method]


def damaged(relation: Relation) -> CorruptError:
    """An error that names the relation whose rows lead out of their arrays."""
    edge = relation.edge.edge
    return CorruptError(
        f"the adjacency of {edge} is damaged: it leads out of its arrays; CHECK DATABASE names the file",
        code="damaged-snapshot",
    )


def _check_fanouts(spec: SampleSpec) -> None:
    """Refuses what cannot be walked."""
    keys: dict[tuple[str, ...], Fanout] = {}
    for fanout in spec.fanouts:
        if wrong := [count for count in fanout.counts if count < 0 and count != FULL]:
            raise ValueError(f"a fanout is 0, a positive number or FULL ({FULL}), found {wrong[0]} for {fanout.edge}")
        for relation in fanout.relations:
            if other := keys.get(relation.key):
                raise BindError(
                    f"{_name(other)} and {_name(fanout)} both fill {tuple(relation.key)} of a batch; "
                    "keep one of them, or rename an edge type in the graph",
                    code="duplicate-fanout",
                )
            keys[relation.key] = fanout


def _name(fanout: Fanout) -> str:
    return f"{fanout.edge.edge} {fanout.direction}"

"""What of a topology a snapshot keeps: its window of event time, the vertices that are in it, the edges that pass.

An edge is in a window when start ≤ time < stop or, where edges have an end, when time < stop and the end is after
`until_after`. The time of a static edge, STATIC, is in every window.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from snapdb.arrays import Array, Bools, Int64s, UInt64s
from snapdb.errors import CorruptError
from snapdb.kernels.adjacency.forms import DAMAGED, ByPosition, RowArrays, by_part, live_arrays, parts_of, plain_array
from snapdb.kernels.adjacency.rows import Part, logical_parts
from snapdb.kernels.adjacency.spans import AHEAD, ALIVE, BLOCK, FIELDS, FIRST, KEPT, REST, SECOND, locate_range
from snapdb.kernels.bits import is_set
from snapdb.kernels.compiled import allocating_kernel, kernel
from snapdb.kernels.intrinsics import prefetch

STATIC = -(2**63)
"""The event time of edges that have none."""
_LAST = 2**63 - 1


class Admission(NamedTuple):
    """The edges that are kept."""

    words: UInt64s
    """A bit for each physical position."""
    degrees: npt.NDArray[np.uint32]
    """[nodes] how many of each row."""
    edges: int
    prefix: bool
    """In every row the kept ones come first, so that `degrees` tells all."""


class _Conditions(NamedTuple):
    """What an edge has to meet; an empty array asks nothing."""

    start: int
    stop: int
    after: int
    """Ends are after this moment, or there are no ends."""
    bounded: bool
    """There is a stop: the greatest time is a time as others are."""
    near: Bools
    far: Bools
    kept: Bools


class _Columns(NamedTuple):
    """What conditions look at, by position in the root and in the patch."""

    indices: Array
    time: Int64s
    until: Int64s
    edge_id: Array


def admitted(
    rows: RowArrays,
    *,
    time: ByPosition | None = None,
    until: ByPosition | None = None,
    edge_id: ByPosition | None = None,
    start: int | None = None,
    stop: int | None = None,
    until_after: int | None = None,
    near_alive: Bools | None = None,
    far_alive: Bools | None = None,
    kept_edges: Bools | None = None,
) -> Admission:
    """The edges of these rows that meet every condition.

    Args:
        time: Event times; without them the window asks nothing.
        until: Where edges end; then `start` asks nothing, and `until_after` does.
        edge_id: Needed with `kept_edges`.
        near_alive: [nodes] whether an edge of this row may be kept.
        far_alive: [far nodes] whether an edge to that neighbour may be.
        kept_edges: [edge ids] whether that edge may be.

    Raises:
        CorruptError: a row, a neighbour or an edge id leads out of its arrays.
        ValueError: `kept_edges` is said without `edge_id`.
    """
    if kept_edges is not None and edge_id is None:
        raise ValueError("kept_edges tells edges by id: say edge_id too")
    timed = time is not None and (start is not None or stop is not None)
    ended = timed and until is not None and until_after is not None
    conditions = _Conditions(
        STATIC if start is None or until is not None else start,
        _LAST if stop is None else stop,
        STATIC if until_after is None else until_after,
        stop is not None,
        *(_flags(each) for each in (near_alive, far_alive, kept_edges)),
    )
    edge_id = None if kept_edges is None else edge_id
    ids = [] if edge_id is None else [part for part in parts_of(edge_id) if part is not None]
    kind = np.result_type(*ids) if ids else np.int32
    root, patch = (
        _Columns(
            indices,
            by_part(time if timed else None, tail, np.int64, indices.size),
            by_part(until if ended else None, tail, np.int64, indices.size),
            by_part(edge_id, tail, kind, indices.size),
        )
        for tail, indices in enumerate((rows.indices, rows.patch.indices))
    )
    held = rows.indices.size + rows.patch.indices.size
    words, degrees = np.zeros((held + 63) // 64, np.uint64), np.zeros(rows.nodes, np.uint32)
    found = _admit(rows, conditions, root, patch, words, degrees)
    if found < 0:
        raise CorruptError(DAMAGED)
    return Admission(words, degrees, int(degrees.sum(dtype=np.int64)), bool(found))


def _take_admitted(rows: RowArrays, admission: Admission, most: int = 1 << 22) -> Iterator[Part]:
    """The rows of what is kept, some `most` edges a part."""
    return logical_parts(rows._replace(live=live_arrays(admission.words)), most)


def full_bitmap(rows: RowArrays) -> UInt64s:
    """A bit for each physical position, set where a logical row holds it."""
    return admitted(rows).words


@allocating_kernel
def _admit(
    rows: RowArrays,
    conditions: _Conditions,
    root: _Columns,
    patch: _Columns,
    words: UInt64s,
    degrees: npt.NDArray[np.uint32],
) -> int:
    """Fills words and degrees; 1 when every row is a prefix, 0 when one is not, -1 when something is damaged."""
    nodes, spans = np.empty(BLOCK, np.int64), np.empty((BLOCK, FIELDS), np.int64)
    held, prefix = rows.indices.size, 1
    for low in range(0, rows.nodes, BLOCK):
        count = min(BLOCK, rows.nodes - low)
        if not locate_range(rows, low, count, nodes, spans):
            return -1
        if conditions.near.size > 0 and not _leave_out(conditions.near, nodes, count, spans):
            return -1
        live = rows.live.words
        kept = _keep(live, conditions, root, nodes, spans, count, 0, FIRST, KEPT, words, degrees)
        if kept >= 0 and patch.indices.size > 0:
            kept = min(kept, _keep(live, conditions, patch, nodes, spans, count, held, SECOND, REST, words, degrees))
        if kept < 0:
            return -1
        prefix = min(prefix, kept)
    return prefix


@kernel
def _leave_out(near: Bools, nodes: Int64s, count: int, spans: Int64s) -> bool:
    """Takes the rows of nodes that are not in the snapshot for empty; whether `near` has all nodes."""
    for i in range(count):
        if nodes[i] >= near.size:
            return False
        if not near[nodes[i]]:
            spans[i, KEPT] = 0
            spans[i, REST] = 0
    return True


@kernel
def _keep(
    live: UInt64s,
    conditions: _Conditions,
    columns: _Columns,
    nodes: Int64s,
    spans: Int64s,
    count: int,
    base: int,
    first: int,
    length: int,
    words: UInt64s,
    degrees: npt.NDArray[np.uint32],
) -> int:
    """Admits one stretch of each row, root or patch, whose columns count from `base`; answers as `_admit` does."""
    indices, time, until, edge_id = columns.indices, columns.time, columns.until, columns.edge_id
    far, kept_edges = conditions.far, conditions.kept
    start, stop, after, bounded = conditions.start, conditions.stop, conditions.after, conditions.bounded
    prefix = 1
    for i in range(count):
        kept, seen = np.int64(degrees[nodes[i]]), spans[i, ALIVE] if base > 0 else np.int64(0)
        for position in range(spans[i, first], spans[i, first] + spans[i, length]):
            if live.size > 0 and not is_set(live, position):
                continue
            p, keep = position - base, True
            if far.size > 0:
                prefetch(far, indices[min(p + AHEAD, indices.size - 1)])
            if kept_edges.size > 0:
                prefetch(kept_edges, edge_id[min(p + AHEAD, edge_id.size - 1)])
            if time.size > 0 and time[p] != STATIC:
                keep = time[p] >= start and (time[p] < stop or not bounded)
            if until.size > 0:
                keep = keep and until[p] > after
            if far.size > 0:
                if indices[p] < 0 or indices[p] >= far.size:
                    return -1
                keep = keep and far[indices[p]]
            if kept_edges.size > 0:
                if edge_id[p] < 0 or edge_id[p] >= kept_edges.size:
                    return -1
                keep = keep and kept_edges[edge_id[p]]
            if keep:
                prefix = prefix if kept == seen else 0
                words[position >> 6] |= np.uint64(1) << np.uint64(position & 63)
                kept += 1
            seen += 1
        degrees[nodes[i]] = kept
    return prefix


def _flags(values: Bools | None) -> Bools:
    """Which of some ids may be; where there are none, none may."""
    if values is None:
        return plain_array(np.empty(0), np.bool_)
    return plain_array(values if values.size else np.zeros(1), np.bool_)

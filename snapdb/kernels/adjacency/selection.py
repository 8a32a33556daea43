"""Edge selection: the topology's edges that are in a snapshot, according to its window, vertices and filters.

An edge with only a time is in a window if start ≤ time < stop. An edge with an end is in a window if time < stop and
the end is after `until_after`. The time of a static edge, STATIC, is in every window. One pass over the positions
evaluates all conditions. Reads from other arrays, by neighbour or edge id, are prefetched.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from snapdb.arrays import Array, Bools, Int64s, UInt64s
from snapdb.errors import CorruptError
from snapdb.kernels.adjacency.forms import DAMAGED, ByPosition, RowArrays, column_arrays, parts_of, plain_array
from snapdb.kernels.adjacency.spans import (
    AHEAD,
    BASE_LEN,
    BASE_LIVE,
    BASE_START,
    BLOCK,
    DELTA_LEN,
    DELTA_START,
    FIELDS,
    locate_range,
)
from snapdb.kernels.bits import is_set
from snapdb.kernels.compiled import allocating_kernel, kernel, prefetch

STATIC = -(2**63)
"""The event time that represents static edges."""
_LAST = 2**63 - 1


class EdgeSelection(NamedTuple):
    """The edges that meet all conditions."""

    words: UInt64s
    """One bit per physical position."""
    degrees: npt.NDArray[np.uint32]
    """[nodes] The number of selected edges in each row."""
    edges: int
    """The number of selected edges."""
    prefix: bool
    """Whether the selected edges come first in every row, so that `degrees` alone determines them."""


class _Conditions(NamedTuple):
    """The conditions on an edge. An empty array means no condition."""

    start: int
    """The start of the window, inclusive."""
    stop: int
    """The end of the window, exclusive."""
    after: int
    """An edge must end after this time, or have no end."""
    bounded: bool
    """Whether there is a stop. Without a stop, the largest time is also in the window."""
    row_node: Bools
    """[nodes] Whether edges in this row can be selected."""
    neighbor: Bools
    """[neighbours] Whether edges to this neighbour can be selected."""
    edge_id: Bools
    """[edge ids] Whether this edge can be selected."""


class _Columns(NamedTuple):
    """The edge columns that conditions read, for the base or the delta."""

    offset: int
    """The first physical position, which is 0 for the base and the base's length for the delta."""
    indices: Array
    """Neighbour ids."""
    time: Int64s
    """Event times, or an empty array."""
    until: Int64s
    """End times, or an empty array."""
    edge_id: Array
    """Edge ids, or an empty array."""


def select_edges(
    rows: RowArrays,
    *,
    time: ByPosition | None = None,
    until: ByPosition | None = None,
    edge_id: ByPosition | None = None,
    start: int | None = None,
    stop: int | None = None,
    until_after: int | None = None,
    row_node_alive: Bools | None = None,
    neighbor_alive: Bools | None = None,
    selected_ids: Bools | None = None,
) -> EdgeSelection:
    """Select the edges of these rows that meet every condition.

    Args:
        time: Event times. Without them, the window is not applied.
        until: End times of edges. If given, `until_after` applies instead of `start`.
        edge_id: Edge ids, required with `selected_ids`.
        start: The start of the window, inclusive.
        stop: The end of the window, exclusive.
        until_after: Edges with an end are selected only if they end after this time.
        row_node_alive: [nodes] Whether edges in this row can be selected.
        neighbor_alive: [neighbors] Whether edges to this neighbour can be selected.
        selected_ids: [edge ids] Whether this edge can be selected.

    Raises:
        CorruptError: A row, a neighbour or an edge id is out of range.
        ValueError: `selected_ids` is given without `edge_id`.
    """
    if selected_ids is not None and edge_id is None:
        raise ValueError("selected_ids selects edges by id: pass edge_id too")
    timed = time is not None and (start is not None or stop is not None)
    ended = timed and until is not None and until_after is not None
    conditions = _Conditions(
        STATIC if start is None or until is not None else start,
        _LAST if stop is None else stop,
        STATIC if until_after is None else until_after,
        stop is not None,
        *(_flags(each) for each in (row_node_alive, neighbor_alive, selected_ids)),
    )
    ids = None if selected_ids is None or edge_id is None else edge_id
    parts = () if ids is None else tuple(part for part in parts_of(ids) if part is not None)
    columns = (
        column_arrays(time if timed else None, np.int64, rows),
        column_arrays(until if ended else None, np.int64, rows),
        column_arrays(ids, np.result_type(*parts) if parts else np.int32, rows),
    )
    in_base, in_delta = rows.indices.size, rows.delta.indices.size
    base = _Columns(0, rows.indices, *(column.base for column in columns))
    delta = _Columns(in_base, rows.delta.indices, *(column.delta for column in columns))
    words, degrees = np.zeros((in_base + in_delta + 63) // 64, np.uint64), np.zeros(rows.nodes, np.uint32)
    prefix = _select(rows, conditions, base, delta, words, degrees)
    if prefix < 0:
        raise CorruptError(DAMAGED)
    return EdgeSelection(words, degrees, int(degrees.sum(dtype=np.int64)), bool(prefix))


def full_bitmap(rows: RowArrays) -> UInt64s:
    """Return a bitmap of physical positions. A bit is set if a logical row contains the position."""
    return select_edges(rows).words


@allocating_kernel
def _select(
    rows: RowArrays,
    conditions: _Conditions,
    base: _Columns,
    delta: _Columns,
    words: UInt64s,
    degrees: npt.NDArray[np.uint32],
) -> int:
    """Fill `words` and `degrees`. Returns 1 if all rows' selections are prefixes, 0 if not, and -1 for damage."""
    nodes, spans = np.empty(BLOCK, np.int64), np.empty((BLOCK, FIELDS), np.int64)
    prefix = 1
    for low in range(0, rows.nodes, BLOCK):
        count = min(BLOCK, rows.nodes - low)
        if not locate_range(rows, low, count, nodes, spans):
            return -1
        if conditions.row_node.size > 0 and not _empty_rows(conditions.row_node, nodes, count, spans):
            return -1
        live = rows.live.words
        kept = _select_ranges(live, conditions, base, nodes, spans, count, BASE_START, BASE_LEN, words, degrees)
        if kept >= 0 and delta.indices.size > 0:
            rest = _select_ranges(live, conditions, delta, nodes, spans, count, DELTA_START, DELTA_LEN, words, degrees)
            kept = min(kept, rest)
        if kept < 0:
            return -1
        prefix = min(prefix, kept)
    return prefix


@kernel
def _empty_rows(alive: Bools, nodes: Int64s, count: int, spans: Int64s) -> bool:
    """Empty the rows of nodes that are not in the snapshot. Returns whether `alive` has a flag for every node."""
    for i in range(count):
        if nodes[i] >= alive.size:
            return False
        if not alive[nodes[i]]:
            spans[i, BASE_LEN] = 0
            spans[i, DELTA_LEN] = 0
    return True


# One pass over the positions of each row, O(edges). Reads by neighbour and by edge id are random. They are prefetched
# AHEAD positions early, which hides their latency.
@kernel
def _select_ranges(
    live: UInt64s,
    conditions: _Conditions,
    columns: _Columns,
    nodes: Int64s,
    spans: Int64s,
    count: int,
    first: int,
    length: int,
    words: UInt64s,
    degrees: npt.NDArray[np.uint32],
) -> int:
    """Select from one range of each row, in the base or in the delta. Returns the same as `_select`."""
    offset, indices, time, until, edge_id = columns
    neighbor_alive, selected_ids = conditions.neighbor, conditions.edge_id
    start, stop, after, bounded = conditions.start, conditions.stop, conditions.after, conditions.bounded
    prefix = 1
    for i in range(count):
        kept, seen = np.int64(degrees[nodes[i]]), spans[i, BASE_LIVE] if offset > 0 else np.int64(0)
        for position in range(spans[i, first], spans[i, first] + spans[i, length]):
            if live.size > 0 and not is_set(live, position):
                continue
            p, keep = position - offset, True
            if neighbor_alive.size > 0:
                prefetch(neighbor_alive, indices[min(p + AHEAD, indices.size - 1)])
            if selected_ids.size > 0:
                prefetch(selected_ids, edge_id[min(p + AHEAD, edge_id.size - 1)])
            if time.size > 0 and time[p] != STATIC:
                keep = time[p] >= start and (time[p] < stop or not bounded)
            if until.size > 0:
                keep = keep and until[p] > after
            if neighbor_alive.size > 0:
                if indices[p] < 0 or indices[p] >= neighbor_alive.size:
                    return -1
                keep = keep and neighbor_alive[indices[p]]
            if selected_ids.size > 0:
                if edge_id[p] < 0 or edge_id[p] >= selected_ids.size:
                    return -1
                keep = keep and selected_ids[edge_id[p]]
            if keep:
                prefix = prefix if kept == seen else 0
                words[position >> 6] |= np.uint64(1) << np.uint64(position & 63)
                kept += 1
            seen += 1
        degrees[nodes[i]] = kept
    return prefix


def _flags(values: Bools | None) -> Bools:
    """Return flags in the form that kernels read: an empty array for None, and one False for an array without ids."""
    if values is None:
        return plain_array(np.empty(0), np.bool_)
    return plain_array(values if values.size else np.zeros(1), np.bool_)

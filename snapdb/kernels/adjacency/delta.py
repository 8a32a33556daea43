"""The delta of a refreshed adjacency: the first difference in each touched row, and the source of each edge after it.

A logical row is a range of the base's row followed by a row of the old delta, both sorted by (time, edge id). The part
of a row before the first difference is kept. The remaining part of a touched row is a three-way merge of base, old
delta and added edges, without the removed edges. One ascending pass visits all touched nodes. An added edge is usually
later than its row's last edge, and then costs one comparison. A removed edge costs a binary search. Unchanged rows cost
nothing.

Reference implementation: the rows that tests/storage/test_topology.py sorts from scratch.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from snapdb.arrays import Array, Int64s
from snapdb.kernels.compiled import kernel

_Number = np.int64

DAMAGED = -2
_MOST = np.int64(2**63 - 1)


class Keys(NamedTuple):
    """The sort keys of edges, by position."""

    time: Int64s
    """Event times, or an empty array if edges have no times and are sorted only by edge id."""
    edge_id: Array
    """Edge ids, int32 or int64."""


class Base(NamedTuple):
    """The rows of the base adjacency."""

    indptr: Int64s
    """[base nodes + 1] The start of each row."""
    keys: Keys
    last: int
    """The latest event time in the base, or the largest int64 if it is unknown."""


class Lists(NamedTuple):
    """Lists of edges sorted by (time, edge id), one list per node. The nodes ascend."""

    nodes: Int64s
    """[lists] The nodes, ascending."""
    indptr: Int64s
    """[lists + 1] The start of each node's list in `keys`."""
    keys: Keys


class Outline(NamedTuple):
    """The rows of a new delta: the touched nodes, the kept length of each base row, and the start of each delta row."""

    nodes: Int64s
    """[touched] The nodes, ascending."""
    kept: Int64s
    """[touched] The number of positions that are kept from the base's row."""
    indptr: Int64s
    """[touched + 1] The start of each row in the delta."""


class _Row(NamedTuple):
    """A logical row: `length` positions of the base from `start`, then positions low ≤ p < high of the old delta."""

    start: _Number
    length: _Number
    low: _Number
    high: _Number


@kernel
def is_delta(base_indptr: Int64s, edges: int, nodes: Int64s, kept: Int64s, indptr: Int64s, held: int) -> bool:
    """Return whether nodes ascend, rows partition the `held` edges, and no node keeps more than its base row."""
    before = np.int64(-1)
    if indptr[0] != 0 or indptr[nodes.size] != held:
        return False
    for i in range(nodes.size):
        _, length = _stretch(base_indptr, edges, nodes[i])
        if nodes[i] <= before or indptr[i + 1] < indptr[i] or kept[i] < 0 or kept[i] > length:
            return False
        before = nodes[i]
    return True


@kernel
def _stretch(indptr: Int64s, edges: int, node: _Number) -> tuple[_Number, _Number]:
    """Return the start and the length of a base row.

    A node beyond the base has an empty row. A damaged row has length -1.
    """
    if node < 0 or node >= indptr.size - 1:
        return np.int64(0), np.int64(0)
    start, stop = indptr[node], indptr[node + 1]
    return start, stop - start if 0 <= start <= stop <= edges else np.int64(-1)


@kernel
def _list(lists: Lists, at: _Number, node: _Number) -> tuple[_Number, _Number, _Number]:
    """Return the range of a node's list, and the index of the next list.

    `at` is the first list whose node is not less than the given node.
    """
    if at < lists.nodes.size and lists.nodes[at] == node:
        return lists.indptr[at], lists.indptr[at + 1], at + 1
    return np.int64(0), np.int64(0), at


@kernel
def _least(lists: Lists, at: _Number, other: _Number) -> _Number:
    """Return the smaller of `other` and the node of list `at`."""
    return min(lists.nodes[at], other) if at < lists.nodes.size else other


@kernel
def _key(keys: Keys, p: int | _Number) -> tuple[_Number, _Number]:
    """Return the (time, edge id) at a position, or (edge id, edge id) if edges have no time."""
    number = np.int64(keys.edge_id[p])
    return (keys.time[p] if keys.time.size else number), number


@kernel
def _key_at(p: int | _Number, row: _Row, base: Base, old: Lists) -> tuple[_Number, _Number]:
    """Return the time and edge id at a position of a logical row."""
    if p < row.length:
        return _key(base.keys, row.start + p)
    return _key(old.keys, row.low + p - row.length)


@kernel
def _not_before(key: tuple[_Number, _Number], row: _Row, base: Base, old: Lists) -> _Number:
    """Binary search for the first position in a logical row whose key is not less than `key`."""
    low, high = np.int64(0), row.length + row.high - row.low
    while low < high:
        middle = (low + high) // 2
        if _key_at(middle, row, base, old) < key:
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def _locate_removed(
    low: _Number, high: _Number, removed: Keys, row: _Row, base: Base, old: Lists, positions: Int64s
) -> tuple[_Number, _Number]:
    """Fill `positions` for the removed edges low ≤ g < high.

    Returns the smallest of the positions, and the index of a removed edge that is not in the row or occurs twice, or
    -1.
    """
    degree = row.length + row.high - row.low
    first, before = degree, np.int64(-1)
    for g in range(low, high):
        key = _key(removed, g)
        p = _not_before(key, row, base, old)
        if p <= before or p == degree or _key_at(p, row, base, old) != key:
            return first, np.int64(g)
        positions[g] = before = p
        first = min(first, p)
    return first, np.int64(-1)


@kernel
def find_changes(
    base: Base, old: Lists, held: Int64s, removed: Lists, added: Lists, outline: Outline, positions: Int64s
) -> tuple[int, int]:
    """Fill the outline, which has room for all nodes of the lists, and `positions` of `removed` in the logical rows.

    `held` is the number of base row positions that the nodes of `old` keep.

    Returns:
        The number of touched nodes and -1. After an error, the number of touched nodes so far, and either DAMAGED or
        the index of a removed edge that is missing from its row or was removed twice.
    """
    nodes, keeps, indptr = outline
    o, r, a, t = np.int64(0), np.int64(0), np.int64(0), np.int64(0)
    indptr[0] = 0
    while True:
        node = _least(removed, r, _least(added, a, _MOST))
        moved = indptr[t] - old.indptr[o]
        # Rows of the old delta that precede the next changed node are copied unchanged.
        while o < old.nodes.size and old.nodes[o] < node:
            nodes[t], keeps[t], indptr[t + 1] = old.nodes[o], held[o], old.indptr[o + 1] + moved
            o += 1
            t += 1
        if node == _MOST:
            return t, -1  # type: ignore[return-value]
        start, length = _stretch(base.indptr, base.keys.edge_id.size, node)
        before = o
        low, high, o = _list(old, o, node)
        if o > before:
            length = held[before] if 0 <= held[before] <= length else np.int64(-1)
        if length < 0:
            return t, DAMAGED  # type: ignore[return-value]
        row, kept = _Row(start, length, low, high), length
        removed_low, removed_high, r = _list(removed, r, node)
        if removed_low < removed_high:
            kept, missing = _locate_removed(removed_low, removed_high, removed.keys, row, base, old, positions)
            if missing >= 0:
                return t, missing  # type: ignore[return-value]
        added_low, added_high, a = _list(added, a, node)
        if added_low < added_high:
            key = _key(added.keys, added_low)
            if low < high:  # in append-only streams, the row's last edge is nearly always earlier than the added edges
                late = bool(_key(old.keys, high - 1) >= key)
            else:
                late = bool(key[0] <= base.last and length > 0 and _key(base.keys, start + length - 1) >= key)
            if late:
                kept = min(kept, _not_before(key, row, base, old))
        kept = min(kept, length)
        nodes[t], keeps[t] = node, kept
        rest = length - kept + high - low - (removed_high - removed_low) + added_high - added_low
        indptr[t + 1] = indptr[t] + rest
        t += 1


@kernel
def list_tails(
    base: Base, old: Lists, removed: Lists, added: Lists, outline: Outline, positions: Int64s, origin: Int64s
) -> None:
    """Fill `origin` with the position from which each edge of the new rows is copied.

    Positions are numbered consecutively through the base, `old` and `added`.
    """
    nodes, keeps, indptr = outline
    base_end = base.keys.edge_id.size
    old_end = base_end + old.keys.edge_id.size
    o, r, a, t = np.int64(0), np.int64(0), np.int64(0), np.int64(0)
    while t < nodes.size:
        node = _least(removed, r, _least(added, a, _MOST))
        moved, first = indptr[t] - old.indptr[o], old.indptr[o]
        while t < nodes.size and nodes[t] < node:  # unchanged rows of the old delta
            o += 1
            t += 1
        for i in range(first, old.indptr[o]):
            origin[moved + i] = base_end + i
        if t == nodes.size:
            return
        kept, at, end = keeps[t], indptr[t], indptr[t + 1]
        low, high, o = _list(old, o, node)
        removed_low, removed_high, r = _list(removed, r, node)
        added_low, added_high, a = _list(added, a, node)
        cut = end - at - (high - low) + (removed_high - removed_low) - (added_high - added_low)
        # A row is merged only if its order changes. Otherwise, which is the common case, its old delta and the added
        # edges are concatenated.
        mixed = cut > 0 or removed_low < removed_high
        if added_low < added_high and low < high:
            mixed = mixed or _key(added.keys, added_low) < _key(old.keys, high - 1)
        if mixed:
            row = _Row(base.indptr[node] if cut > 0 else np.int64(0), kept + cut, low, high)
            gone = positions[removed_low:removed_high]
            _merge_row(row, kept, base, old, gone, added.keys, added_low, added_high, origin[at:end])
        else:
            for i in range(low, high):
                origin[at + i - low] = base_end + i
            for i in range(added_low, added_high):
                origin[at + high - low + i - added_low] = old_end + i
        t += 1


@kernel
def _merge_row(
    row: _Row,
    kept: _Number,
    base: Base,
    old: Lists,
    gone: Int64s,
    added: Keys,
    low: _Number,
    high: _Number,
    origin: Int64s,
) -> None:
    """Fill `origin` for a row: positions from `kept` on, without `gone`, merged with the added edges low ≤ i < high."""
    base_end = base.keys.edge_id.size
    old_end = base_end + old.keys.edge_id.size
    passed, at = 0, 0
    for p in range(kept, row.length + row.high - row.low):
        if passed < gone.size and gone[passed] == p:
            passed += 1
            continue
        while low < high and _key(added, low) < _key_at(p, row, base, old):
            origin[at] = old_end + low
            low += 1
            at += 1
        origin[at] = row.start + p if p < row.length else base_end + row.low + p - row.length
        at += 1
    for i in range(low, high):
        origin[at] = old_end + i
        at += 1


# One column of rows from a base, an old delta and added edges, copied in the order of `origin`. The cost is O(edges of
# the delta).
@kernel
def pick_parts(origin: Int64s, first: Array, second: Array, third: Array, out: Array) -> None:
    """Fill `out` with the values at positions that are numbered consecutively through `first`, `second` and `third`."""
    seconds = first.size
    thirds = seconds + second.size
    for i in range(origin.size):
        at = origin[i]
        if at < seconds:
            out[i] = first[at]
        elif at < thirds:
            out[i] = second[at - seconds]
        else:
            out[i] = third[at - thirds]


@kernel
def merge_column(
    low: int, high: int, base_indptr: Int64s, base: Array, outline: Outline, delta: Array, out: Array
) -> None:
    """Fill `out` with one column of the logical rows of the nodes low ≤ v < high.

    The outline contains the touched nodes in this range, and its `indptr` starts at 0 in `delta`.
    """
    nodes, kept, indptr = outline
    at = 0
    i = 0
    for v in range(low, high):
        touched = i < nodes.size and nodes[i] == v
        start = stop = 0
        if v < base_indptr.size - 1:
            start = base_indptr[v]
            stop = start + kept[i] if touched else base_indptr[v + 1]
        for p in range(start, stop):
            out[at] = base[p]
            at += 1
        if touched:
            for p in range(indptr[i], indptr[i + 1]):
                out[at] = delta[p]
                at += 1
            i += 1

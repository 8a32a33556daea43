"""Rows that change: where a logical row first differs, and where what follows from there on comes from.

A logical row is a stretch of the root's row and then a row of an earlier patch, both by (time, edge id). One walk leads
over all touched nodes, ascending: the earlier patch's, of which most stay as they are, and those that edges leave or
come to.
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
    """What edges are sorted by, by position; no times at all: by the edge id alone."""

    time: Int64s
    edge_id: Array


class Root(NamedTuple):
    """The root's rows."""

    indptr: Int64s
    keys: Keys
    last: int
    """No edge has a later time; the greatest number where that is not known."""


class Lists(NamedTuple):
    """Some nodes, ascending, and for each a list of edges by (time, edge id)."""

    nodes: Int64s
    indptr: Int64s
    keys: Keys


class Outline(NamedTuple):
    """The touched nodes of a new patch, what each keeps of its root row, and where its own row starts."""

    nodes: Int64s
    kept: Int64s
    indptr: Int64s


class _Row(NamedTuple):
    """A logical row: `length` positions of the root from `start`, then positions low ≤ p < high of the old patch."""

    start: _Number
    length: _Number
    low: _Number
    high: _Number


@kernel
def are_patch(root_indptr: Int64s, edges: int, nodes: Int64s, kept: Int64s, indptr: Int64s, held: int) -> bool:
    """Whether nodes ascend, rows follow each other through all `held` edges, and what is kept is within the root."""
    before = np.int64(-1)
    if indptr[0] != 0 or indptr[nodes.size] != held:
        return False
    for i in range(nodes.size):
        _, length = _stretch(root_indptr, edges, nodes[i])
        if nodes[i] <= before or indptr[i + 1] < indptr[i] or kept[i] < 0 or kept[i] > length:
            return False
        before = nodes[i]
    return True


@kernel
def _stretch(indptr: Int64s, edges: int, node: _Number) -> tuple[_Number, _Number]:
    """Where a row of the root starts and how long it is: nothing beyond the root, -1 when it leads out of it."""
    if node < 0 or node >= indptr.size - 1:
        return np.int64(0), np.int64(0)
    start, stop = indptr[node], indptr[node + 1]
    return start, stop - start if 0 <= start <= stop <= edges else np.int64(-1)


@kernel
def _list(nodes: Int64s, indptr: Int64s, at: _Number, node: _Number) -> tuple[_Number, _Number, _Number]:
    """From where to where a node's list goes, and which list is next; `at` is the first not before the node."""
    if at < nodes.size and nodes[at] == node:
        return indptr[at], indptr[at + 1], at + 1
    return np.int64(0), np.int64(0), at


@kernel
def _least(nodes: Int64s, at: _Number, other: _Number) -> _Number:
    return min(nodes[at], other) if at < nodes.size else other


@kernel
def _key(time: Int64s, edge_id: Array, p: int | _Number) -> tuple[_Number, _Number]:
    number = np.int64(edge_id[p])
    return (time[p] if time.size else number), number


@kernel
def _key_at(p: int | _Number, row: _Row, root: Root, old: Lists) -> tuple[_Number, _Number]:
    """Time and edge id at a position of a logical row."""
    if p < row.length:
        return _key(root.keys.time, root.keys.edge_id, row.start + p)
    return _key(old.keys.time, old.keys.edge_id, row.low + p - row.length)


@kernel
def _not_before(key: tuple[_Number, _Number], row: _Row, root: Root, old: Lists) -> _Number:
    """The first position of a logical row whose key is not before this one."""
    low, high = np.int64(0), row.length + row.high - row.low
    while low < high:
        middle = (low + high) // 2
        if _key_at(middle, row, root, old) < key:
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def _depart(
    low: _Number, high: _Number, gone: Keys, row: _Row, root: Root, old: Lists, positions: Int64s
) -> tuple[_Number, _Number]:
    """Fills `positions` of the gone edges low ≤ g < high; the least, and which is not there (again), or -1."""
    degree = row.length + row.high - row.low
    first, before = degree, np.int64(-1)
    for g in range(low, high):
        key = _key(gone.time, gone.edge_id, g)
        p = _not_before(key, row, root, old)
        if p <= before or p == degree or _key_at(p, row, root, old) != key:
            return first, np.int64(g)
        positions[g] = before = p
        first = min(first, p)
    return first, np.int64(-1)


@kernel
def find_changes(
    root: Root, old: Lists, held: Int64s, gone: Lists, new: Lists, outline: Outline, positions: Int64s
) -> tuple[int, int]:
    """Fills the outline, which has room for all nodes of the lists, and `positions` in the logical rows of `gone`.

    `held` is what the nodes of `old` keep of their root rows.

    Returns:
        How many nodes are touched, and -1; or DAMAGED; or which of the edges that go is not there, or there again.
    """
    # Tuples are taken apart before the loops: wherever one is handed on, references are counted, array by array.
    root_indptr, (root_time, root_id), last = root.indptr, root.keys, root.last
    old_nodes, old_indptr, (old_time, old_id) = old.nodes, old.indptr, old.keys
    gone_nodes, gone_indptr = gone.nodes, gone.indptr
    new_nodes, new_indptr, (new_time, new_id) = new.nodes, new.indptr, new.keys
    nodes, keeps, indptr = outline.nodes, outline.kept, outline.indptr
    o, g, n, t = np.int64(0), np.int64(0), np.int64(0), np.int64(0)
    indptr[0] = 0
    while True:
        node = _least(gone_nodes, g, _least(new_nodes, n, _MOST))
        moved = indptr[t] - old_indptr[o]
        while o < old_nodes.size and old_nodes[o] < node:  # these stay as they are
            nodes[t], keeps[t], indptr[t + 1] = old_nodes[o], held[o], old_indptr[o + 1] + moved
            o += 1
            t += 1
        if node == _MOST:
            return t, -1  # type: ignore[return-value]
        start, length = _stretch(root_indptr, root_id.size, node)
        before = o
        low, high, o = _list(old_nodes, old_indptr, o, node)
        if o > before:
            length = held[before] if 0 <= held[before] <= length else np.int64(-1)
        if length < 0:
            return t, DAMAGED  # type: ignore[return-value]
        kept = length
        leaves, left, g = _list(gone_nodes, gone_indptr, g, node)
        if leaves < left:
            kept, missing = _depart(leaves, left, gone.keys, _Row(start, length, low, high), root, old, positions)
            if missing >= 0:
                return t, missing  # type: ignore[return-value]
        comes, came, n = _list(new_nodes, new_indptr, n, node)
        if comes < came:
            key = _key(new_time, new_id, comes)
            if low < high:  # the row's last edge, nearly always before what comes: no need to look further
                late = bool(_key(old_time, old_id, high - 1) >= key)
            else:
                late = bool(key[0] <= last and length > 0 and _key(root_time, root_id, start + length - 1) >= key)
            if late:
                kept = min(kept, _not_before(key, _Row(start, length, low, high), root, old))
        kept = min(kept, length)
        nodes[t], keeps[t] = node, kept
        indptr[t + 1] = indptr[t] + length - kept + high - low - (left - leaves) + came - comes
        t += 1


@kernel
def list_tails(
    root: Root, old: Lists, gone: Lists, new: Lists, outline: Outline, positions: Int64s, origin: Int64s
) -> None:
    """Fills `origin` with where each edge of the new rows comes from: the root, then `old`, then `new`."""
    root_indptr, roots = root.indptr, root.keys.edge_id.size
    old_nodes, old_indptr, (old_time, old_id) = old.nodes, old.indptr, old.keys
    gone_nodes, gone_indptr = gone.nodes, gone.indptr
    new_nodes, new_indptr, (new_time, new_id) = new.nodes, new.indptr, new.keys
    nodes, keeps, indptr = outline.nodes, outline.kept, outline.indptr
    olds = roots + old_id.size
    o, g, n, t = np.int64(0), np.int64(0), np.int64(0), np.int64(0)
    while t < nodes.size:
        node = _least(gone_nodes, g, _least(new_nodes, n, _MOST))
        moved = indptr[t] - old_indptr[o]
        first = old_indptr[o]
        while t < nodes.size and nodes[t] < node:  # these stay as they are
            o += 1
            t += 1
        for i in range(first, old_indptr[o]):
            origin[moved + i] = roots + i
        if t == nodes.size:
            return
        kept, at, end = keeps[t], indptr[t], indptr[t + 1]
        low, high, o = _list(old_nodes, old_indptr, o, node)
        leave, left, g = _list(gone_nodes, gone_indptr, g, node)
        come, came, n = _list(new_nodes, new_indptr, n, node)
        cut = end - at - (high - low) + (left - leave) - (came - come)
        mixed = cut > 0 or leave < left
        if come < came and low < high:
            mixed = mixed or _key(new_time, new_id, come) < _key(old_time, old_id, high - 1)
        if mixed:
            start = root_indptr[node] if cut > 0 else np.int64(0)
            row = _Row(start, kept + cut, low, high)
            _mix(row, kept, root, old, positions[leave:left], new.keys, come, came, origin[at:end])
        else:
            for i in range(low, high):
                origin[at + i - low] = roots + i
            for i in range(come, came):
                origin[at + high - low + i - come] = olds + i
        t += 1


@kernel
def _mix(
    row: _Row,
    kept: _Number,
    root: Root,
    old: Lists,
    gone: Int64s,
    new: Keys,
    come: _Number,
    came: _Number,
    origin: Int64s,
) -> None:
    """One new row: the logical row from `kept` on, less the positions `gone`, with new ones come ≤ n < came."""
    roots = root.keys.edge_id.size
    olds = roots + old.keys.edge_id.size
    leave, at = 0, 0
    for p in range(kept, row.length + row.high - row.low):
        if leave < gone.size and gone[leave] == p:
            leave += 1
            continue
        while come < came and _key(new.time, new.edge_id, come) < _key_at(p, row, root, old):
            origin[at] = olds + come
            come += 1
            at += 1
        origin[at] = row.start + p if p < row.length else roots + row.low + p - row.length
        at += 1
    for i in range(come, came):
        origin[at] = olds + i
        at += 1


# One column of rows that are made out of a root and what came since, copied in the order that was found for them


@kernel
def pick_parts(origin: Int64s, first: Array, second: Array, third: Array, out: Array) -> None:
    """Fills `out` with the values at positions that are counted through all three."""
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
    low: int,
    high: int,
    root_indptr: Int64s,
    root: Array,
    nodes: Int64s,
    kept: Int64s,
    patch_indptr: Int64s,
    patch: Array,
    out: Array,
) -> None:
    """Fills `out` with one column of the logical rows of nodes low ≤ v < high, of which `nodes` are touched.

    `kept` and `patch_indptr` go with `nodes`, all of which are in that range; `patch_indptr` counts from 0 in `patch`.
    """
    at = 0
    i = 0
    for v in range(low, high):
        touched = i < nodes.size and nodes[i] == v
        start = stop = 0
        if v < root_indptr.size - 1:
            start = root_indptr[v]
            stop = start + kept[i] if touched else root_indptr[v + 1]
        for p in range(start, stop):
            out[at] = root[p]
            at += 1
        if touched:
            for p in range(patch_indptr[i], patch_indptr[i + 1]):
                out[at] = patch[p]
                at += 1
            i += 1

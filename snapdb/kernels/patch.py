"""Rows that change: where a logical row first differs, what follows from there on, and whole rows made anew.

A logical row is a stretch of the root's row and then a row of an earlier patch, both by (time, edge id).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from snapdb.kernels.compiled import kernel

__all__ = ["Keys", "Lists", "Stretches", "find_changes", "list_tails", "merge_column"]

Int64s = npt.NDArray[np.int64]
Array = npt.NDArray[Any]


class Keys(NamedTuple):
    """What edges are sorted by, by position; where there is no time, the edge id stands for both."""

    time: Array
    edge_id: Array


class Stretches(NamedTuple):
    """One stretch of the root for each touched node: `length` positions from `start`, all within it."""

    start: Int64s
    length: Int64s


class Lists(NamedTuple):
    """A list of edges for each touched node, by (time, edge id)."""

    indptr: Int64s
    time: Int64s
    edge_id: Int64s


@kernel
def _key(i: int, p: int, whole: Stretches, keys: Keys, old: Lists) -> tuple[int, int]:
    """Time and edge id at position p of the logical row of the touched node i."""
    if p < whole.length[i]:
        at = whole.start[i] + p
        return np.int64(keys.time[at]), np.int64(keys.edge_id[at])  # type: ignore[return-value]
    at = old.indptr[i] + p - whole.length[i]
    return old.time[at], old.edge_id[at]


@kernel
def _degree(i: int, whole: Stretches, old: Lists) -> int:
    return whole.length[i] + old.indptr[i + 1] - old.indptr[i]  # type: ignore[no-any-return]


@kernel
def _not_before(i: int, key: tuple[int, int], whole: Stretches, keys: Keys, old: Lists) -> int:
    """The first position of a logical row whose key is not before this one."""
    low, high = 0, _degree(i, whole, old)
    while low < high:
        middle = (low + high) // 2
        if _key(i, middle, whole, keys, old) < key:
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def find_changes(
    whole: Stretches, keys: Keys, old: Lists, gone: Lists, new: Lists, kept: Int64s, positions: Int64s
) -> int:
    """Fills `kept` with the positions of the root before a row's first change, and `positions` with those of `gone`.

    Returns:
        -1, or which of the edges that go is not there, or there a second time.
    """
    for i in range(kept.size):
        first = whole.length[i]
        before = -1
        for g in range(gone.indptr[i], gone.indptr[i + 1]):
            key = (gone.time[g], gone.edge_id[g])
            p = _not_before(i, key, whole, keys, old)
            if p <= before or p == _degree(i, whole, old) or _key(i, p, whole, keys, old) != key:
                return g
            positions[g] = before = p
            first = min(first, p)
        n = new.indptr[i]
        if n < new.indptr[i + 1]:
            first = min(first, _not_before(i, (new.time[n], new.edge_id[n]), whole, keys, old))
        kept[i] = first
    return -1


@kernel
def list_tails(
    whole: Stretches,
    keys: Keys,
    old: Lists,
    gone: Lists,
    positions: Int64s,
    new: Lists,
    kept: Int64s,
    indptr: Int64s,
    origin: Int64s,
) -> None:
    """Fills `origin` with where each edge of the new rows comes from: the root, then `old`, then `new`.

    `indptr` has room for each row: what was there from `kept` on, less `gone`, plus `new`.
    """
    roots, olds = keys.edge_id.size, old.edge_id.size
    for i in range(kept.size):
        at, g, n = indptr[i], gone.indptr[i], new.indptr[i]
        for p in range(kept[i], _degree(i, whole, old)):
            if g < gone.indptr[i + 1] and positions[g] == p:
                g += 1
                continue
            key = _key(i, p, whole, keys, old)
            while n < new.indptr[i + 1] and (new.time[n], new.edge_id[n]) < key:
                origin[at] = roots + olds + n
                n += 1
                at += 1
            if p < whole.length[i]:
                origin[at] = whole.start[i] + p
            else:
                origin[at] = roots + old.indptr[i] + p - whole.length[i]
            at += 1
        while n < new.indptr[i + 1]:
            origin[at] = roots + olds + n
            n += 1
            at += 1


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

"""Lookup tables without hashing: ids of integer keys, edges of given vertices, and members of sets of ids.

Keys and ids are integers in a bounded range. A dense table needs one read per key. Runs of consecutive keys need a
binary search over the runs. A bitmap of the range needs one bit test per id.
"""

from __future__ import annotations

import numpy as np

from snapdb.arrays import Array, Bools, Int64s, UInt64s
from snapdb.errors import CorruptError
from snapdb.kernels.adjacency.forms import DAMAGED
from snapdb.kernels.bits import count_bits
from snapdb.kernels.compiled import kernel


def look_up(table: Int64s, first: int, keys: Int64s) -> Int64s:
    """[keys] table[key - first], or -1 for a key beyond the table.

    >>> look_up(np.array([7, -1, 9]), 100, np.array([102, 100, 99, 103])).tolist()
    [9, 7, -1, -1]
    """
    out = np.empty(keys.size, np.int64)
    _look_up(table, np.int64(first), keys, out)
    return out


def look_up_runs(firsts: Int64s, lengths: Int64s, starts: Int64s, keys: Int64s) -> Int64s:
    """[keys] starts[r] + key - firsts[r], where r is the run of consecutive keys that contains the key, or -1.

    >>> look_up_runs(np.array([0, 50]), np.array([10, 5]), np.array([0, 10]), np.array([3, 51, 10, 55])).tolist()
    [3, 11, -1, -1]
    """
    out = np.empty(keys.size, np.int64)
    _look_up_runs(firsts, lengths, starts, keys, out)
    return out


@kernel
def _look_up_runs(firsts: Int64s, lengths: Int64s, starts: Int64s, keys: Int64s, out: Int64s) -> None:
    """Fill `out` with a binary search over the ascending `firsts`, at O(log runs) per key."""
    for i in range(keys.size):
        key, low, high = keys[i], 0, firsts.size
        while low < high:
            middle = (low + high) // 2
            if firsts[middle] <= key:
                low = middle + 1
            else:
                high = middle
        out[i] = -1
        if low > 0 and key - firsts[low - 1] < lengths[low - 1]:
            out[i] = starts[low - 1] + key - firsts[low - 1]


@kernel
def _look_up(table: Int64s, first: np.int64, keys: Int64s, out: Int64s) -> None:
    """Fill `out` with one read of the table per key."""
    for i in range(keys.size):
        key = keys[i]
        out[i] = table[key - first] if key >= first and key - first < table.size else -1


def ending_in(indptr: Int64s, indices: Array, near: Bools, far: Bools) -> Int64s:
    """Return the ascending positions of edges whose row node is marked in `near` or whose neighbour is marked in `far`.

    Makes two passes, O(edges). The first pass counts the edges, so that the result is allocated once.
    """
    found = np.empty(_count_ending(indptr, indices, near, far), np.int64)
    _list_ending(indptr, indices, near, far, found)
    return found


@kernel
def _count_ending(indptr: Int64s, indices: Array, near: Bools, far: Bools) -> int:
    """Count the edges for `ending_in`."""
    count = 0
    for v in range(indptr.size - 1):
        if near[v]:
            count += indptr[v + 1] - indptr[v]
        else:
            for p in range(indptr[v], indptr[v + 1]):
                count += int(far[indices[p]])
    return count


@kernel
def _list_ending(indptr: Int64s, indices: Array, near: Bools, far: Bools, found: Int64s) -> None:
    """Fill `found` with the positions of the edges for `ending_in`."""
    at = 0
    for v in range(indptr.size - 1):
        for p in range(indptr[v], indptr[v + 1]):
            if near[v] or far[indices[p]]:
                found[at] = p
                at += 1


def find_edges(
    indptr: Int64s, time: Int64s | None, edge_id: Array, nodes: Int64s, times: Int64s | None, ids: Int64s
) -> Int64s:
    """[edges] The position of each edge in its node's row, or -1 if it is missing.

    Rows are sorted by (time, edge id).
    """
    out = np.empty(nodes.size, np.int64)
    none = np.empty(0, np.int64)
    if time is None or times is None:
        time = times = none
    _find_edges(indptr, time, edge_id, nodes, times, ids, out)
    return out


# A binary search by (time, edge id) in the row of each edge costs O(log degree). A pass over all edges would cost
# O(edges).
@kernel
def _find_edges(
    indptr: Int64s, time: Int64s, edge_id: Array, nodes: Int64s, times: Int64s, ids: Int64s, out: Int64s
) -> None:
    timed = time.size > 0
    for i in range(nodes.size):
        out[i] = -1
        if nodes[i] >= indptr.size - 1:
            continue
        low, high = indptr[nodes[i]], indptr[nodes[i] + 1]
        stop = high
        if low < 0 or high > edge_id.size:  # damaged rows are reported as missing edges
            continue
        while low < high:
            middle = (low + high) // 2
            if timed and time[middle] != times[i]:
                before = time[middle] < times[i]
            else:
                before = edge_id[middle] < ids[i]
            if before:
                low = middle + 1
            else:
                high = middle
        if low < stop and edge_id[low] == ids[i]:
            out[i] = low


def find_ids(edge_id: Array, wanted: Int64s) -> Int64s:
    """Return the ascending positions of the edges with one of the wanted ids, from one pass over all edges.

    >>> find_ids(np.array([4, 0, 9, 7]), np.array([9, 5, 0])).tolist()
    [1, 2]
    """
    if not wanted.size:
        return np.empty(0, np.int64)
    first = int(wanted.min())
    bits = np.zeros((int(wanted.max()) - first) // 64 + 1, np.uint64)
    _set_bits(wanted, np.int64(first), bits)
    out = np.empty(wanted.size, np.int64)
    return out[: _find_ids(edge_id, np.int64(first), bits, out)]


@kernel
def _set_bits(numbers: Int64s, first: np.int64, bits: UInt64s) -> None:
    """Set bit `number - first` for each number. All of these bits must exist."""
    for i in range(numbers.size):
        place = numbers[i] - first
        bits[place >> 6] |= np.uint64(1) << np.uint64(place & 63)


@kernel
def _find_ids(edge_id: Array, first: np.int64, bits: UInt64s, out: Int64s) -> int:
    """Fill `out` with positions and return how many were written.

    `out` can fill up, because a damaged array can repeat an id.
    """
    count = 0
    for p in range(edge_id.size):
        place = np.int64(edge_id[p]) - first
        if place < 0 or place >> 6 >= bits.size or not (bits[place >> 6] >> np.uint64(place & 63)) & np.uint64(1):
            continue
        if count == out.size:
            break
        out[count] = p
        count += 1
    return count


# Membership in a set of ids. A bitmap of the range occupies limit / 8 bytes, and a query is one bit test per id.
def mark(numbers: Int64s, limit: int) -> UInt64s:
    """Return a bitmap of the numbers below the limit, with a bit set for each given number.

    All numbers are in 0 ≤ number < limit.
    """
    words = np.zeros((limit + 63) // 64, np.uint64)
    _set_bits(numbers, np.int64(0), words)
    return words


def marked(words: UInt64s, limit: int, numbers: Array) -> Int64s:
    """Return the indices of the `numbers` whose bit is set.

    >>> marked(mark(np.array([7, 2]), 10), 10, np.array([2, 9, 7, 2])).tolist()
    [0, 2, 3]

    Raises:
        CorruptError: A number is not in 0 ≤ number < limit.
    """
    places = np.empty(numbers.size, np.int64)
    count = _marked(words, limit, numbers, places)
    if count < 0:
        raise CorruptError(DAMAGED)
    return places[:count]


@kernel
def _marked(words: UInt64s, limit: int, numbers: Array, places: Int64s) -> int:
    """Fill `places` with the indices of members. Returns their number, or -1 if a number is out of range."""
    count = 0
    for i in range(numbers.size):
        number = np.int64(numbers[i])
        if number < 0 or number >= limit:
            return -1
        places[count] = i
        # This is branch-free. A place that is not a member is overwritten by the next one.
        count += int((words[number >> 6] >> np.uint64(number & 63)) & np.uint64(1))
    return count


# Distinct ids from a bitmap and ranks, without sorting. The time is linear in the ids and in the words of their range.
def distinct(ids: Int64s, limit: int) -> tuple[Int64s, Int64s]:
    """Return the distinct ids, ascending, and [ids] the index of each id among the distinct ids.

    >>> [array.tolist() for array in distinct(np.array([70, 3, 70]), 100)]
    [[3, 70], [1, 0, 1]]

    Raises:
        IndexError: An id is not in 0 ≤ id < limit. The argument of the error is this id.
    """
    plain = np.ascontiguousarray(ids, np.int64).view()
    plain.flags.writeable = False
    bits = np.zeros((limit + 63) // 64, np.uint64)
    wrong = _mark_ids(plain, limit, bits)
    if wrong >= 0:
        raise IndexError(int(plain[wrong]))
    before = np.empty(bits.size, np.int64)
    found, places = np.empty(min(ids.size, limit), np.int64), np.empty(ids.size, np.int64)
    return found[: _rank(plain, bits, before, found, places)], places


@kernel
def _mark_ids(ids: Int64s, limit: int, bits: UInt64s) -> int:
    """Set a bit for each id. Returns the position of an id that is out of range, or -1."""
    for i in range(ids.size):
        number = ids[i]
        if number < 0 or number >= limit:
            return i
        bits[number >> 6] |= np.uint64(1) << np.uint64(number & 63)
    return -1


@kernel
def _rank(ids: Int64s, bits: UInt64s, before: Int64s, found: Int64s, places: Int64s) -> int:
    """Fill `before`, `found` and `places` with rank queries, and return the number of set bits."""
    count = np.int64(0)
    for w in range(bits.size):
        before[w] = count
        count += np.int64(count_bits(bits[w]))
    for i in range(ids.size):
        number = ids[i]
        below = bits[number >> 6] & ((np.uint64(1) << np.uint64(number & 63)) - np.uint64(1))
        places[i] = before[number >> 6] + np.int64(count_bits(below))
        found[places[i]] = number
    return count  # type: ignore[return-value]

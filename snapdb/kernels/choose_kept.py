"""Draws from rows that serve many batches, where more than ranks decides: time, exclusions, or weights.

A row comes from a cache, or is drawn on the spot: both give the same. Where nothing but the row decides, because the
whole fanout comes from it and all of its edges are eligible, a row of the cache is all that is read.
"""

import numpy as np

from snapdb.arrays import Array, Float64s, Int64s
from snapdb.kernels.choose_listed import DraftArrays
from snapdb.kernels.choose_ranks import draw_ranks
from snapdb.kernels.compiled import kernel
from snapdb.kernels.drawn_rows import RowKeys, weight_at
from snapdb.kernels.eligible import LISTED, TOTAL, Moments, Pairs, WalkArrays
from snapdb.kernels.eligible_windows import find_windows
from snapdb.kernels.kept_rows import draw_apart
from snapdb.kernels.kept_rule import KeptRule
from snapdb.kernels.rng import fold
from snapdb.kernels.row_cache import HEAD, TORN, BaseRows, CachedRows, find_records, is_torn, load_kept, take_recorded
from snapdb.kernels.scores import FLOYD, PRIORITY
from snapdb.kernels.spans import BLOCK, DEGREE

_Number = int | np.int64


@kernel
def draw_kept(
    walk: WalkArrays,
    moments: Moments,
    pairs: Pairs,
    keys: RowKeys,
    rule: KeptRule,
    cached: CachedRows,
    base: BaseRows,
    frontier: Int64s,
    low: int,
    high: int,
    limit: int,
    trees: Int64s,
    draft: DraftArrays,
    edges: int,
    counts: Int64s,
) -> tuple[int, int, int, int]:
    """Draws as the rule says for each of frontier[low:high] to the draft, from its edge number `edges` on.

    Neighbours are 0 ≤ id < limit. Returns where in the frontier it stopped (-1: damaged), how many edges there are
    then, and for how many edges and for how long a row the draft needs room to go on.
    """
    spans, windows, sides = draft.spans, draft.windows, draft.sides
    indices, tail, neighbours, positions = walk.rows.indices, walk.rows.patch.indices, draft.neighbours, draft.positions
    found, apart, who = np.empty((BLOCK, 2), np.int64), np.empty(BLOCK, np.int64), np.empty(BLOCK, np.int64)
    owners = np.empty(BLOCK if trees.size > 0 else 0, np.int64)
    alone = rule.method == PRIORITY and rule.kept == rule.fanout and moments.high.size == 0 and pairs.far.size == 0
    first = low
    while first < high:
        last, begin = min(first + BLOCK, high), edges
        find_records(keys, cached, frontier, first, last, high, found)
        count = _set_apart(rule, alone, cached.records, frontier, trees, first, last, found, apart, who, owners)
        if not find_windows(walk, moments, pairs, who, owners, 0, count, count, spans, windows):
            return -1, edges, 0, 0
        room, longest = _needed(windows, spans, count, rule)
        room += (last - first - count) * rule.fanout
        if edges + room > sides.size or longest > draft.places.size:
            return first, edges, edges + room, longest
        i = first
        while i < last and edges >= 0:
            i, edges = _draw_alone(
                rule,
                cached.records,
                cached.scores,
                walk.weight_root,
                walk.weight_patch,
                indices,
                frontier,
                first,
                i,
                last,
                found,
                apart,
                positions,
                sides,
                neighbours,
                draft.weights,
                limit,
                edges,
            )
            if edges >= 0 and i < last:
                i, edges = draw_apart(
                    walk,
                    moments,
                    pairs,
                    keys,
                    rule,
                    cached,
                    frontier,
                    trees,
                    first,
                    i,
                    last,
                    found,
                    apart,
                    draft,
                    edges,
                )
        if edges == TORN:  # all over again
            edges = begin
            continue
        if edges < 0 or not load_kept(
            indices, tail, base, frontier, sides, positions, begin, edges, limit, neighbours, counts
        ):
            return -1, edges, 0, 0
        first = last
    return high, edges, 0, 0


@kernel
def _set_apart(
    rule: KeptRule,
    alone: bool,
    records: Array,
    frontier: Int64s,
    trees: Int64s,
    first: int,
    last: int,
    found: Int64s,
    apart: Int64s,
    who: Int64s,
    owners: Int64s,
) -> int:
    """Lists in `who` the nodes for which no record is enough, and where each is there in `apart`; how many they are."""
    everything = HEAD + 2 * rule.size
    count = 0
    for i in range(first, last):
        record = found[i - first, 0]
        if alone and record >= 0 and records[record, everything] >= 0:
            apart[i - first] = -1
            continue
        apart[i - first] = count
        who[count] = frontier[i]
        if trees.size > 0:
            owners[count] = trees[i]
        count += 1
    return count


@kernel
def _needed(windows: Int64s, spans: Int64s, count: int, rule: KeptRule) -> tuple[int, int]:
    """How many edges a block of rows draws at most, and how long its longest row is that must be listed."""
    room: _Number = np.int64(0)
    longest: _Number = np.int64(0)
    for span in range(count):
        total = windows[span, TOTAL]
        room += min(total, rule.fanout)
        if rule.method == PRIORITY and total > rule.fanout:
            longest = max(longest, spans[span, DEGREE])
        elif windows[span, LISTED] != 0 or rule.skips_zeros:
            longest = max(longest, total)
    return int(room), int(longest)


@kernel
def _draw_alone(
    rule: KeptRule,
    records: Array,
    scores: Float64s,
    root: Float64s,
    patch: Float64s,
    indices: Array,
    frontier: Int64s,
    first: int,
    i: int,
    last: int,
    found: Int64s,
    apart: Int64s,
    positions: Int64s,
    sides: Int64s,
    neighbours: Int64s,
    weights: Float64s,
    limit: int,
    edges: int,
) -> tuple[int, int]:
    """Draws rows from number i on by their records alone, up to the first that is apart; or -1 edges, or TORN.

    Arrays are handed over one by one, once for many rows: numba counts references to every array of a tuple.
    """
    size, picks = rule.size, rule.fanout
    inside = np.float64(picks) / np.float64(size)
    while i < last and apart[i - first] < 0:
        record, begin = found[i - first, 0], edges
        edges += picks
        draw_ranks(FLOYD, fold(rule.pick, np.uint64(frontier[i])), 0, size, picks, indices, positions, begin)
        sound = take_recorded(records, record, size, limit, positions, neighbours, begin, edges)
        bound = scores[record, 1]
        if is_torn(records, record, found[i - first, 1]):
            return i, TORN
        if not sound:
            return i, -1
        for e in range(begin, edges):
            sides[e] = i
            chance = min(1.0, (weight_at(root, patch, positions[e]) * bound) * 2.0**-32)
            weights[e] = 1.0 / (chance * inside)
        i += 1
    return i, edges

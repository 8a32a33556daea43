"""A hop's edges by any method, with or without times, before their ends are numbered.

What is drawn goes to a draft that grows: the kernel stops before a block of rows that might not fit, and goes on from
there.
"""

import numpy as np

from snapdb.arrays import Int64s
from snapdb.kernels.choose_listed import DraftArrays, draw_listed
from snapdb.kernels.choose_ranks import draw_ranked
from snapdb.kernels.compiled import kernel
from snapdb.kernels.eligible import LISTED, TOTAL, Moments, Pairs, WalkArrays
from snapdb.kernels.eligible_windows import find_windows
from snapdb.kernels.scores import DrawKeys, DrawRule
from snapdb.kernels.spans import BLOCK

_Number = int | np.int64


@kernel
def draw_rows(
    walk: WalkArrays,
    moments: Moments,
    pairs: Pairs,
    keys: DrawKeys,
    rule: DrawRule,
    frontier: Int64s,
    trees: Int64s,
    low: int,
    high: int,
    draft: DraftArrays,
    edges: int,
) -> tuple[int, int, _Number, _Number]:
    """Draws up to the rule's fanout for each of frontier[low:high] to the draft, from its edge number `edges` on.

    Returns where in the frontier it stopped (-1: a row leads out of its arrays), how many edges there are then, and
    for how many edges and for how long a row the draft needs room to go on.
    """
    windows, positions, sides, weights = draft.windows, draft.positions, draft.sides, draft.weights
    ordinals, indices, words, before = moments.ordinals, walk.rows.indices, walk.rows.live.words, walk.rows.live.before
    for first in range(low, high, BLOCK):
        last = min(first + BLOCK, high)
        if not find_windows(walk, moments, pairs, frontier, trees, first, last, high, draft.spans, windows):
            return -1, edges, 0, 0
        room, longest = _needed(windows, last - first, rule)
        if edges + room > sides.size or longest > draft.places.size:
            return first, edges, edges + room, longest
        i = first
        while i < last:
            i, edges = draw_ranked(
                rule,
                keys.pick,
                ordinals,
                indices,
                words,
                before,
                frontier,
                trees,
                first,
                i,
                last,
                windows,
                positions,
                sides,
                weights,
                edges,
            )
            if i < last:
                i, edges = draw_listed(walk, moments, pairs, keys, rule, frontier, trees, first, i, last, draft, edges)
            if edges < 0:
                return -1, edges, 0, 0
    return high, edges, 0, 0


@kernel
def _needed(windows: Int64s, count: int, rule: DrawRule) -> tuple[_Number, _Number]:
    """How many edges a block of rows draws at most, and how long its longest row is that must be listed."""
    room = longest = np.int64(0)
    for span in range(count):
        total = windows[span, TOTAL]
        room += min(total, rule.fanout)
        if windows[span, LISTED] != 0 or total > rule.ranked:
            longest = max(longest, total)
    return room, longest

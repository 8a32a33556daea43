"""From what was drawn of logical rows to physical positions, some rows at a time.

A row is drawn as if all of its edges stood from its first one on. What is dead moves the later ones on, and so does
the place where a patch takes over. Where few are dead they are walked through, which costs nothing but additions for
all picks of a row; else each pick is looked up by its rank.

Each loop goes over all the rows and calls nothing that is not inlined: numba counts references to every array that is
handed to a call, which would cost more than a row's own work.
"""

import numpy as np

from snapdb.arrays import Int64s, UInt64s
from snapdb.kernels.bits import last_zeros, live_before, select_live
from snapdb.kernels.compiled import kernel
from snapdb.kernels.forms import RowArrays
from snapdb.kernels.spans import ALIVE, DEGREE, FIRST, KEPT, REST, SECOND

_WALKED = 32
"""Up to so many dead positions of a row, walking through them beats a look-up of each pick."""
_LISTED = 2048
"""Up to so many positions of a row, looking at all of its words does."""


@kernel
def place(rows: RowArrays, spans: Int64s, low: int, high: int, fanout: int, positions: Int64s, edge: int) -> None:
    """Makes positions[edge:] physical, up to `fanout` for each of spans[low:high]; they were drawn from its FIRST."""
    words = rows.live.words
    if words.size > 0:
        _skip_dead(words, spans, low, high, fanout, positions, edge)
        _look_up(words, rows.live.before, spans, low, high, fanout, positions, edge)
    if rows.patch.indices.size > 0:
        _pass_on(words.size > 0, spans, low, high, fanout, positions, edge)


@kernel
def _is_walked(held: int, degree: int) -> bool:
    """Whether the dead positions of a row that holds so many are walked through."""
    return (held - degree <= _WALKED) & (held <= _LISTED)


@kernel
def _skip_dead(words: UInt64s, spans: Int64s, low: int, high: int, fanout: int, positions: Int64s, edge: int) -> None:
    """Moves the positions of rows that have few dead ones on past those, as if the two parts of a row were one."""
    every = ~np.uint64(0)
    for span in range(low, high):
        degree, kept, rest = spans[span, DEGREE], spans[span, KEPT], spans[span, REST]
        begin, end = edge, edge + min(degree, fanout)
        edge = end
        if degree == kept + rest or not _is_walked(kept + rest, degree):
            continue
        start, count, shift = spans[span, FIRST], kept, np.int64(0)
        for part in range(2):
            if part:
                shift = spans[span, FIRST] + kept - spans[span, SECOND]
                start, count = spans[span, SECOND], rest
            if count == 0:
                continue
            from_, last = start >> 6, (start + count - 1) >> 6
            for w in range(from_, last + 1):
                dead = ~words[w]
                dead &= every << np.uint64(start & 63 if w == from_ else 0)
                dead &= every >> np.uint64(63 - ((start + count - 1) & 63) if w == last else 0)
                while dead != np.uint64(0):
                    place = (w << 6) + last_zeros(dead) + shift
                    dead &= dead - np.uint64(1)
                    for e in range(begin, end):
                        positions[e] += np.int64(positions[e] >= place)


@kernel
def _look_up(
    words: UInt64s, before: Int64s, spans: Int64s, low: int, high: int, fanout: int, positions: Int64s, edge: int
) -> None:
    """The positions of rows that have many dead ones, by their rank among the live ones of a part."""
    for span in range(low, high):
        degree, kept, rest = spans[span, DEGREE], spans[span, KEPT], spans[span, REST]
        begin, end = edge, edge + min(degree, fanout)
        edge = end
        if degree == kept + rest or _is_walked(kept + rest, degree):
            continue
        first, second, alive = spans[span, FIRST], spans[span, SECOND], spans[span, ALIVE]
        base = live_before(words, before, first)
        other = live_before(words, before, second) if rest > 0 else np.int64(0)
        step = np.float64(kept + rest) / np.float64(degree)
        for e in range(begin, end):
            rank = positions[e] - first
            late = rank >= alive
            start, count = (second, rest) if late else (first, kept)
            rank -= alive if late else np.int64(0)
            guess = start + min(np.int64(np.float64(rank) * step), count - 1)
            positions[e] = select_live(words, before, start, start + count, rank + (other if late else base), guess)


@kernel
def _pass_on(bits: bool, spans: Int64s, low: int, high: int, fanout: int, positions: Int64s, edge: int) -> None:
    """Moves positions that are beyond what a patch keeps of a row on to the patch."""
    for span in range(low, high):
        degree, kept, rest = spans[span, DEGREE], spans[span, KEPT], spans[span, REST]
        begin, end = edge, edge + min(degree, fanout)
        edge = end
        if rest == 0 or (bits and not _is_walked(kept + rest, degree)):
            continue
        limit = spans[span, FIRST] + kept
        shift = spans[span, SECOND] - limit
        for e in range(begin, end):
            positions[e] += shift if positions[e] >= limit else np.int64(0)

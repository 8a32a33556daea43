"""The arrays of the rows that a cache holds of one relation, and what of them stays good when a snapshot moves on."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

import numpy as np

from snapdb.arrays import Array, Bools, Int32s, Int64s, UInt8s
from snapdb.kernels.adjacency.rows import mark_changed
from snapdb.kernels.neighbor_pool.cache import TAG, CachedRows, RowCopies
from snapdb.sampling.cache_plan import ALIGNMENT, Choice, Layout, aliased, lengths_of, record_type
from snapdb.sampling.rounds import RowTable
from snapdb.sampling.walks import Walk, damaged
from snapdb.storage.array_files import same_values
from snapdb.types import SampleSpec

Span = tuple[int, int]
"""Rows low ≤ number < high."""

_LOST = 8
"""A cache that would lose more than one of this many rows is filled again, with other rows."""


@dataclass(slots=True)
class HeldRows:
    """Row i is of nodes[i]. Drawn rows have a table."""

    walk: Walk
    table: RowTable | None
    nodes: Int64s
    places: Int32s
    rows: Array
    facts: Array
    starts: Int64s
    spans: tuple[Span, ...]
    """Drawn rows that are in use; whole rows that are still to be copied."""
    filled: int = 0
    """How many are there,"""
    edges: int = 0
    """and how many edges these hold."""

    @property
    def drawn(self) -> CachedRows:
        """As kernels read drawn rows."""
        return CachedRows(self.places, self.rows, self.facts)

    @property
    def whole(self) -> RowCopies:
        """As kernels read whole ones."""
        return RowCopies(self.places, self.facts, self.rows)

    @property
    def bytes(self) -> int:
        """Of all its arrays."""
        return sum(array.nbytes for array in (self.nodes, self.places, self.rows, self.facts, self.starts))

    @property
    def weighed(self) -> bool:
        """Whether they were drawn by weight, under PRIORITY."""
        return self.table is not None and self.facts.size > 0

    @property
    def tags(self) -> Array:
        """Of drawn rows: [rows] the round of each + 1; 0: it is not there."""
        tags: Array = self.rows[:, TAG]
        return tags

    def moved(self, walk: Walk, spec: SampleSpec) -> "HeldRows | None":
        """The same rows for the same relation of another snapshot; rows that differ there are to be filled again.

        None: none of them is of use, or too few. No thread may be reading them.

        Raises:
            CorruptError: a row leads out of its arrays.
        """
        before, after = self.walk.arrays.rows, walk.arrays.rows
        if not _same_base(self, walk) or not before.nodes <= after.nodes <= self.places.size:
            return None
        if self.table is not None and self.rows.dtype != record_type(walk):  # a delta that grew past what they can name
            return None
        changed = _changed(self, walk)
        if self.table is None:
            return _moved_whole(self, walk, changed)
        return _moved_drawn(self, self.table, walk, aliased(spec, self.table.size), changed)


def hold(choices: Iterable[Choice], allocate: Callable[[int], UInt8s]) -> tuple[HeldRows, ...]:
    """Empty arrays for the chosen rows, in zeroed memory from `allocate`."""
    layouts = [(choice, choice.layout()) for choice in choices]
    memory = allocate(sum(layout.bytes for _, layout in layouts))
    found = []
    for choice, layout in layouts:
        found.append(_held(choice, layout, memory[: layout.bytes]))
        memory = memory[layout.bytes :]
    return tuple(found)


def _held(choice: Choice, layout: Layout, memory: UInt8s) -> HeldRows:
    parts = []
    for array in layout:
        parts.append(memory[: array.bytes].view(array.dtype).reshape(array.shape))
        memory = memory[array.bytes + -array.bytes % ALIGNMENT :]
    nodes, places, rows, facts, starts = parts
    nodes[:] = choice.nodes
    places[:] = -1
    if choice.table is None:
        np.cumsum(choice.lengths, out=starts[1:])
    else:
        places[nodes] = np.arange(nodes.size)
    return HeldRows(choice.walk, choice.table, nodes, places, rows, facts, starts, ((0, nodes.size),))


def _changed(held: HeldRows, walk: Walk) -> Bools:
    """Which of the nodes have other edges now, or edges at other places."""
    before, after, same_delta = held.walk.arrays.rows, walk.arrays.rows, _same_delta(held, walk)
    changed = np.zeros(held.nodes.size, np.bool_)
    parts = ((before.degrees, after.degrees), (before.live.words, after.live.words))
    if same_delta and before.nodes == after.nodes and all(same_values(*pair) for pair in parts):
        return changed  # the same snapshot
    if not mark_changed(before, after, same_delta, held.nodes, changed):
        raise damaged(walk.relation)
    return changed


def _moved_whole(held: HeldRows, walk: Walk, changed: Bools) -> HeldRows | None:
    """Whole rows that are as long as they were are copied again; others have no room."""
    held.places[held.nodes[changed]] = -1
    there, lengths = held.places[held.nodes] >= 0, np.diff(held.starts)
    lost = ~there & (lengths_of(walk)[held.nodes] != lengths)
    if lost.sum() * _LOST > lost.size:
        return None
    filled, edges = int(there.sum()), int(lengths[there].sum())
    return replace(held, walk=walk, spans=_spans(~(there | lost)), filled=filled, edges=edges)


def _moved_drawn(held: HeldRows, table: RowTable, walk: Walk, few: int, changed: Bools) -> HeldRows | None:
    """Drawn rows are drawn again; nodes that have few edges now have none any more."""
    lost = walk.adjacency.degrees()[held.nodes] <= few
    if lost.sum() * _LOST > lost.size:
        return None
    held.tags[changed] = 0
    held.places[held.nodes] = np.where(lost, -1, np.arange(lost.size))
    filled = int(np.count_nonzero(held.tags[~lost]))
    table = table._replace(walk=walk)
    return replace(held, walk=walk, table=table, spans=_spans(~lost), filled=filled, edges=filled * table.size)


def _same_base(held: HeldRows, walk: Walk) -> bool:
    """Whether positions in the base mean the same edges; of rows that were drawn by weight, of the same weights."""
    one, other = held.walk.arrays, walk.arrays
    pairs = [(one.rows.indptr, other.rows.indptr), (one.rows.indices, other.rows.indices)]
    if held.weighed:
        pairs += [(one.ids.base, other.ids.base), (one.weights.base, other.weights.base)]
    return all(same_values(*pair) for pair in pairs)


def _same_delta(held: HeldRows, walk: Walk) -> bool:
    """The same of positions in the delta."""
    one, other = held.walk.arrays, walk.arrays
    pairs = [(one.rows.delta.indptr, other.rows.delta.indptr), (one.rows.delta.indices, other.rows.delta.indices)]
    if held.weighed:
        pairs += [(one.ids.delta, other.ids.delta), (one.weights.delta, other.weights.delta)]
    return all(same_values(*pair) for pair in pairs)


def _spans(wanted: Bools) -> tuple[Span, ...]:
    """The stretches of wanted rows.

    >>> _spans(np.array([True, True, False, True]))
    ((0, 2), (3, 4))
    """
    edges = np.flatnonzero(np.diff(np.concatenate([[False], wanted, [False]])))
    return tuple(zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True))

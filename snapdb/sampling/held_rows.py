"""The cached rows of one relation, and the selection of rows that remain valid when the snapshot is refreshed."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

import numpy as np

from snapdb.arrays import Array, Bools, Int32s, Int64s, UInt8s
from snapdb.kernels.adjacency.rows import mark_changed
from snapdb.kernels.neighbor_pool.cache import TAG, CachedRows, RowCopies
from snapdb.sampling.cache_plan import ALIGNMENT, Choice, Layout, aliased, lengths_of, record_type
from snapdb.sampling.rounds import RowTable
from snapdb.sampling.traversals import Traversal, damaged
from snapdb.storage.array_files import same_values
from snapdb.types import SampleSpec

Span = tuple[int, int]
"""A range of rows, low ≤ row < high."""

_LOST = 8
"""A refreshed cache that would lose more than one in this many rows is rebuilt instead, with newly selected rows."""


@dataclass(slots=True)
class HeldRows:
    """The arrays of cached rows: row i belongs to nodes[i]."""

    traversal: Traversal
    """The relation in the snapshot from which the rows were read."""
    table: RowTable | None
    """The table that rows are drawn from, or None for whole rows."""
    nodes: Int64s
    """[rows] nodes, ascending."""
    places: Int32s
    """[nodes] the row of each node, or -1."""
    rows: Array
    """[rows, width] records of drawn rows, or the concatenated neighbours of whole rows."""
    facts: Array
    """[rows, 2] scores of drawn rows, or shifts of whole rows. Empty if the rows have neither."""
    starts: Int64s
    """[rows + 1] the start of each whole row among the neighbours. Empty for drawn rows."""
    spans: tuple[Span, ...]
    """The ranges of drawn rows in use, or of whole rows that are still to be copied."""
    filled: int = 0
    """The number of filled rows."""
    edges: int = 0
    """The number of edges in the filled rows."""

    @property
    def drawn(self) -> CachedRows:
        """The drawn rows in the form required by kernels."""
        return CachedRows(self.places, self.rows, self.facts)

    @property
    def whole(self) -> RowCopies:
        """The whole rows in the form required by kernels."""
        return RowCopies(self.places, self.facts, self.rows)

    @property
    def bytes(self) -> int:
        """The total size of all arrays in bytes."""
        return sum(array.nbytes for array in (self.nodes, self.places, self.rows, self.facts, self.starts))

    @property
    def weighed(self) -> bool:
        """Whether rows were drawn by weight, under PRIORITY."""
        return self.table is not None and self.facts.size > 0

    @property
    def tags(self) -> Array:
        """[rows] the round + 1 of each drawn row, or 0 if it is not filled."""
        tags: Array = self.rows[:, TAG]
        return tags

    def moved(self, traversal: Traversal, spec: SampleSpec) -> "HeldRows | None":
        """Return these rows for the same relation of another snapshot. Rows that differ there are marked for refill.

        Returns None if no row or too few rows are still valid. No thread may be reading the rows.

        Raises:
            CorruptError: A row extends beyond its arrays.
        """
        before, after = self.traversal.arrays.rows, traversal.arrays.rows
        # Cached positions remain valid only over the same base, and `places` must have an entry for each node.
        if not _same_base(self, traversal) or not before.nodes <= after.nodes <= self.places.size:
            return None
        # The delta grew beyond the positions that these records can store.
        if self.table is not None and self.rows.dtype != record_type(traversal):
            return None
        changed = _changed(self, traversal)
        if self.table is None:
            return _moved_whole(self, traversal, changed)
        return _moved_drawn(self, self.table, traversal, aliased(spec, self.table.size), changed)


def hold(choices: Iterable[Choice], allocate: Callable[[int], UInt8s]) -> tuple[HeldRows, ...]:
    """Return empty arrays for the chosen rows, in zeroed memory from `allocate`."""
    layouts = [(choice, choice.layout()) for choice in choices]
    memory = allocate(sum(layout.bytes for _, layout in layouts))
    found = []
    for choice, layout in layouts:
        found.append(_held(choice, layout, memory[: layout.bytes]))
        memory = memory[layout.bytes :]
    return tuple(found)


def _held(choice: Choice, layout: Layout, memory: UInt8s) -> HeldRows:
    """Return the arrays for the selected rows, as views of their memory."""
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
        # Records of drawn rows have fixed places. The place of a whole row is published once the row has been copied.
        places[nodes] = np.arange(nodes.size)
    return HeldRows(choice.traversal, choice.table, nodes, places, rows, facts, starts, ((0, nodes.size),))


def _changed(held: HeldRows, traversal: Traversal) -> Bools:
    """Return a [rows] mask of the nodes whose edges or edge positions differ in the new snapshot."""
    before, after, same_delta = held.traversal.arrays.rows, traversal.arrays.rows, _same_delta(held, traversal)
    changed = np.zeros(held.nodes.size, np.bool_)
    parts = ((before.degrees, after.degrees), (before.live.words, after.live.words))
    # Comparing the arrays costs less than locating every row, and they are often the same file.
    if same_delta and before.nodes == after.nodes and all(same_values(*pair) for pair in parts):
        return changed  # the same snapshot
    if not mark_changed(before, after, same_delta, held.nodes, changed):
        raise damaged(traversal.relation)
    return changed


def _moved_whole(held: HeldRows, traversal: Traversal, changed: Bools) -> HeldRows | None:
    """Mark changed whole rows of the same length for copying. Rows of a different length do not fit and are dropped."""
    held.places[held.nodes[changed]] = -1
    there, lengths = held.places[held.nodes] >= 0, np.diff(held.starts)
    lost = ~there & (lengths_of(traversal)[held.nodes] != lengths)
    if lost.sum() * _LOST > lost.size:
        return None
    filled, edges = int(there.sum()), int(lengths[there].sum())
    return replace(held, traversal=traversal, spans=_spans(~(there | lost)), filled=filled, edges=edges)


def _moved_drawn(held: HeldRows, table: RowTable, traversal: Traversal, few: int, changed: Bools) -> HeldRows | None:
    """Mark changed drawn rows for redrawing. Nodes that now have few edges lose their row."""
    lost = traversal.adjacency.degrees()[held.nodes] <= few
    if lost.sum() * _LOST > lost.size:
        return None
    held.tags[changed] = 0
    held.places[held.nodes] = np.where(lost, -1, np.arange(lost.size))
    filled = int(np.count_nonzero(held.tags[~lost]))
    table = table._replace(traversal=traversal)
    return replace(
        held, traversal=traversal, table=table, spans=_spans(~lost), filled=filled, edges=filled * table.size
    )


def _same_base(held: HeldRows, traversal: Traversal) -> bool:
    """Return whether positions in the base still refer to the same edges and, if weights matter, the same weights."""
    one, other = held.traversal.arrays, traversal.arrays
    pairs = [(one.rows.indptr, other.rows.indptr), (one.rows.indices, other.rows.indices)]
    if held.weighed:
        pairs += [(one.ids.base, other.ids.base), (one.weights.base, other.weights.base)]
    return all(same_values(*pair) for pair in pairs)


def _same_delta(held: HeldRows, traversal: Traversal) -> bool:
    """Return whether positions in the delta still refer to the same edges and, if weights matter, the same weights."""
    one, other = held.traversal.arrays, traversal.arrays
    pairs = [(one.rows.delta.indptr, other.rows.delta.indptr), (one.rows.delta.indices, other.rows.delta.indices)]
    if held.weighed:
        pairs += [(one.ids.delta, other.ids.delta), (one.weights.delta, other.weights.delta)]
    return all(same_values(*pair) for pair in pairs)


def _spans(wanted: Bools) -> tuple[Span, ...]:
    """Return the ranges of rows marked True.

    >>> _spans(np.array([True, True, False, True]))
    ((0, 2), (3, 4))
    """
    edges = np.flatnonzero(np.diff(np.concatenate([[False], wanted, [False]])))
    return tuple(zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True))

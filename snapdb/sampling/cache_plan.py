"""The plan of a neighbor pool cache: the expected accesses of each node, and the rows worth caching."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from snapdb.arrays import Bools, Float64s, Int64s
from snapdb.kernels.adjacency.rows import row_lengths, spread
from snapdb.kernels.draw.scores import PRIORITY
from snapdb.kernels.draw.uniform import EVERY
from snapdb.kernels.neighbor_pool.cache import record_width
from snapdb.sampling.rounds import RowTable, row_tables, slot_of
from snapdb.sampling.subgraph import Seeds
from snapdb.sampling.traversals import Traversal, damaged
from snapdb.types import Relation, SampleSpec

Accesses = Mapping[tuple[Relation, int], Float64s]
"""(relation, hop) → [nodes]: the expected number of times that a batch expands each node."""

_AT_ONCE = 1 << 18
"""The number of nodes whose rows are read between two checks for interruption."""


class _Hop(NamedTuple):
    """The expected state of a batch before a hop."""

    number: int
    frontier: Mapping[str, Float64s]
    """Vertex type → [nodes] the expected number of times that the hop expands each node."""
    met: Mapping[str, Float64s]
    """Vertex type → [nodes] the expected number of times that each node is in the batch."""


def expected_accesses(
    spec: SampleSpec,
    traversals: Sequence[Traversal],
    seeds: Seeds,
    node_counts: Mapping[str, int],
    check: Callable[[], None] = lambda: None,
) -> Accesses:
    """Return the expected accesses at each hop over each relation, computed in one pass per hop except the last.

    Each pass reads the topology. Neighbours are assumed to be drawn uniformly and independently, without regard to time
    and weight. `check` is called between blocks of nodes, and an exception that it raises aborts the computation.

    Raises:
        CorruptError: A row extends beyond its arrays.
    """
    return {
        (traversal.relation, hop.number): hop.frontier[traversal.relation.expands]
        for hop in islice(_hops(spec, traversals, seeds, node_counts, check), spec.hops)
        for traversal in traversals
        if traversal.count(hop.number)
    }


def expected_visits(
    spec: SampleSpec,
    traversals: Sequence[Traversal],
    seeds: Seeds,
    node_counts: Mapping[str, int],
    check: Callable[[], None] = lambda: None,
) -> Mapping[str, Float64s]:
    """Vertex type → [nodes] the expected number of times that each node is in a batch, with one pass per hop.

    The assumptions and errors are those of `expected_accesses`.
    """
    *_, last = _hops(spec, traversals, seeds, node_counts, check)
    return last.met


def _hops(
    spec: SampleSpec,
    traversals: Sequence[Traversal],
    seeds: Seeds,
    node_counts: Mapping[str, int],
    check: Callable[[], None],
) -> Iterator[_Hop]:
    """Yield the expected state before each hop and after the last one. Each is computed when it is requested."""
    met = new = _entering(spec, seeds, node_counts)
    for hop in range(spec.hops):
        frontier = met if spec.layout == "BLOCKS" else new
        yield _Hop(hop, frontier, met)
        reached = {name: np.zeros(count) for name, count in node_counts.items()}
        for traversal in traversals:
            if traversal.count(hop):
                _hand_on(traversal, hop, frontier, reached, check)
        # If nodes are shared, each is expanded once per batch. If m independent arrivals are expected, the probability
        # of at least one is 1 - exp(-m) (Poisson), and only nodes that are not yet in the batch are new.
        new = reached if spec.disjoint else {name: -np.expm1(-many) * (1 - met[name]) for name, many in reached.items()}
        met = {name: before + new[name] for name, before in met.items()}
    yield _Hop(spec.hops, new, met)


def _entering(spec: SampleSpec, seeds: Seeds, node_counts: Mapping[str, int]) -> dict[str, Float64s]:
    """Return, by vertex type, [nodes] the expected number of times that a node is a seed, an end or a negative.

    If nodes are shared by all seeds, a node counts at most once per batch.
    """
    accesses = {name: np.zeros(count) for name, count in node_counts.items()}
    share = min(1.0, spec.batch_size / max(1, seeds.ids.size))
    if spec.link is None or seeds.ends is None:
        entering = [(seeds.type, seeds.ids)]
    else:
        entering = list(zip((spec.link.edge.source, spec.link.edge.destination), seeds.ends, strict=True))
        if spec.link.negatives is not None:
            other = spec.link.edge.destination
            accesses[other] += spec.batch_size * spec.link.negatives.count / max(1, node_counts[other])
    for name, ids in entering:
        accesses[name] += np.bincount(ids, minlength=node_counts[name]) * share
    return accesses if spec.disjoint else {name: np.minimum(many, 1.0) for name, many in accesses.items()}


def _hand_on(
    traversal: Traversal,
    hop: int,
    frontier: Mapping[str, Float64s],
    reached: Mapping[str, Float64s],
    check: Callable[[], None],
) -> None:
    """Add the accesses that a relation's frontier propagates to its neighbours."""
    rows, relation = traversal.for_one_pass().arrays.rows, traversal.relation
    for low in range(0, rows.nodes, _AT_ONCE):
        check()
        high = min(low + _AT_ONCE, rows.nodes)
        if not spread(rows, frontier[relation.expands], traversal.count(hop), low, high, reached[relation.reaches]):
            raise damaged(relation)


# Row selection: all rows that a sampler reads or, if they do not fit, a greedy knapsack by reads saved per byte.
ALIGNMENT = 64
"""The alignment in bytes of each array in the cache's memory: a cache line."""


class _Array(NamedTuple):
    """The shape and dtype of an array to allocate."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    @property
    def bytes(self) -> int:
        return int(np.prod(self.shape, dtype=np.int64)) * self.dtype.itemsize


class Layout(NamedTuple):
    """The arrays for the selected rows, in address order."""

    nodes: _Array
    """[rows] the node of each row."""
    places: _Array
    """[nodes] the row of each node, with spare entries because snapshots grow when they are refreshed."""
    rows: _Array
    """The records of drawn rows, or the neighbours of whole rows."""
    facts: _Array
    """The scores of drawn rows, or the shifts of whole rows."""
    starts: _Array
    """The start of each whole row among the neighbours, and the end of the last one. Empty for drawn rows."""

    @property
    def bytes(self) -> int:
        """The total size of all arrays in bytes, including padding."""
        return sum(array.bytes + -array.bytes % ALIGNMENT for array in self)


class Choice(NamedTuple):
    """The nodes for which a cache holds rows of one kind: drawn rows of a table, or whole rows if `table` is None."""

    traversal: Traversal
    table: RowTable | None
    nodes: Int64s
    """[rows] the nodes, ascending."""
    lengths: Int64s
    """[rows] the number of edges in each row."""

    def only(self, places: slice | Bools) -> Choice:
        """Return the same choice restricted to a subset of its nodes."""
        return Choice(self.traversal, self.table, self.nodes[places], self.lengths[places])

    def layout(self) -> Layout:
        """Return the arrays that hold the chosen rows."""
        rows, many, table = self.traversal.arrays.rows, self.nodes.size, self.table
        whole, real = np.dtype(np.int64), np.dtype(np.float64)
        # Allocate 1/16 more places than nodes, so that a refreshed snapshot with a few new nodes can inherit the cache.
        nodes, places = _Array((many,), whole), _Array((rows.nodes + rows.nodes // 16,), np.dtype(np.int32))
        if table is None:
            neighbors = _Array((int(self.lengths.sum()),), rows.indices.dtype)
            return Layout(nodes, places, neighbors, _Array((many, 2), whole), _Array((many + 1,), whole))
        weighted = self.traversal.method == PRIORITY
        records = _Array((many, record_width(table.size, weighted)), record_type(self.traversal))
        return Layout(nodes, places, records, _Array((many if weighted else 0, 2), real), _Array((0,), whole))


def record_type(traversal: Traversal) -> np.dtype[Any]:
    """Return the dtype of drawn-row records, which must be able to represent edge positions and neighbour ids."""
    rows = traversal.arrays.rows
    wide = rows.indices.size + rows.delta.indices.size > 2**31 or rows.indices.dtype.itemsize > 4
    return np.dtype(np.int64 if wide else np.int32)


def choose_rows(
    spec: SampleSpec, traversals: Sequence[Traversal], room: int | None, visits: Callable[[], Accesses]
) -> tuple[Choice, ...]:
    """Return the rows that a cache of `room` bytes contains, or all rows if `room` is None.

    If not all rows fit, rows are chosen by the expected number of edges that batches read from them, per byte. Only in
    this case is `visits` called to compute the expected accesses.
    """
    choices = [choice for choice in (*_drawn(spec, traversals), *_whole(spec, traversals)) if choice.nodes.size]
    # Expected accesses cost passes over the topology, and are needed only if a cache is too small for all rows.
    if room is None or _bytes(choices) <= room:
        return tuple(choices)
    known = visits()
    return _best([(choice, _worth(spec, choice, known)) for choice in choices], room)


def bytes_wanted(spec: SampleSpec, traversals: Sequence[Traversal]) -> int:
    """Return the size in bytes of a cache that contains all rows."""
    return _bytes([*_drawn(spec, traversals), *_whole(spec, traversals)])


def _bytes(choices: Sequence[Choice]) -> int:
    return sum(choice.layout().bytes for choice in choices)


def _drawn(spec: SampleSpec, traversals: Sequence[Traversal]) -> Iterator[Choice]:
    """Yield the drawn rows, table by table."""
    for table in row_tables(spec, traversals):
        # Nodes of smaller degree have no pool row: their edges are drawn from the whole row.
        nodes = np.flatnonzero(table.traversal.adjacency.degrees() > aliased(spec, table.size))
        yield Choice(table.traversal, table, nodes, np.full(nodes.size, table.size, np.int64))


def _whole(spec: SampleSpec, traversals: Sequence[Traversal]) -> Iterator[Choice]:
    """Yield the rows that batches read whole: all rows if there is no refresh, otherwise the rows with few edges."""
    for traversal in traversals:
        degrees = traversal.adjacency.degrees()
        nodes = np.flatnonzero((degrees > 0) & (degrees <= _longest_whole(spec, traversal)))
        yield Choice(traversal, None, nodes, lengths_of(traversal)[nodes])


def rows_read(spec: SampleSpec, traversals: Sequence[Traversal]) -> frozenset[tuple[object, ...]]:
    """Return the kinds of rows that a sampler reads from any snapshot.

    Caches with the same kinds can inherit each other's rows.
    """
    drawn = {(table.traversal.relation, table.slot, table.size) for table in row_tables(spec, traversals)}
    return frozenset(drawn | {(traversal.relation, _longest_whole(spec, traversal)) for traversal in traversals})


def lengths_of(traversal: Traversal) -> Int64s:
    """Return [nodes], the number of positions in each whole row.

    Raises:
        CorruptError: A row extends beyond its arrays.
    """
    lengths = np.empty(traversal.arrays.rows.nodes, np.int64)
    if not row_lengths(traversal.arrays.rows, True, lengths):
        raise damaged(traversal.relation)
    return lengths


def _longest_whole(spec: SampleSpec, traversal: Traversal) -> int:
    """Return the largest degree of nodes whose whole row is read at any hop."""
    return max((_read_whole(spec, traversal, hop) for hop in range(spec.hops)), default=0)


def _read_whole(spec: SampleSpec, traversal: Traversal, hop: int) -> int:
    """Return the largest degree of nodes whose whole row is read at a hop."""
    count = traversal.count(hop)
    if count in (0, EVERY) or spec.refresh is None:
        return EVERY if count else 0
    return aliased(spec, spec.refresh.row_size(traversal.fanout, count))


def aliased(spec: SampleSpec, size: int) -> int:
    """Return the largest degree of nodes without a pool row of this size."""
    assert spec.refresh is not None
    return max(size, spec.refresh.above)


def _worth(spec: SampleSpec, choice: Choice, visits: Accesses) -> Float64s:
    """Return [rows], the expected number of edges that a batch reads from each row."""
    reads = np.zeros(choice.nodes.size)
    for hop in range(spec.hops):
        if choice.traversal.count(hop):
            reads += visits[choice.traversal.relation, hop][choice.nodes] * edges_read(spec, choice, hop)
    return reads


def edges_read(spec: SampleSpec, choice: Choice, hop: int) -> Int64s:
    """Return [rows], the number of edges that a hop reads from each row per access."""
    count = choice.traversal.count(hop)
    if choice.table is None:
        degrees = choice.traversal.adjacency.degrees()[choice.nodes]
        return np.minimum(degrees, count) * (degrees <= _read_whole(spec, choice.traversal, hop))
    kept = spec.refresh.kept(count) if spec.refresh is not None and draws_from(spec, choice.table, hop) else 0
    return np.full(choice.nodes.size, kept)


def draws_from(spec: SampleSpec, table: RowTable, hop: int) -> bool:
    """Return whether a hop draws from the rows of a table."""
    count = table.traversal.count(hop)
    if spec.refresh is None or count in (0, EVERY):
        return False
    return (slot_of(spec, hop), spec.refresh.row_size(table.traversal.fanout, count)) == (table.slot, table.size)


def _best(valued: list[tuple[Choice, Float64s]], room: int) -> tuple[Choice, ...]:
    """Return the rows with the greatest value per byte, as many as fit."""
    kept, left = [], room
    for choice, worth in sorted(valued, key=lambda each: -float(each[1].sum())):
        fixed = choice.only(slice(0, 0)).layout().bytes + len(Layout._fields) * ALIGNMENT
        # Every expanded node is looked up, so `places` has an entry for each node, which is a fixed cost.
        if fixed <= left:
            left -= fixed
            kept.append((choice, worth, _row_bytes(choice)))
    if not kept:
        return ()
    costs = np.concatenate([cost for _, _, cost in kept])
    # A greedy knapsack: rows are small compared with the cache, so the result is within one row of the optimum.
    order = np.argsort(-np.concatenate([worth for _, worth, _ in kept]) / costs, kind="stable")
    taken = np.zeros(costs.size, np.bool_)
    taken[order[: np.searchsorted(np.cumsum(costs[order]), left, side="right")]] = True
    bounds = np.cumsum([choice.nodes.size for choice, _, _ in kept])[:-1]
    parts = zip(kept, np.split(taken, bounds), strict=True)
    chosen = [choice.only(part & (worth > 0)) for (choice, worth, _), part in parts]
    return tuple(choice for choice in chosen if choice.nodes.size)


def _row_bytes(choice: Choice) -> Int64s:
    """Return [rows], the size of each row in bytes."""
    empty = choice.only(slice(0, 0)).layout()
    one = choice.only(slice(0, 1)).layout()
    if choice.table is not None:
        return np.full(choice.nodes.size, sum(a.bytes - b.bytes for a, b in zip(one, empty, strict=True)), np.int64)
    item = empty.rows.dtype.itemsize
    alike = sum(a.bytes - b.bytes for a, b in zip(one, empty, strict=True)) - one.rows.bytes
    return alike + item * choice.lengths

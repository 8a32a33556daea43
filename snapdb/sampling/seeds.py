"""Batch seeds: an epoch's seed order, and the expansion of seeds and negatives into a sampler's input."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from snapdb.arrays import Float64s, Int64s
from snapdb.errors import BindError, CorruptError
from snapdb.graph.view import Adjacency, GraphView
from snapdb.kernels.adjacency.forms import DAMAGED
from snapdb.kernels.adjacency.rows import neighbors_of
from snapdb.kernels.adjacency.spans import DEGREE, FIELDS, list_spans, locate
from snapdb.kernels.draw.eligible import STATIC
from snapdb.kernels.draw.negatives import (
    AT,
    BEFORE,
    EVER,
    BirthOrder,
    Born,
    Known,
    birth_order,
    draw_by_race,
    draw_by_rank,
)
from snapdb.kernels.rng import Domain, fold_parts, seed_order_key, shuffle
from snapdb.sampling.subgraph import ExcludedEdges, SamplerInput, SeedGroup, Seeds, vertex_input
from snapdb.types import Link, Negatives, Relation, SampleSpec, SeedOrder


@dataclass(frozen=True, slots=True)
class _Slices:
    """The division of a seed set into slices, one per epoch. An order of all seeds lasts for `count` epochs."""

    seeds: int
    """The number of seeds."""
    size: int
    """The number of seeds in every slice except the last, which may be shorter."""
    count: int
    """The number of slices."""

    @staticmethod
    def of(seeds: int, subset: Fraction | None) -> _Slices:
        share = Fraction(1) if subset is None else subset
        size = max(1, -(-seeds * share.numerator // share.denominator))
        return _Slices(seeds, size, max(1, -(-seeds // size)))

    def span(self, epoch: int) -> slice:
        """Return the range of the seed order that an epoch covers."""
        start = epoch % self.count * self.size
        return slice(start, min(start + self.size, self.seeds))

    def taken(self, epoch: int) -> int:
        """Return the number of seeds in an epoch."""
        return min(self.size, self.seeds - epoch % self.count * self.size)

    def batches(self, epoch: int, batch_size: int) -> int:
        return -(-self.taken(epoch) // batch_size)


def epoch_order(seeds: Seeds, seed: int, epoch: int, order: SeedOrder, subset: Fraction | None = None) -> Int64s:
    """Return the ordinals of an epoch's seeds in order, for the whole seed set or for a `subset` share of it.

    SHUFFLE draws a new order for each epoch, FIXED keeps the order of epoch 0, and IN ORDER uses the row order of the
    seed query. With a subset, an order lasts until all of its slices have been used.

    Raises:
        ValueError: The order is IN ORDER, but the seeds have no query order.

    >>> import numpy as np
    >>> people = Seeds("person", np.arange(8), y=None, query_order=None)
    >>> epoch_order(people, seed=42, epoch=1, order="SHUFFLE").tolist()
    [4, 1, 0, 2, 6, 3, 5, 7]
    >>> [epoch_order(people, 42, epoch, "SHUFFLE", Fraction(3, 8)).tolist() for epoch in range(4)]
    [[7, 2, 4], [5, 0, 1], [6, 3], [4, 1, 0]]
    """
    slices = _Slices.of(seeds.ids.size, subset)
    taken = slices.span(epoch)
    match order:
        case "SHUFFLE":
            # With a subset, `count` consecutive epochs are slices of one shuffle: together they cover every seed once.
            return shuffle(seed_order_key(seed, epoch // slices.count), seeds.ids.size)[taken]
        case "FIXED":
            return shuffle(seed_order_key(seed, 0), seeds.ids.size)[taken]
        case "IN ORDER":
            # Seeds are in canonical order. Only the rows of the seed query define another order.
            if seeds.query_order is None:
                raise ValueError(
                    "IN ORDER is not supported for these seeds, which have no query order; use SHUFFLE or FIXED"
                )
            return seeds.query_order[taken]


def batches_in(seeds: int, spec: SampleSpec, epoch: int) -> int:
    """Return the number of batches in an epoch, over all ranks, for a seed set of this size."""
    return _Slices.of(seeds, spec.subset).batches(epoch, spec.batch_size)


def full_batches_in(seeds: int, spec: SampleSpec, epoch: int) -> int:
    """Return the number of batches in an epoch that have BATCH seeds: all batches, or all except the last."""
    return _Slices.of(seeds, spec.subset).taken(epoch) // spec.batch_size


def batches_before(seeds: int, spec: SampleSpec, epoch: int) -> int:
    """Return the global number of an epoch's first batch, which is the number of batches of all earlier epochs."""
    slices, size = _Slices.of(seeds, spec.subset), spec.batch_size
    full, last = slices.batches(0, size), slices.batches(slices.count - 1, size)
    # Use a closed form instead of a sum over epochs, because a resumed stream can start at any epoch.
    rounds, rest = divmod(epoch, slices.count)
    return rounds * ((slices.count - 1) * full + last) + rest * full


def seeds_before(seeds: int, spec: SampleSpec, epoch: int) -> int:
    """Return the number of seeds in the batches of all earlier epochs."""
    slices = _Slices.of(seeds, spec.subset)
    rounds, rest = divmod(epoch, slices.count)
    return rounds * seeds + rest * slices.size


# Seed expansion: the seeds of a batch, the ends and negatives of seed edges, and the excluded edges.
class SeedExpansion:
    """The expansion of a seed set's batches into sampler inputs. It has no state, so threads can share it."""

    def __init__(self, view: GraphView, spec: SampleSpec, seeds: Seeds) -> None:
        """Open the adjacencies that negatives are drawn from, if the statement draws any.

        Raises:
            BindError: Known edges depend on times, but the seeds have none.
            ValueError: The statement has seed edges but the seeds are vertices, or vice versa.
        """
        if (spec.link is None) != (seeds.ends is None):
            raise ValueError("seeds must have ends if, and only if, the sampler's seeds are edges")
        self._seeds, self._link = seeds, spec.link
        asked = None if spec.link is None else spec.link.negatives
        self._draws: _NegativeDraws | None = None
        if spec.link is not None and asked is not None:
            self._draws = _NegativeDraws(view, spec.link, asked, spec.seed, timed=seeds.time is not None)

    def entry(self, ordinals: Int64s, epoch: int) -> SamplerInput:
        """Return the sampler's input for a batch of these seeds, in their order.

        For seed edges the groups are sources, destinations and, with NEGATIVES, the drawn negatives.

        Raises:
            CorruptError: The row of a source extends beyond its arrays.
        """
        seeds = self._seeds
        times = None if seeds.time is None else seeds.time[ordinals]
        if self._link is None or seeds.ends is None:
            return vertex_input(seeds.type, seeds.ids[ordinals], ordinals, times)
        edge, trees = self._link.edge, np.arange(ordinals.size, dtype=np.int64)
        source, destination = (ends[ordinals] for ends in seeds.ends)
        groups = (SeedGroup(edge.source, source, trees), SeedGroup(edge.destination, destination, trees))
        excluded = _excluded(self._link, source, destination, trees)
        if self._draws is None:
            return SamplerInput(groups, ordinals, times, excluded)
        drawn = self._draws.draw(source, ordinals, times, epoch)
        drawn_there = drawn >= 0
        negatives = SeedGroup(edge.destination, drawn[drawn_there], np.repeat(trees, drawn_there.sum(axis=1)))
        # Sources with too few candidates leave some slots empty: `places` maps each slot to its rank among the drawn
        # candidates.
        places = np.where(drawn_there, np.cumsum(drawn_there).reshape(drawn_there.shape) - 1, -1)
        return SamplerInput((*groups, negatives), ordinals, times, excluded, places)


def _excluded(link: Link, source: Int64s, destination: Int64s, trees: Int64s) -> ExcludedEdges | None:
    """Return the pairs of ends to exclude. If the vertex types differ, no edge of this type leads back."""
    if link.exclude == "NONE":
        return None
    if link.exclude == "BOTH" and link.edge.source == link.edge.destination:
        both = np.concatenate([source, destination]), np.concatenate([destination, source])
        return ExcludedEdges(link.edge, *both, np.concatenate([trees, trees]))
    return ExcludedEdges(link.edge, source, destination, trees)


_NONE = np.empty(0, np.int64)
_MODES = {"EVER": EVER, "BEFORE": BEFORE, "AT": AT}
_LAST = 2**63 - 1
_HELD = 1 << 22
"""The number of source edges read at once. A single source may have more edges."""


@dataclass(frozen=True, slots=True)
class _Candidates:
    """The destinations that can be drawn, numbered in dense id order."""

    count: int
    """The number of candidates."""
    ids: Int64s
    """[candidates] the dense id of each candidate. Empty if the numbers are the dense ids."""
    born: Born
    """The times at which candidates begin to exist."""
    weights: Float64s | None
    """[candidates] weights, or None for uniform draws."""

    @staticmethod
    def of(view: GraphView, type_: str, *, timed: bool, weighted: bool) -> _Candidates:
        """Return the candidates of a vertex type, from the snapshot's vertices, their birth times and their weights."""
        alive = view.alive[type_]
        ids = _NONE if alive is None else np.flatnonzero(alive)
        count = view.node_counts[type_] if alive is None else ids.size
        born = view.born.get(type_) if timed else None
        order = Born(_NONE, BirthOrder(_NONE, np.empty(0, np.uint64), _NONE, _NONE))
        if born is not None:
            there = np.ascontiguousarray(born if alive is None else born[ids])
            order = order._replace(by_number=there) if weighted else Born(there, birth_order(there))
        if not weighted:
            return _Candidates(count, ids, order, None)
        weights = view.destination_weights
        if weights is None:
            raise ValueError("weighted negatives need weights of destinations, which the view does not have")
        return _Candidates(count, ids, order, np.ascontiguousarray(weights if alive is None else weights[ids]))

    def numbers(self, ids: Int64s) -> Int64s:
        """Return [ids], the candidate numbers of dense ids, or -1 for vertices that are not candidates."""
        if not self.ids.size and self.count:
            return ids
        places = np.searchsorted(self.ids, ids)
        places[places == self.ids.size] = 0
        return np.where(self.ids[places] == ids, places, -1) if self.ids.size else np.full_like(ids, -1)


class _NegativeDraws:
    """Draws negatives for seed edges. It has no state, so threads can share it."""

    def __init__(self, view: GraphView, link: Link, asked: Negatives, seed: int, *, timed: bool) -> None:
        """Open the known edges of sources.

        Args:
            view: The snapshot.
            link: The seed edges' type.
            asked: The number of negatives and the rule for excluded ones.
            seed: The seed from REPEATABLE.
            timed: Whether seeds have times. A vertex that is born after a seed's time is not a candidate.

        Raises:
            BindError: Known edges depend on times, but the seeds have none.
        """
        if asked.known in ("BEFORE", "AT") and not timed:
            raise BindError(
                f"EXCLUDE KNOWN {asked.known} SEED_TIME needs a column seed_time in SEEDS", code="needs-seed-time"
            )
        self.count = asked.count
        self._seed = seed
        weighted = asked.weight is not None
        self._candidates = _Candidates.of(view, link.edge.destination, timed=timed, weighted=weighted)
        self._limit = view.node_counts[link.edge.destination]
        self._known = [view.adjacency(Relation(edge, "OUT")) for edge in link.known_types]
        self._mode = EVER
        if asked.known is not None and any(known.time is not None for known in self._known):
            self._mode = _MODES[asked.known]

    def draw(self, sources: Int64s, ordinals: Int64s, times: Int64s | None, epoch: int) -> Int64s:
        """Return [seeds, count] dense ids of destinations, or -1 if too few candidates are left.

        Args:
            sources: [seeds] dense ids.
            ordinals: [seeds] ordinals in the seed set.
            times: [seeds] the seeds' times, if they have any.
            epoch: The epoch. Each epoch draws different negatives.

        Raises:
            CorruptError: A row extends beyond its arrays.
        """
        numbers = np.full((sources.size, self.count), -1, np.int64)
        # A tuple, because a bare uint64 makes numba's dispatch slow: see `kernels/rng.py`.
        prefix = (fold_parts(self._seed, Domain.NEG, epoch),)
        moments = _NONE if times is None else times
        distinct, rows = np.unique(sources, return_inverse=True)
        # Make the seeds of each source adjacent, so that its known neighbours are read and listed once.
        order = np.argsort(rows, kind="stable")
        done = 0
        for low, high, known in self._parts(distinct):
            stop = int(np.searchsorted(rows[order], high))
            chosen = order[done:stop]
            slots = numbers[chosen]
            self._fill(
                prefix, ordinals[chosen], moments[chosen] if moments.size else _NONE, rows[chosen] - low, known, slots
            )
            numbers[chosen] = slots
            done = stop
        ids = self._candidates.ids
        return np.where(numbers < 0, -1, ids[numbers]) if ids.size else numbers

    def _fill(
        self, prefix: tuple[np.uint64], ordinals: Int64s, moments: Int64s, rows: Int64s, known: Known, out: Int64s
    ) -> None:
        """Draw the slots of the given seeds, uniformly or by weight."""
        every = self._candidates
        if every.weights is None:
            draw_by_rank(prefix, ordinals, moments, rows, known, every.born, every.count, out)
            return
        ids = every.ids if every.ids.size else np.arange(every.count, dtype=np.int64)
        born = every.born.by_number
        draw_by_race(prefix, ordinals, moments, rows, known, born, ids, every.weights, out)

    def _parts(self, sources: Int64s) -> Iterator[tuple[int, int, Known]]:
        """Yield ranges of the sources with the known edges of each range, in bounded memory."""
        if not self._known:
            yield 0, sources.size, Known(EVER, np.zeros(sources.size + 1, np.int64), _NONE, _NONE, _NONE)
            return
        spans = [np.empty((sources.size, FIELDS), np.int64) for _ in self._known]
        for known, located in zip(self._known, spans, strict=True):
            if not locate(known.rows, sources, 0, sources.size, sources.size, located):
                raise CorruptError(DAMAGED, code="damaged-snapshot")
        bounds = np.concatenate([np.zeros(1, np.int64), np.cumsum(sum(located[:, DEGREE] for located in spans))])
        low = 0
        while low < sources.size:
            high = max(int(np.searchsorted(bounds, bounds[low] + _HELD, side="right")) - 1, low + 1)
            yield (
                low,
                high,
                self._listed([located[low:high] for located in spans], bounds[low : high + 1] - bounds[low]),
            )
            low = high

    def _listed(self, spans: Sequence[Int64s], bounds: Int64s) -> Known:
        """Return the neighbours in located rows over all known edge types, each row sorted by candidate."""
        parts = [self._entries(known, located) for known, located in zip(self._known, spans, strict=True)]
        keys, since, until = (np.concatenate([part[i] for part in parts]) for i in range(3))
        if self._mode == EVER:
            keys.sort()
            return self._rows(keys, bounds, _NONE, _NONE)
        order = np.argsort(keys)
        lasts = any(known.until is not None for known in self._known)
        return self._rows(keys[order], bounds, since[order], until[order] if lasts else _NONE)

    def _entries(self, known: Adjacency, spans: Int64s) -> tuple[Int64s, Int64s, Int64s]:
        """Return one type's edges in located rows: keys row * (limit + 1) + number + 1, and their begin and end times.

        Edges without a time are static, and an event lasts until the next time unit, so that edge types of all kinds
        can be combined.
        """
        positions = np.empty(int(spans[:, DEGREE].sum()), np.int64)
        list_spans(known.rows.live.words, spans, spans.shape[0], positions, 0)
        neighbors = neighbors_of(known.rows, positions).astype(np.int64, copy=False)
        if neighbors.size and not 0 <= int(neighbors.min()) <= int(neighbors.max()) < self._limit:
            raise CorruptError(DAMAGED, code="damaged-snapshot")
        rows = np.repeat(np.arange(spans.shape[0]), spans[:, DEGREE])
        # One integer sorts by row and then by candidate. Neighbours that are not candidates have number -1, so they
        # come first in their row.
        keys = rows * (self._limit + 1) + self._candidates.numbers(neighbors) + 1
        if self._mode == EVER:
            return keys, _NONE, _NONE
        since = np.full(neighbors.size, STATIC, np.int64) if known.time is None else known.time.read(positions)
        until = since + (since < _LAST) if known.until is None else known.until.read(positions)
        return keys, since, until

    def _rows(self, keys: Int64s, bounds: Int64s, since: Int64s, until: Int64s) -> Known:
        """Return sorted keys of `_entries` as rows, without neighbours that are not candidates."""
        numbers = keys % (self._limit + 1) - 1
        there = numbers >= 0
        if not there.all():
            counts = np.bincount((keys // (self._limit + 1))[there], minlength=bounds.size - 1)
            bounds = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])
            numbers, since, until = (column[there] if column.size else column for column in (numbers, since, until))
        return Known(self._mode, bounds, numbers, since, until)

"""EXPLAIN SAMPLE for neighbor pools (REFRESH) and their caches: sampling cost, saved reads and cached rows.

Counts follow from the expected number of accesses of each node. Times are extrapolated from a few rows and one batch
that are actually sampled.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from snapdb.arrays import Float64s
from snapdb.execute.explain import details
from snapdb.execute.session import ExecutionContext
from snapdb.loading.source import StreamSource
from snapdb.plan.plan import PlanNode
from snapdb.plan.samples import SamplePlan
from snapdb.sampling.cache_plan import Accesses, Choice, aliased, choose_rows, draws_from, edges_read, expected_accesses
from snapdb.sampling.neighbor_pool_cache import RowCache
from snapdb.sampling.rounds import Rounds, RowTable, row_tables, variance_factor
from snapdb.sampling.traversals import Traversal
from snapdb.types import Cache, Refresh, SampleSpec

if TYPE_CHECKING:
    from snapdb.loading.metered import MeteredStream, Recent


@dataclass(slots=True)
class _RowCosts:
    """The cost of all rows from which batches sample, given the expected number of accesses."""

    rows: int = 0
    """The number of rows, one per node and slot."""
    aliased: int = 0
    """The number of nodes with edges but without a row. Batches sample from all of their edges."""
    drawn: float = 0.0
    """The number of rows resampled per period."""
    bytes: float = 0.0
    """The number of bytes of neighbours that are read to resample these rows. PRIORITY reads all edges of a node."""
    age: float = 0.0
    """The average age of a row when a batch samples from it, in batches."""
    variance: float = 1.0
    """The variance, relative to FBL, of the mean of repeated draws from an unchanged row."""


def _row_costs(spec: SampleSpec, tables: tuple[RowTable, ...], visits: Accesses) -> _RowCosts:
    """Return the cost of the rows in these tables.

    Raises:
        CorruptError: A row points outside its arrays.
    """
    refresh = spec.refresh
    assert refresh is not None
    costs, ages, variances, weights = _RowCosts(), 0.0, 0.0, 0.0
    for table in tables:
        degrees = table.traversal.adjacency.degrees()
        kept = degrees > aliased(spec, table.size)
        hops = [hop for hop in range(spec.hops) if draws_from(spec, table, hop)]
        visited = sum((visits[table.traversal.relation, hop] for hop in hops), np.zeros(degrees.size))
        if not visited.any():  # no seed reaches these nodes
            continue
        degrees, visited, edges = degrees[kept], visited[kept], np.count_nonzero(degrees)
        drawn = _chances(refresh, visited)
        read = degrees if spec.drawing.method == "PRIORITY" else np.full(degrees.size, table.size)
        costs.rows, costs.aliased = costs.rows + degrees.size, costs.aliased + int(edges) - degrees.size
        costs.drawn += float(drawn.sum())
        costs.bytes += float(drawn @ read) * table.traversal.arrays.rows.indices.itemsize
        ages += float(visited @ _ages(refresh, drawn))
        weights += float(visited.sum())
        for hop in hops:
            fanout = table.traversal.fanout.counts[hop]
            draws = visited * _life(refresh)
            factor = variance_factor(degrees, table.size, fanout, draws, refresh.kept(fanout))
            variances += float(visits[table.traversal.relation, hop][kept] @ factor)
    if weights:
        costs.age, costs.variance = ages / weights, variances / weights
    return costs


def _life(refresh: Refresh) -> float:
    """Return the number of batches for which a row remains unchanged. SCOPE VISITED assumes a visit in every period."""
    return float(refresh.period / (1 if refresh.visited else refresh.share))


def _chances(refresh: Refresh, visited: Float64s) -> Float64s:
    """Return the probability that each row is resampled in a period, given its expected number of accesses."""
    if refresh.visited:
        probabilities: Float64s = -np.expm1(-visited * refresh.period)
        return probabilities
    return np.full(visited.size, float(refresh.share))


def _ages(refresh: Refresh, drawn: Float64s) -> Float64s:
    """Return each row's age when a batch reads it. Under SCOPE VISITED, rows also age while no batch visits them."""
    if not refresh.visited:
        return np.full(drawn.size, (_life(refresh) - 1) / 2)
    idle = np.divide(1 - drawn, drawn, out=np.zeros_like(drawn), where=drawn > 0)
    return (refresh.period - 1) / 2 + refresh.period * idle


# Pool caches in an epoch: estimates from counts, and the statistics of a stream.


SERVING_CACHE = "serving cache"
"""The plan-node key of the cache that the batches read."""
_LOOKS = 64
"""How many times per epoch the ages of a cache's rows are recorded."""

_Numbers = dict[str, Any]


def _cache_numbers(
    spec: SampleSpec,
    traversals: Sequence[Traversal],
    choices: Sequence[Choice],
    visits: Accesses,
    batches: int,
    seconds: float,
) -> _Numbers:
    """Return the size of a full cache of these rows, its hit rate, and the reads that fill it in an epoch.

    Args:
        spec: The sampler.
        traversals: The relations of each hop.
        choices: The rows that are cached.
        visits: The expected accesses.
        batches: The number of batches of the epoch.
        seconds: The time to sample and copy each row once.
    """
    looked, read = _lookups(spec, traversals, visits)
    hits = saved = drawn = filled = 0.0
    for choice in choices:
        item = choice.traversal.arrays.rows.indices.itemsize
        for hop in _hops(spec, choice.traversal):
            met, edges = visits[choice.traversal.relation, hop][choice.nodes], edges_read(spec, choice, hop)
            hits, saved = hits + float(met @ (edges > 0)), saved + float(met @ edges) * item
        rows, edges_filled = _filled(spec, choice, visits, batches)
        drawn, filled = drawn + rows, filled + edges_filled * item
    return {
        "rows": sum(choice.nodes.size for choice in choices),
        "bytes": sum(choice.layout().bytes for choice in choices),
        "seconds": round(seconds, 6),
        "hit_rate": round(hits / looked, 3) if looked else 0.0,
        "batch_read": round(read - saved),
        "batch_saved": round(saved),
        "drawn": round(drawn),
        "bytes_filled": round(filled),
        **_age(spec.refresh, choices, batches),
    }


class CacheWatch:
    """The statistics of a stream's cache, recorded while the stream runs an epoch."""

    def __init__(self, stream: MeteredStream) -> None:
        self._stream, self._apart = stream, max(1, len(stream) // _LOOKS)
        self._batches = 0
        self._ages: list[float] = []

    def batch(self) -> None:
        """Record the ages of the rows at regular intervals. Call this after every batch."""
        self._batches += 1
        if self._batches % self._apart == 0:
            stats = self._stream.cache_stats()
            if stats is not None and stats["age"] is not None:
                self._ages.append(stats["age"])

    def numbers(self) -> _Numbers | None:
        """Return the statistics of the batches so far, or None if the stream has no cache."""
        stats = self._stream.cache_stats()
        if stats is None:
            return None
        pages = self._stream.pages(self._stream.sampler.cache)
        batches, looked = max(1, self._batches), stats["hits"] + stats["misses"]
        return {
            "rows": stats["filled"],
            "bytes": stats["bytes"],
            "seconds": round(stats["seconds"], 4),
            "hit_rate": round(stats["hits"] / looked, 3) if looked else 0.0,
            "batch_read": round((stats["bytes_read"] - stats["bytes_filled"]) / batches),
            "batch_saved": round(stats["bytes_saved"] / batches),
            "drawn": stats["drawn"],
            "bytes_filled": stats["bytes_filled"],
            **({"age": round(sum(self._ages) / len(self._ages), 1)} if self._ages else {}),
            "batch_pages": round(pages),
        }


def _hops(spec: SampleSpec, traversal: Traversal) -> list[int]:
    return [hop for hop in range(spec.hops) if traversal.count(hop)]


def _lookups(spec: SampleSpec, traversals: Sequence[Traversal], visits: Accesses) -> tuple[float, float]:
    """Return the number of rows with edges that a batch looks up, and the number of bytes it reads from them."""
    looked = read = 0.0
    for traversal in traversals:
        degrees = traversal.adjacency.degrees()
        for hop in _hops(spec, traversal):
            met = visits[traversal.relation, hop]
            looked += float(met @ (degrees > 0))
            read += float(met @ np.minimum(degrees, traversal.count(hop))) * traversal.arrays.rows.indices.itemsize
    return looked, read


def _filled(spec: SampleSpec, choice: Choice, visits: Accesses, batches: int) -> tuple[float, float]:
    table, refresh = choice.table, spec.refresh
    if table is None or refresh is None:
        return 0.0, float(choice.lengths.sum())
    met = [
        visits[table.traversal.relation, hop][choice.nodes] for hop in range(spec.hops) if draws_from(spec, table, hop)
    ]
    later = (
        max(0, batches - 1) / refresh.period if refresh.strategy == "OTF" else math.ceil(batches / refresh.period) - 1
    )
    times = 1 + later * _chances(refresh, sum(met, np.zeros(choice.nodes.size)))
    weighed = spec.drawing.method == "PRIORITY"
    edges = table.traversal.adjacency.degrees()[choice.nodes] if weighed else choice.lengths
    return float(times.sum()), float(times @ edges)


def _age(refresh: Refresh | None, choices: Sequence[Choice], batches: int) -> _Numbers:
    """Return a row's average age in batches over the first epoch, or nothing if the age depends on the visits."""
    if refresh is None or refresh.visited or all(choice.table is None for choice in choices):
        return {}
    number = np.arange(batches, dtype=np.float64)
    if refresh.strategy == "FCR":
        ages = number % refresh.period
    else:  # rows that were not yet resampled are as old as the epoch
        # After n batches, a share n / life of the rows has been resampled, with a mean age of n / 2. All other rows
        # have age n.
        since = np.minimum(number, _life(refresh))
        ages = since - since**2 / (2 * _life(refresh))
    return {"age": round(float(ages.mean()), 1)} if batches else {}


_TRIED = 1 << 13
"""The number of rows sampled to measure the time per row."""
_RUN = 512
"""The number of consecutive nodes per measured run. Runs are realistic because a cache is filled in node order."""


def pool_nodes(
    context: ExecutionContext, plan: SamplePlan, opened: StreamSource, stream: MeteredStream
) -> list[PlanNode]:
    """Return a plan node for REFRESH and one for each cache with their estimates, or none if there is neither."""
    caches = () if opened.cache is None else opened.cache.caches
    if opened.spec.refresh is None and not caches:
        return []
    estimates = _PoolEstimates(context, opened, stream)
    auto = plan.spec.refresh is not None and plan.spec.refresh.every is None
    steps = [estimates.refresh(auto=auto)] if opened.spec.refresh is not None else []
    return steps + [estimates.cache(cache) for cache in caches]


class _PoolEstimates:
    """Estimates of a sampler's neighbor pools and caches, computed without running an epoch."""

    def __init__(self, context: ExecutionContext, opened: StreamSource, stream: MeteredStream) -> None:
        self._spec, self._stream, self._check = stream.spec, stream, context.check_stopped
        self._traversals = stream.sampler.backend.host_traversals
        self._waited = stream.waited()
        counts = opened.view.node_counts
        context.step(f"estimating how often batches visit the nodes of {self._spec.snapshot}", None)
        self._visits = expected_accesses(self._spec, self._traversals, opened.seeds, counts, self._check)
        self._all = choose_rows(self._spec, self._traversals, None, dict)
        self._serving = None if opened.cache is None else opened.cache.first
        self._recent = stream.recent() if stream.sampler.backend.name == "numba" else None

    def refresh(self, *, auto: bool) -> PlanNode:
        """Return the plan node for REFRESH, with the cost of sampling all rows and the seconds saved."""
        spec = self._spec
        assert spec.refresh is not None
        tables = row_tables(spec, self._traversals)
        costs, period = _row_costs(spec, tables, self._visits), spec.refresh.period
        drawn = [choice for choice in self._all if choice.table is not None]
        seconds = self._seconds(drawn) * costs.drawn / costs.rows if costs.rows else 0.0
        gain = self._gain()
        numbers = {
            "rows": round(costs.drawn),
            "bytes": round(costs.bytes),
            "seconds": round(seconds, 6),
            "held": costs.rows,
            "aliased": costs.aliased,
            "age": round(costs.age, 1),
            "variance": round(costs.variance, 2),
            "batch_bytes": round(costs.bytes / period),
            "batch_seconds": round(seconds / period, 6),
            "batch_gain": round(gain, 6),
            **({"break_even": round(seconds / gain, 1)} if gain > 0 else {}),
        }
        detail = f"{details.refresh(spec.refresh, auto=auto)}: {details.rows(tables)}"
        return PlanNode("Refresh", detail, estimates=numbers)

    def cache(self, cache: Cache) -> PlanNode:
        """Return the plan node for a cache, with its size when full and the reads that it does not save."""
        choices = choose_rows(self._spec, self._traversals, cache.room, lambda: self._visits)
        batches, seconds = len(self._stream), self._seconds(choices)
        numbers = _cache_numbers(self._spec, self._traversals, choices, self._visits, batches, seconds)
        if self._recent is not None:
            numbers["batch_pages"] = round(self._stream.pages(self._near(choices, self._recent)))
        serves = cache == self._serving and self._stream.sampler.backend.name == "numba"
        detail = details.cache(cache, serves=serves)
        return PlanNode("Cache", detail, estimates=numbers, key=SERVING_CACHE if serves else None)

    def _seconds(self, choices: Sequence[Choice]) -> float:
        """Estimate the seconds to sample and copy the given rows, based on a few of them."""
        rows = sum(choice.nodes.size for choice in choices)
        apart = max(1, rows // _TRIED)
        some = [choice.only(np.arange(choice.nodes.size) // _RUN % apart == 0) for choice in choices]
        tried = sum(choice.nodes.size for choice in some)
        if not tried:
            return 0.0
        self._filled([choice.only(slice(1)) for choice in some], 0)  # loads the kernels outside the measurement
        return self._filled(some, 0).stats(None).seconds * rows / tried

    def _gain(self) -> float:
        """Return the seconds per batch that a cache with every needed row saves compared with FBL."""
        if self._recent is None:
            return 0.0
        kept = self._near(self._all, self._recent)
        afresh = self._stream.seconds(spec=replace(self._spec, refresh=None))
        return self._waited + afresh - self._stream.seconds(cache=kept)

    def _near(self, choices: Sequence[Choice], recent: Recent) -> RowCache:
        """Build a cache of the rows that a few batches visit."""
        met = {name: np.unique(np.concatenate([nodes[name] for nodes in recent.nodes])) for name in recent.nodes[0]}
        needed = [choice.only(np.isin(choice.nodes, met[choice.traversal.relation.expands])) for choice in choices]
        return self._filled(needed, recent.number, recent.rounds)

    def _filled(self, choices: Sequence[Choice], batch: int, rounds: Rounds | None = None) -> RowCache:
        cache = RowCache(self._spec, self._traversals)
        cache.build([choice for choice in choices if choice.nodes.size], lambda size: np.zeros(size, np.uint8))
        cache.fill(lambda: batch, lambda: rounds, self._check)
        return cache

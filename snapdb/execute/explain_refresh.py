"""EXPLAIN SAMPLE of rows that serve many batches: what it takes to draw them, what they save, and what caches hold.

Counts follow from how often batches come by each node, seconds from some rows and a batch that are drawn.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from snapdb.execute import explain_words as words
from snapdb.execute.explain_refresh_caches import cache_numbers
from snapdb.execute.explain_refresh_rows import row_costs
from snapdb.execute.explain_tree import Step
from snapdb.execute.operator import Engine
from snapdb.execute.samples.opening import Opened
from snapdb.plan.samples import SamplePlan
from snapdb.sampling import Sampler
from snapdb.sampling.cache_plan import Choice, choose_rows
from snapdb.sampling.expected_visits import expected_visits
from snapdb.sampling.rounds import Rounds, row_tables
from snapdb.sampling.row_cache import RowCache
from snapdb.sampling.walks import Walk
from snapdb.types import Cache

if TYPE_CHECKING:
    from snapdb.loading.metered import MeteredStream, Recent


_TRIED = 1 << 13
"""Rows that are drawn to see how long that takes,"""
_RUN = 512
"""so many of neighbouring nodes: a cache is filled in the order of nodes."""


def row_steps(engine: Engine, plan: SamplePlan, opened: Opened, stream: MeteredStream) -> list[Step]:
    """A step for REFRESH and one for each cache, with their estimates; none where a sampler has neither."""
    caches = () if opened.cache is None else opened.cache.caches
    if opened.spec.refresh is None and not caches:
        return []
    told = _Told(engine, opened, stream)
    auto = plan.spec.refresh is not None and plan.spec.refresh.every is None
    steps = [told.refresh(auto=auto)] if opened.spec.refresh is not None else []
    return steps + [told.cache(cache) for cache in caches]


class _Told:
    """What can be told of a sampler's rows without an epoch."""

    def __init__(self, engine: Engine, opened: Opened, stream: MeteredStream) -> None:
        self._spec, self._stream, self._check = stream.spec, stream, engine.check_stopped
        self._walks: tuple[Walk, ...] = tuple(getattr(walk, "walk", walk) for walk in stream.sampler.walks)
        self._waited = stream.waited()
        counts = opened.view.node_counts
        engine.step(f"looking at how often batches come by the nodes of {self._spec.snapshot}", None)
        self._visits = expected_visits(self._spec, self._walks, opened.seeds, counts, self._check)
        self._all = choose_rows(self._spec, self._walks, None, dict)
        self._serving = None if opened.cache is None else opened.cache.first
        self._recent = stream.recent() if isinstance(stream.sampler, Sampler) else None

    def refresh(self, *, auto: bool) -> Step:
        """What it takes to draw all rows, and what that is good for."""
        spec = self._spec
        assert spec.refresh is not None
        tables = row_tables(spec, self._walks)
        costs, period = row_costs(spec, tables, self._visits), spec.refresh.period
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
        return Step("Refresh", f"{words.refresh(spec.refresh, auto=auto)}: {words.rows(tables)}", numbers)

    def cache(self, cache: Cache) -> Step:
        """What a cache holds when it is full, and what batches read beside it."""
        choices = choose_rows(self._spec, self._walks, cache.room, lambda: self._visits)
        batches, seconds = len(self._stream), self._seconds(choices)
        numbers = cache_numbers(self._spec, self._walks, choices, self._visits, batches, seconds)
        if self._recent is not None:
            numbers["batch_pages"] = round(self._stream.pages(self._near(choices, self._recent)))
        serves = cache == self._serving and isinstance(self._stream.sampler, Sampler)
        return Step("Cache", words.cache(cache, serves=serves), numbers, key=serves)

    def _seconds(self, choices: Sequence[Choice]) -> float:
        """That it takes to draw and copy these rows, told from some of them."""
        rows = sum(choice.nodes.size for choice in choices)
        apart = max(1, rows // _TRIED)
        some = [choice.only(np.arange(choice.nodes.size) // _RUN % apart == 0) for choice in choices]
        tried = sum(choice.nodes.size for choice in some)
        if not tried:
            return 0.0
        self._filled([choice.only(slice(1)) for choice in some], 0)  # loads the kernels
        return self._filled(some, 0).stats(None).seconds * rows / tried

    def _gain(self) -> float:
        """Seconds less than under FBL that a batch takes which finds in a cache all that it needs."""
        if self._recent is None:
            return 0.0
        kept = self._near(self._all, self._recent)
        afresh = self._stream.seconds(spec=replace(self._spec, refresh=None))
        return self._waited + afresh - self._stream.seconds(cache=kept)

    def _near(self, choices: Sequence[Choice], recent: Recent) -> RowCache:
        """A cache of those of these rows that a few batches come by."""
        met = {name: np.unique(np.concatenate([nodes[name] for nodes in recent.nodes])) for name in recent.nodes[0]}
        needed = [choice.only(np.isin(choice.nodes, met[choice.walk.relation.expands])) for choice in choices]
        return self._filled(needed, recent.number, recent.rounds)

    def _filled(self, choices: Sequence[Choice], batch: int, rounds: Rounds | None = None) -> RowCache:
        """A cache of these rows as a batch needs them."""
        cache = RowCache(self._spec, self._walks)
        cache.build([choice for choice in choices if choice.nodes.size], lambda size: np.zeros(size, np.uint8))
        cache.fill(lambda: batch, lambda: rounds, self._check)
        return cache

"""CREATE CACHE: the row that says where a sampler's rows are kept; streams fill it."""

from __future__ import annotations

from dataclasses import dataclass, replace

from snapdb.execute.export_folder import size_words
from snapdb.execute.operator import Engine, Outcome, Rows
from snapdb.plan.caches import CreateCachePlan, RefreshCachePlan
from snapdb.storage.names import put_name
from snapdb.types.text import counted


@dataclass(frozen=True, slots=True)
class CreateCache:
    """Writes the cache's row, in the place of the one that the plan replaces."""

    plan: CreateCachePlan

    def run(self, engine: Engine) -> Rows:
        yield from ()
        with engine.ledger.writing(publishes=True) as connection:
            cache = put_name(connection, self.plan.cache, self.plan.replaces)
        if self.plan.replaces is not None:
            engine.caches.drop(self.plan.replaces)
        room = "all rows" if cache.room is None else f"up to {size_words(cache.room)}"
        where = "memory" if cache.place == "MEMORY" else "a file"
        return Outcome(f"cache {cache.name} on sampler {cache.sampler}: {room} in {where}, filled by streams of it")


# REFRESH CACHE: a sampler's next generation, in which all rows that serve several batches are drawn anew


@dataclass(frozen=True, slots=True)
class RefreshCache:
    """Writes the sampler's row anew; streams that are open keep the rows that they began with."""

    plan: RefreshCachePlan

    def run(self, engine: Engine) -> Rows:
        yield from ()
        cache, before = self.plan.cache, self.plan.sampler
        with engine.ledger.writing(publishes=True) as connection:
            sampler = put_name(connection, replace(before, generation=before.generation + 1), before)
        done = f"cache {cache.name}: generation {sampler.generation} of sampler {sampler.name}"
        if self.plan.concurrently:
            return Outcome(done)
        engine.report(f"drawing the rows of {cache.name}", None)
        drawn = engine.caches.refill(cache, sampler.generation, engine.check_stopped)
        return Outcome(f"{done}, {counted(drawn, 'row')} drawn" if drawn else done)

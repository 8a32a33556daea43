"""The operators of CREATE CACHE and REFRESH CACHE.

CREATE CACHE does not sample anything. The sampler's streams fill its cache.
"""

from dataclasses import replace

from snapdb.execute.results import Outcome, Rows
from snapdb.execute.session import ExecutionContext
from snapdb.plan.caches import CreateCachePlan, RefreshCachePlan, room_words, spill_words
from snapdb.storage.tables.commit import put_name
from snapdb.types.text import counted


def create_cache(plan: CreateCachePlan, context: ExecutionContext) -> Rows:
    """Run CREATE CACHE: insert the cache's catalog row, or replace the row that the plan names."""
    yield from ()
    with context.store.catalog_db.writing(publishes=True) as connection:
        cache = put_name(connection, plan.cache, plan.replaces)
    if plan.replaces is not None:
        context.caches.drop(plan.replaces)
    where = "memory" if cache.place == "MEMORY" else "a file"
    room = f"{'' if cache.room is None else 'up to '}{room_words(cache)} in {where}"
    if cache.features is not None:
        spill = spill_words(cache.features)
        room = f"features, {room}{'' if spill is None else f', packs of up to {spill} on the disk'}"
    return Outcome(f"cache {cache.name} on sampler {cache.sampler}: {room}, filled by streams of the sampler")


def refresh_cache(plan: RefreshCachePlan, context: ExecutionContext) -> Rows:
    """Run REFRESH CACHE: start the next generation of the sampler; open streams keep their rows."""
    yield from ()
    cache, before = plan.cache, plan.sampler
    with context.store.catalog_db.writing(publishes=True) as connection:
        sampler = put_name(connection, replace(before, generation=before.generation + 1), before)
    done = f"cache {cache.name}: generation {sampler.generation} of sampler {sampler.name}"
    if plan.concurrently:
        return Outcome(done)
    context.report(f"sampling the rows of cache {cache.name}", None)
    drawn = context.caches.refill(cache, sampler.generation, context.check_stopped)
    return Outcome(f"{done}, {counted(drawn, 'row')} sampled" if drawn else done)

"""CREATE CACHE: the row that says where a sampler's rows are kept; streams fill it."""

from __future__ import annotations

from dataclasses import dataclass

from snapdb.execute.export_folder import size_words
from snapdb.execute.operator import Engine, Outcome, Rows
from snapdb.plan.caches import CreateCachePlan
from snapdb.storage.names import put_name


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

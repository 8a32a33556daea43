"""Access to the internals of `snapdb.pictures`."""

from __future__ import annotations

from snapdb import Database
from snapdb.pictures import sampled
from snapdb.pictures.reading import BatchParts, Extent, read_batch
from snapdb.plan.samples.bind import streamed

__all__ = ["BatchParts", "Extent", "draw_parts", "read_batch"]


def draw_parts(db: Database, sampler: str, batch: int, seeds: int) -> tuple[BatchParts, Extent]:
    """Return a batch as `Database.draw` reads it, and the part of it that is drawn."""
    with streamed(sampler, "draw") as statement:
        wanted = sampled._Wanted(sampler, statement, batch, seeds)
        return db._session.read_head(
            lambda context: wanted.drawn(context, lambda plan, batch, size: (batch.parts(), batch.extent()))
        )

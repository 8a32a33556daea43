"""DESCRIBE CACHE: whose rows it keeps, where, and what it was good for so far."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from snapdb.catalog.listing import listing
from snapdb.catalog.system_tables import told
from snapdb.catalog.windows import moment
from snapdb.execute.operator import Engine
from snapdb.plan.samples.bind import statement_of
from snapdb.sql.samples import print_refresh_clause
from snapdb.types import Cache, CacheStats, Sampler
from snapdb.types.text import counted, size_words

_FIELDS = (("property", pa.string()), ("value", pa.string()))


def describe_cache(engine: Engine, cache: Cache) -> pa.RecordBatch:
    """A row a property; those that streams tell of are NULL until one has it."""
    catalog = engine.context.catalog
    streams, stats, generations = told(engine.home, cache)
    sampler = catalog.sampler(cache.sampler)
    having = f"{streams}{_elsewhere(generations, sampler.generation)}"
    of_streams = [(name, None if stats is None else value) for name, value in _told(stats or CacheStats())]
    return listing(_FIELDS, [*_defined(cache, sampler), ("streams", having), *of_streams])


def _elsewhere(generations: Sequence[int], now: int) -> str:
    """Of which rows the streams tell, where these are others than the sampler's."""
    if not generations or generations == (now,):
        return ""
    return f"; what follows is of generation {', '.join(map(str, generations))}"


def _defined(cache: Cache, sampler: Sampler) -> Iterator[tuple[str, str]]:
    """What the catalog says."""
    refresh = statement_of(sampler).clauses.refresh
    yield "sampler", sampler.name
    yield "snapshot", sampler.snapshot
    yield "refresh", "FBL" if refresh is None else print_refresh_clause(refresh).removeprefix("REFRESH ")
    yield "generation", str(sampler.generation)
    yield "place", cache.place
    yield "room", "all rows" if cache.room is None else size_words(cache.room)
    yield "created", f"{moment(cache.created):%Y-%m-%d %H:%M:%S} by {cache.author}"


def _told(stats: CacheStats) -> Iterator[tuple[str, str | None]]:
    """What streams say."""
    yield "bytes", size_words(stats.bytes)
    yield "rows", f"{stats.filled:,} of {stats.rows:,}"
    yield "edges", f"{stats.edges:,}"
    yield "hit_rate", None if stats.hit_rate is None else f"{stats.hit_rate:.1%}"
    yield "age", None if stats.age is None else f"{stats.age:.1f} batches"
    yield "bytes_read", f"{size_words(stats.bytes_read)}, of these {size_words(stats.bytes_filled)} to fill it"
    yield "bytes_saved", size_words(stats.bytes_saved)
    unfinished = stats.drawn and not stats.refills
    passes = "a pass that was not ended" if unfinished else counted(stats.refills, "pass", "passes")
    yield "drawn", f"{counted(stats.drawn, 'row')} in {passes}"
    yield "batch", None if stats.batch is None else str(stats.batch)
    yield "error", stats.error

"""What caches are good for, as rows: what the streams that have one told of it last."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import pyarrow as pa

from snapdb.catalog.listing import MOMENT
from snapdb.catalog.state import Catalog
from snapdb.catalog.windows import moment
from snapdb.storage.cache_reports import CacheReport, read_reports
from snapdb.storage.home import Home
from snapdb.types import Cache, CacheStats

_TEXT, _COUNT, _NUMBER = pa.string(), pa.int64(), pa.float64()

CACHES = (
    ("name", _TEXT),
    ("sampler", _TEXT),
    ("place", _TEXT),
    ("room", _COUNT),
    ("bytes", _COUNT),
    ("rows", _COUNT),
    ("hit_rate", _NUMBER),
    ("age", _NUMBER),
    ("bytes_read", _COUNT),
    ("bytes_saved", _COUNT),
    ("generation", _COUNT),
    ("streams", _COUNT),
    ("created", MOMENT),
)

_SUMMED = (
    "bytes",
    "rows",
    "filled",
    "edges",
    "hits",
    "misses",
    "bytes_read",
    "bytes_filled",
    "bytes_saved",
    "refills",
    "drawn",
)
"""What several streams of a cache have together."""


class Told(NamedTuple):
    """What is known of a cache beside its definition."""

    streams: int
    """That have it at this moment."""
    stats: CacheStats | None
    """Of all of them together, or of the last ones where none is open; None: it had none yet."""
    generations: tuple[int, ...]
    """Of the rows that these streams have or had, in order."""


def cache_rows(catalog: Catalog, home: Home) -> Iterator[Sequence[Any]]:
    """A row a cache."""
    for cache in catalog.caches.values():
        streams, stats, _ = told(home, cache)
        numbers: Sequence[Any] = (None,) * 6
        if stats is not None:
            hit_rate, age = _rounded(stats.hit_rate, 4), _rounded(stats.age, 1)
            numbers = (stats.bytes, stats.filled, hit_rate, age, stats.bytes_read, stats.bytes_saved)
        generation = catalog.sampler(cache.sampler).generation
        yield (cache.name, cache.sampler, cache.place, cache.room, *numbers, generation, streams, moment(cache.created))


def told(home: Home, cache: Cache) -> Told:
    """What the streams of a cache say of it."""
    reports = read_reports(home, cache.id)
    live = [report for report in reports if report.lives]
    heard = live or reports
    return Told(len(live), _together(heard), tuple(sorted({report.generation for report in heard})))


def _rounded(number: float | None, digits: int) -> float | None:
    return None if number is None else round(number, digits)


def _together(reports: Sequence[CacheReport]) -> CacheStats | None:
    """The numbers of several streams as those of one: a row's age is that of the average row."""
    stats = [report.stats for report in reports]
    if not stats:
        return None
    aged = [(one.age, one.filled) for one in stats if one.age is not None]
    rows = sum(filled for _, filled in aged)
    return CacheStats(
        **{name: sum(getattr(one, name) for one in stats) for name in _SUMMED},
        age=sum(age * filled for age, filled in aged) / rows if rows else None,
        batch=max((one.batch for one in stats if one.batch is not None), default=None),
        error=next((one.error for one in stats if one.error is not None), None),
    )

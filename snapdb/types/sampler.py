"""Named SAMPLE statements, their caches, and the counters of a cache."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from snapdb.types.sampling import Method


@dataclass(frozen=True, slots=True)
class Sampler:
    """A SAMPLE statement that was kept under a name, and the facts of it that lists show."""

    id: int
    name: str
    text: str
    """SAMPLE FROM …, whole, as it was written; of SAMPLE USING what that came to."""
    snapshot: str
    """The snapshot's name; another snapshot may take its place."""
    seeds: str
    """The vertex type of the seeds, or their edge type."""
    edges: bool
    """The seeds are edges."""
    batch: int
    hops: int
    method: Method
    created: int
    """Microseconds since 1970 UTC."""
    author: str
    generation: int = 0
    """Of its rows that serve several batches: REFRESH CACHE begins the next, in which all of them are drawn anew."""


@dataclass(frozen=True, slots=True)
class Cache:
    """Where the rows of a named sampler are kept, and how many bytes they may take. No batch depends on it."""

    id: int
    name: str
    sampler: str
    """The sampler's name; another sampler may take its place."""
    place: Literal["MEMORY", "FILE"]
    room: int | None
    """Bytes; None: as many as all rows take."""
    created: int
    """Microseconds since 1970 UTC."""
    author: str


@dataclass(frozen=True, slots=True)
class CacheStats:
    """How far a stream's cache is filled, and what it was good for since the stream was opened."""

    bytes: int = 0
    """Of all its arrays."""
    rows: int = 0
    """That it has room for: drawn rows, and whole ones."""
    filled: int = 0
    """Of these, that are there."""
    edges: int = 0
    """That they hold."""
    hits: int = 0
    """Rows that batches found in it,"""
    misses: int = 0
    """and those that they looked for in vain."""
    bytes_read: int = 0
    """Of the topology's neighbours: by batches, where the cache had none, and to fill it."""
    bytes_filled: int = 0
    """The part of these that filled it."""
    bytes_saved: int = 0
    """Of neighbours that batches took from it instead."""
    refills: int = 0
    """Passes that drew rows, the first one among them."""
    drawn: int = 0
    """Rows that they drew."""
    seconds: float = 0.0
    """That they took."""
    age: float | None = None
    """For how many batches its drawn rows have been the same, on average; None: there are none."""
    batch: int | None = None
    """The last one that was begun, by its global number."""
    error: str | None = None
    """Why it is not filled any further."""

    @property
    def hit_rate(self) -> float | None:
        """Which part of the rows that batches looked for was there; None: they looked for none."""
        looked = self.hits + self.misses
        return self.hits / looked if looked else None

"""A named cache of a sampler's rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = ["Cache"]


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

"""A named SAMPLE statement."""

from __future__ import annotations

from dataclasses import dataclass

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

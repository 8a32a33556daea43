"""What statements about samplers mean once their names are bound."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

from snapdb.errors import Span
from snapdb.plan.asked import Asked
from snapdb.plan.places import Places
from snapdb.types import PLAIN, Cache, Sampler, SampleSpec, Snapshot, Way


class SeedColumns(NamedTuple):
    """Where in the rows of a seed query each thing stands, counted from 0."""

    key: tuple[int, ...]
    """The seed type's key, in its order; of seed edges the one column that holds the edge's id."""
    time: int | None
    """`seed_time`: an integer, or a timestamp or date, as the graph's event times are."""
    y: int | None
    """Targets: numbers, booleans, or arrays of them."""
    order: tuple[int, ...] = ()
    """What IN ORDER goes by, as ORDER BY says; empty: it was not said, or ids were given, which have their order."""
    others: tuple[int, ...] = ()
    """Further columns, by name: numbers, booleans, or arrays of them."""


@dataclass(frozen=True, slots=True)
class SamplePlan:
    """Mini-batches of sampled neighbourhoods."""

    spec: SampleSpec
    snapshot: Snapshot
    seeds: Asked
    epochs: int
    columns: SeedColumns
    places: Places = Places()  # noqa: RUF009  # frozen, and empty
    outside: str | None = None
    """The SELECT that was given as seeds=, empty where ids were; None: the seeds are the statement's."""
    delivers: Literal["rows", "batches"] = "rows"
    """Rows of edges, as SQL, or batches with their features."""
    way: Way = PLAIN
    sampler: Sampler | None = None
    """Of SAMPLE USING, whose generation and caches serve; None: the statement stands by itself."""


BatchFormat = Literal["arrow", "parquet", "npz", "safetensors", "pt"]


@dataclass(frozen=True, slots=True)
class CopySamplePlan:
    """A sampler's batches go into a folder, one file each."""

    sample: SamplePlan
    path: str
    span: Span
    """Of the path."""
    format: BatchFormat
    overwrite: bool
    """An earlier export that stands there is replaced."""


@dataclass(frozen=True, slots=True)
class CreateSamplerPlan:
    """A SAMPLE statement gets a name; it was bound, and its names were there."""

    sampler: Sampler
    """Without an id."""
    replaces: Sampler | None
    sample: SamplePlan
    """What it keeps; EVERY AUTO becomes a number once its seeds are counted."""


@dataclass(frozen=True, slots=True)
class CreateCachePlan:
    """The rows of a named sampler get a place where they are kept."""

    cache: Cache
    """Without an id."""
    replaces: Cache | None


@dataclass(frozen=True, slots=True)
class RefreshCachePlan:
    """A sampler's rows, which a cache keeps, are to be others: the next generation."""

    cache: Cache
    sampler: Sampler
    """As it is."""
    concurrently: bool
    """The statement does not wait until they are drawn."""


@dataclass(frozen=True, slots=True)
class AuditPlan:
    """Whether a sampler's batches hold anything that they must not."""

    sample: SamplePlan
    text: str
    """The AUDIT statement."""

"""Plans of CREATE CACHE and REFRESH CACHE."""

import shutil
from dataclasses import dataclass
from typing import Literal

from snapdb.errors import BindError, Span
from snapdb.plan.names import check_own, find_named
from snapdb.plan.plan import NothingPlan, Plan, PlanFamily, PlanNode
from snapdb.plan.samples.bind import bind_sample, statement_of
from snapdb.plan.samples.plans import reached_relations, seed_types
from snapdb.plan.scope import BindContext
from snapdb.sql.caches import CreateCache, RefreshCache
from snapdb.sql.printer import print_size, print_string
from snapdb.storage.tables.commit import author, now
from snapdb.types import Cache, CachedFeatures, Sampler
from snapdb.types.text import size_words


@dataclass(frozen=True, slots=True)
class CreateCachePlan(Plan):
    """CREATE CACHE: cache rows of edges or features that a sampler reads, in memory or on disk."""

    cache: Cache
    """The cache to create, without an id."""
    replaces: Cache | None
    """The cache to replace, or None if the name is free."""

    def describe(self) -> PlanNode:
        return PlanNode("CreateCache", f"{self.cache.name} on sampler {self.cache.sampler}{_what(self.cache)}")


def _what(cache: Cache) -> str:
    return "" if cache.features is None else ", features"


def room_words(cache: Cache) -> str:
    """Return how much memory or disk space a cache may use.

    >>> room_words(Cache(1, "hot", "train", "MEMORY", 2_000_000, 0, ""))
    '2.0 MB'
    """
    if cache.room is not None:
        return size_words(cache.room)
    return "all rows" if cache.features is None else "1/8 of the available memory"


def spill_words(features: CachedFeatures) -> str | None:
    """Return how much disk space packs may use, or None without packs."""
    if isinstance(features.spill, int):
        return size_words(features.spill)
    return None if features.spill is None else "1/4 of the free space"


@dataclass(frozen=True, slots=True)
class RefreshCachePlan(Plan):
    """REFRESH CACHE: resample a sampler's rows as its next generation."""

    cache: Cache
    sampler: Sampler
    """The sampler before the refresh."""
    concurrently: bool
    """Whether the statement returns before the rows have been resampled."""

    def describe(self) -> PlanNode:
        generation = f"generation {self.sampler.generation + 1} of {self.sampler.name}"
        return PlanNode("RefreshCache", f"{self.cache.name}: {generation}")


def _bind_create_cache(statement: CreateCache, context: BindContext) -> Plan:
    """Bind a sampler's cache. By default, an edge cache is in memory and large enough for all rows.

    Raises:
        BindError: A feature cache is in a file, or the sampler reaches no dense features.
    """
    name, room = statement.name, statement.room
    existing = context.catalog.caches.get(name.text.lower())
    if (there := check_own(statement, "cache", existing)) is not None:
        return NothingPlan(there)
    sampler = find_named(context.catalog.sampler, statement.sampler)
    if sampler.method in ("WALK", "BY WALKS"):
        raise BindError(
            f"sampler {sampler.name} draws random walks, and a cache holds what is drawn from a node's edges; name a "
            "sampler whose FANOUT lists edge types",
            span=statement.sampler.span,
            code="other-sampler",
        )
    if statement.features is not None:
        if room is not None and room.where == "FILE":
            raise BindError(
                "IN FILE is not supported for features, which are already in files; write IN MEMORY",
                span=room.span,
                code="feature-cache",
            )
        _check_features(context, sampler, statement.features.span)
    cache = Cache(
        id=0,
        name=name.text,
        sampler=sampler.name,
        place="MEMORY" if room is None else room.where,
        room=None if room is None else room.bytes,
        created=now(),
        author=author(),
        features=_cached_features(statement, context),
    )
    return CreateCachePlan(cache, existing)


def _cached_features(statement: CreateCache, context: BindContext) -> CachedFeatures | None:
    """Return how a cache holds features, or None for an edge cache.

    Raises:
        BindError: The SPILL size exceeds the free space on the disk.
    """
    if statement.features is None:
        return None
    spill: int | Literal["AUTO"] | None = None
    if statement.spill is not None:
        spill = statement.spill.value or "AUTO"
        free = shutil.disk_usage(context.store.db_dir.path).free
        if isinstance(spill, int) and spill > free:
            raise BindError(
                f"SPILL {print_string(print_size(spill))} exceeds the free space on the disk "
                f"({size_words(free)}); use a smaller size, or free some space",
                span=statement.spill.span,
                code="feature-cache",
            )
    return CachedFeatures(spill=spill, always=statement.when == "always")


def _check_features(context: BindContext, sampler: Sampler, span: Span) -> None:
    """Raise BindError if a sampler's batches have no features that a cache can hold."""
    sample = bind_sample(statement_of(sampler), context)
    types = seed_types(sample.spec) | {relation.reaches for relation in reached_relations(sample.spec)}
    vertices = [vertex for vertex in sample.snapshot.graph.vertices if vertex.name in types]
    features = [feature for vertex in vertices for feature in vertex.features]
    if all(feature.sparse for feature in features):
        kind = "only sparse features, which are not cached" if features else "no features"
        raise BindError(
            f"sampler {sampler.name} reaches {kind} (vertex types: {', '.join(sorted(types))}); "
            "declare dense features with FEATURES (… AS x) in CREATE PROPERTY GRAPH",
            span=span,
            code="feature-cache",
        )


def _bind_refresh_cache(statement: RefreshCache, context: BindContext) -> RefreshCachePlan:
    """Bind the cache and its sampler, whose generation the statement increments.

    Raises:
        BindError: The cache contains features.
    """
    cache = find_named(context.catalog.cache, statement.name)
    if cache.features is not None:
        raise BindError(
            f"cache {cache.name} contains features, which are not resampled; REFRESH SNAPSHOT updates them",
            span=statement.name.span,
            code="feature-cache",
        )
    return RefreshCachePlan(cache, context.catalog.sampler(cache.sampler), statement.concurrently)


FAMILY = PlanFamily(
    binders={CreateCache: _bind_create_cache, RefreshCache: _bind_refresh_cache},
    operators={
        CreateCachePlan: "snapdb.execute.caches:create_cache",
        RefreshCachePlan: "snapdb.execute.caches:refresh_cache",
    },
)

"""Plans of CREATE CACHE and REFRESH CACHE."""

from dataclasses import dataclass

from snapdb.plan.names import check_own, find_named
from snapdb.plan.plan import NothingPlan, Plan, PlanFamily, PlanNode
from snapdb.plan.scope import BindContext
from snapdb.sql.caches import CreateCache, RefreshCache
from snapdb.storage.tables.commit import author, now
from snapdb.types import Cache, Sampler


@dataclass(frozen=True, slots=True)
class CreateCachePlan(Plan):
    """CREATE CACHE: cache a sampler's rows in memory or on disk."""

    cache: Cache
    """The cache to create, without an id."""
    replaces: Cache | None
    """The cache to replace, or None if the name is free."""

    def describe(self) -> PlanNode:
        return PlanNode("CreateCache", f"{self.cache.name} on sampler {self.cache.sampler}")


@dataclass(frozen=True, slots=True)
class RefreshCachePlan(Plan):
    """REFRESH CACHE: resample a sampler's rows as its next generation."""

    cache: Cache
    sampler: Sampler
    """The sampler before the refresh."""
    concurrently: bool
    """Whether the statement returns before the rows are sampled."""

    def describe(self) -> PlanNode:
        generation = f"generation {self.sampler.generation + 1} of {self.sampler.name}"
        return PlanNode("RefreshCache", f"{self.cache.name}: {generation}")


def _bind_create_cache(statement: CreateCache, context: BindContext) -> Plan:
    """Bind a sampler's cache. By default, it is in memory and large enough for all rows."""
    name, room = statement.name, statement.room
    existing = context.catalog.caches.get(name.text.lower())
    if (there := check_own(statement, "cache", existing)) is not None:
        return NothingPlan(there)
    cache = Cache(
        id=0,
        name=name.text,
        sampler=find_named(context.catalog.sampler, statement.sampler).name,
        place="MEMORY" if room is None else room.where,
        room=None if room is None else room.bytes,
        created=now(),
        author=author(),
    )
    return CreateCachePlan(cache, existing)


def _bind_refresh_cache(statement: RefreshCache, context: BindContext) -> RefreshCachePlan:
    """Bind the cache and its sampler, which advances to the next generation."""
    cache = find_named(context.catalog.cache, statement.name)
    return RefreshCachePlan(cache, context.catalog.sampler(cache.sampler), statement.concurrently)


FAMILY = PlanFamily(
    binders={CreateCache: _bind_create_cache, RefreshCache: _bind_refresh_cache},
    operators={
        CreateCachePlan: "snapdb.execute.caches:create_cache",
        RefreshCachePlan: "snapdb.execute.caches:refresh_cache",
    },
)

"""Caches: CREATE CACHE and REFRESH CACHE."""

from __future__ import annotations

from dataclasses import dataclass

from snapdb.plan.plan import Plan, PlanNode
from snapdb.types import Cache, Sampler


@dataclass(frozen=True, slots=True)
class CreateCachePlan(Plan):
    """The rows of a named sampler get a place where they are kept."""

    cache: Cache
    """Without an id."""
    replaces: Cache | None

    def describe(self) -> PlanNode:
        return PlanNode("CreateCache", f"{self.cache.name} on sampler {self.cache.sampler}")


@dataclass(frozen=True, slots=True)
class RefreshCachePlan(Plan):
    """A sampler's rows, which a cache keeps, are to be others: the next generation."""

    cache: Cache
    sampler: Sampler
    """As it is."""
    concurrently: bool
    """The statement does not wait until they are drawn."""

    def describe(self) -> PlanNode:
        generation = f"generation {self.sampler.generation + 1} of {self.sampler.name}"
        return PlanNode("RefreshCache", f"{self.cache.name}: {generation}")

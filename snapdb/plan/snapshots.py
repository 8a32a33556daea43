"""Snapshots: CREATE SNAPSHOT and REFRESH SNAPSHOT."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from snapdb.plan.moments import spelled
from snapdb.plan.plan import Plan, PlanNode
from snapdb.types import PINNED, Filter, Form, Pin, PropertyGraph, Snapshot, Table, TimeUnit, Window


@dataclass(frozen=True, slots=True)
class Pushed:
    """Conditions on an edge type that say no more than start ≤ event time < stop."""

    element: str
    start: int | None = None
    stop: int | None = None
    filters: tuple[Filter, ...] = ()
    """Those conditions."""


@dataclass(frozen=True, slots=True)
class CreateSnapshotPlan(Plan):
    """A graph, reduced to its elements and pinned."""

    name: str
    graph: PropertyGraph
    version: int
    tables: Mapping[str, Table]
    """At that version, by case-folded name."""
    window: Window
    unit: TimeUnit | None
    filters: tuple[Filter, ...]
    replaces: Snapshot | None
    pin: Pin = PINNED
    layout: Form | None = None
    """The form that WITH (layout = …) asks for; None: the cheapest, for each edge type."""
    refreshes: bool = False
    """It is what `replaces` moved to, and not another one of its name."""
    pushed: tuple[Pushed, ...] = ()
    """What of `filters` event times tell, at most once an edge type."""
    cheapest: bool = False
    """Where `layout` names no form each edge type gets the one that costs least; else all get rows of their own."""

    def filters_of(self, element: str) -> tuple[Filter, ...]:
        """The conditions on an element."""
        return tuple(f for f in self.filters if f.element == element)

    def bounds_of(self, element: str) -> Pushed:
        """What of an element's conditions event times tell; without bounds where they tell nothing."""
        return next((p for p in self.pushed if p.element == element), Pushed(element))

    def describe(self) -> PlanNode:
        vertices = (self._describe_vertices(vertex.name) for vertex in self.graph.vertices)
        edges = (self._describe_edges(edge.name) for edge in self.graph.edges)
        bounds = _between(self.window.start, self.window.stop, self.unit)
        detail = f"{self.name} of {self.graph.name}{f' for {bounds}' if bounds else ''}"
        return PlanNode("Snapshot", detail, (*vertices, *edges))

    def _describe_vertices(self, name: str) -> PlanNode:
        conditions = [f.condition for f in self.filters_of(name)]
        return PlanNode("Vertices", f"{name}{_where(conditions)}")

    def _describe_edges(self, name: str) -> PlanNode:
        pushed = self.bounds_of(name)
        conditions = [f.condition for f in self.filters_of(name) if f not in pushed.filters]
        bounds = _between(pushed.start, pushed.stop, self.unit)
        form = self.layout or ("the form that costs least" if self.cheapest else "rows of its own")
        order = f", by their order {bounds}" if bounds else ""
        return PlanNode("Edges", f"{name} as {form}{order}{_where(conditions)}")


@dataclass(frozen=True, slots=True)
class RefreshPlan(Plan):
    """A snapshot, pinned anew in the place of what it was."""

    create: CreateSnapshotPlan
    before: Snapshot
    full: bool
    """Build everything again from the tables, instead of from what is there."""
    dry_run: bool
    """Only tell what would happen."""

    def is_read(self) -> bool:
        return self.dry_run

    def children(self) -> tuple[Plan, ...]:
        return (self.create,)

    def describe(self) -> PlanNode:
        how = "from the tables" if self.full else "from what is there"
        return PlanNode("Refresh", f"{self.before.name} {how}", (self.create.describe(),))


def _between(start: int | None, stop: int | None, unit: TimeUnit | None) -> str:
    """Bounds of event times as a person reads them; nothing where there are none."""
    begin, end = (
        moment if moment is None or unit != "timestamp" else f"'{spelled(moment)}'" for moment in (start, stop)
    )
    bounds = [f">= {begin}"] * (begin is not None) + [f"< {end}"] * (end is not None)
    return f"event time {' and '.join(bounds)}" if bounds else ""


def _where(conditions: list[str]) -> str:
    return f", where {' and '.join(conditions)}" if conditions else ""

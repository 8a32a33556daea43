"""What a statement means once its names are bound: one frozen value per kind of plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from snapdb.relational import Names
from snapdb.sql.ast import Island, Kind
from snapdb.types import Column, Filter, PropertyGraph, SampleSpec, Snapshot, Table, TimeUnit, Window

__all__ = [
    "READS",
    "Asked",
    "CreateGraphPlan",
    "CreateSnapshotPlan",
    "CreateTablePlan",
    "DeletePlan",
    "DescribePlan",
    "DropPlan",
    "Form",
    "InsertPlan",
    "NothingPlan",
    "Parameters",
    "Plan",
    "QueryPlan",
    "SamplePlan",
    "ShowPlan",
]

Form = Literal["full", "ends", "materialized"]
Parameters = Sequence[Any] | Mapping[str, Any] | None


@dataclass(frozen=True, slots=True)
class Asked:
    """A query or condition of the user with all that running it needs."""

    island: Island
    names: Names
    parameters: Parameters = None
    verbatim: bool = True
    """The island's text is what the user wrote, so that a place in it is a place in the statement. Otherwise it was
    composed, and an error points at the whole span."""


@dataclass(frozen=True, slots=True)
class QueryPlan:
    """A read that DuckDB runs as it stands."""

    query: Asked


@dataclass(frozen=True, slots=True)
class CreateTablePlan:
    """A new table, empty or with a query's rows."""

    name: str
    columns: tuple[Column, ...]
    query: Asked | None
    replaces: Table | None
    base: int
    """The version that the query reads."""
    message: str | None


@dataclass(frozen=True, slots=True)
class InsertPlan:
    """A query's rows become a segment."""

    table: Table
    supplied: tuple[str, ...]
    """The columns that the query's columns stand for, in its order."""
    query: Asked
    message: str | None


@dataclass(frozen=True, slots=True)
class DeletePlan:
    """The rows that satisfy a condition, all without one, are gone from the next version on."""

    table: Table
    where: Asked | None
    base: int
    message: str | None


@dataclass(frozen=True, slots=True)
class CreateGraphPlan:
    """A definition whose tables and columns are there; its data is checked when it is created."""

    graph: PropertyGraph
    replaces: bool


@dataclass(frozen=True, slots=True)
class CreateSnapshotPlan:
    """A graph, reduced to its elements and pinned; `forms` says how each edge type will lie on the disk."""

    name: str
    graph: PropertyGraph
    version: int
    tables: Mapping[str, Table]
    """At that version, by case-folded name."""
    window: Window
    unit: TimeUnit | None
    filters: tuple[Filter, ...]
    replaces: Snapshot | None
    forms: Mapping[str, Form] = field(default_factory=dict)
    """Edge type's name → form; chosen by a rule."""


@dataclass(frozen=True, slots=True)
class SamplePlan:
    """Mini-batches of sampled neighbourhoods."""

    spec: SampleSpec
    snapshot: Snapshot
    seeds: Asked
    epochs: int


@dataclass(frozen=True, slots=True)
class ShowPlan:
    """A list of what there is."""

    what: Literal["TABLES", "GRAPHS", "SNAPSHOTS", "VERSIONS"]
    like: str | None


@dataclass(frozen=True, slots=True)
class DescribePlan:
    """What one thing is made of."""

    kind: Kind
    name: str


@dataclass(frozen=True, slots=True)
class DropPlan:
    """A table, graph or snapshot goes."""

    target: Table | PropertyGraph | Snapshot
    base: int


@dataclass(frozen=True, slots=True)
class NothingPlan:
    """IF EXISTS or IF NOT EXISTS found nothing to do."""

    why: str


READS = (QueryPlan, SamplePlan, ShowPlan, DescribePlan, NothingPlan)
"""Plans that change nothing."""

Plan = (
    QueryPlan
    | CreateTablePlan
    | InsertPlan
    | DeletePlan
    | CreateGraphPlan
    | CreateSnapshotPlan
    | SamplePlan
    | ShowPlan
    | DescribePlan
    | DropPlan
    | NothingPlan
)

"""What a statement means once its names are bound: one frozen value per kind of plan."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from snapdb.plan.asked import Asked
from snapdb.types import Column, Filter, PropertyGraph, SampleSpec, Snapshot, Table, Tag, TimeUnit, Window

__all__ = [
    "READS",
    "TRANSACTIONAL",
    "AlterPlan",
    "BeginPlan",
    "CheckPlan",
    "CommitPlan",
    "CreateGraphPlan",
    "CreateSnapshotPlan",
    "CreateTablePlan",
    "CreateTagPlan",
    "DeletePlan",
    "DescribePlan",
    "DiffTablePlan",
    "DropPlan",
    "Form",
    "InsertPlan",
    "NothingPlan",
    "Plan",
    "QueryPlan",
    "RollbackPlan",
    "SamplePlan",
    "ShowPlan",
    "UpdatePlan",
    "VacuumPlan",
]

Form = Literal["full", "ends", "materialized"]


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
    copies: tuple[str, ...] = ()
    """Parquet files that hold just these rows in the form of a segment: to be copied, not rewritten."""


@dataclass(frozen=True, slots=True)
class InsertPlan:
    """A query's rows become a segment."""

    table: Table
    supplied: tuple[str, ...]
    """The columns that the query's columns stand for, in its order."""
    query: Asked
    message: str | None
    copies: tuple[str, ...] = ()
    """As in CreateTablePlan."""


@dataclass(frozen=True, slots=True)
class DeletePlan:
    """The rows that a query finds are gone from the next version on."""

    table: Table
    find: Asked
    """SELECT row_id."""
    base: int
    message: str | None


@dataclass(frozen=True, slots=True)
class UpdatePlan:
    """The rows that a query finds are gone, and come back with other values."""

    table: Table
    find: Asked
    """SELECT the row id, called ROW_ID, and the table's columns with their new values."""
    base: int
    message: str | None


@dataclass(frozen=True, slots=True)
class AlterPlan:
    """A table has other columns from the next version on; no file is rewritten."""

    table: Table
    columns: tuple[Column, ...]
    did: str
    """What happens, for a person."""
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

    what: Literal["TABLES", "GRAPHS", "SNAPSHOTS", "TAGS", "VERSIONS"]
    like: str | None
    tables: tuple[Table, ...]
    """Those to list, of the version that was asked for."""
    of: str | None
    """The table whose versions are listed; None: all."""


@dataclass(frozen=True, slots=True)
class DescribePlan:
    """What one thing is made of."""

    target: Table | PropertyGraph | Snapshot


@dataclass(frozen=True, slots=True)
class DropPlan:
    """A table, graph, snapshot or tag goes."""

    target: Table | PropertyGraph | Snapshot | Tag
    base: int


@dataclass(frozen=True, slots=True)
class CreateTagPlan:
    """A version gets a name."""

    tag: Tag
    replaces: bool


@dataclass(frozen=True, slots=True)
class DiffTablePlan:
    """What differs between a table at two versions; None where it was not there."""

    name: str
    before: Table | None
    after: Table | None
    rows: bool


@dataclass(frozen=True, slots=True)
class BeginPlan:
    """What follows is one version, or none."""


@dataclass(frozen=True, slots=True)
class CommitPlan:
    """The open transaction becomes a version."""

    message: str | None


@dataclass(frozen=True, slots=True)
class RollbackPlan:
    """The open transaction never was."""


@dataclass(frozen=True, slots=True)
class CheckPlan:
    """Every file and every row of the catalog is compared with what was recorded."""


@dataclass(frozen=True, slots=True)
class VacuumPlan:
    """Small files are merged, and those that nothing points at removed."""

    table: Table | None
    """None: every table."""
    grace: int
    """Microseconds for which a file stays after the last pointer to it went."""
    dry_run: bool


@dataclass(frozen=True, slots=True)
class NothingPlan:
    """IF EXISTS or IF NOT EXISTS found nothing to do."""

    why: str


READS = (QueryPlan, SamplePlan, ShowPlan, DescribePlan, DiffTablePlan, CheckPlan, NothingPlan)
"""Plans that change nothing."""

TRANSACTIONAL = (
    QueryPlan, CreateTablePlan, InsertPlan, DeletePlan, UpdatePlan, AlterPlan, DropPlan, ShowPlan, DescribePlan,
    DiffTablePlan, NothingPlan, BeginPlan, CommitPlan, RollbackPlan,
)  # fmt: skip
"""Plans that may stand between BEGIN and COMMIT; of DropPlan, those of tables."""

Plan = (
    QueryPlan
    | CreateTablePlan
    | InsertPlan
    | DeletePlan
    | UpdatePlan
    | AlterPlan
    | CreateGraphPlan
    | CreateSnapshotPlan
    | SamplePlan
    | ShowPlan
    | DescribePlan
    | DropPlan
    | CreateTagPlan
    | DiffTablePlan
    | BeginPlan
    | CommitPlan
    | RollbackPlan
    | CheckPlan
    | VacuumPlan
    | NothingPlan
)

"""What a statement means once its names are bound: one frozen value per kind of plan."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from snapdb.errors import Span
from snapdb.plan.asked import Asked
from snapdb.plan.logical_samples import (
    AuditPlan,
    BatchFormat,
    CopySamplePlan,
    CreateCachePlan,
    CreateSamplerPlan,
    RefreshCachePlan,
    SamplePlan,
    SeedColumns,
)
from snapdb.plan.logical_tasks import AlterTaskPlan, CreateTaskPlan, ExecuteTaskPlan
from snapdb.plan.new_files import NewFiles
from snapdb.sql.ast_versions import Shown
from snapdb.types import (
    PINNED,
    Cache,
    Column,
    Filter,
    Form,
    Pin,
    PropertyGraph,
    Retention,
    Sampler,
    Snapshot,
    Table,
    Tag,
    Task,
    TimeUnit,
    Window,
)

__all__ = [
    "READS",
    "TRANSACTIONAL",
    "AlterPlan",
    "AlterTaskPlan",
    "AuditPlan",
    "BackupPlan",
    "BatchFormat",
    "BeginPlan",
    "CheckPlan",
    "CommitPlan",
    "CopySamplePlan",
    "CopySnapshotPlan",
    "CopyToPlan",
    "CreateCachePlan",
    "CreateGraphPlan",
    "CreateSamplerPlan",
    "CreateSnapshotPlan",
    "CreateTablePlan",
    "CreateTagPlan",
    "CreateTaskPlan",
    "DeletePlan",
    "DescribePlan",
    "DiffGraphPlan",
    "DiffSnapshotPlan",
    "DiffTablePlan",
    "DropPlan",
    "ExecuteTaskPlan",
    "ExpirePlan",
    "ExplainPlan",
    "FileFormat",
    "InsertPlan",
    "NothingPlan",
    "Plan",
    "Pushed",
    "QueryPlan",
    "RefreshCachePlan",
    "RefreshPlan",
    "RetainPlan",
    "RollbackPlan",
    "SamplePlan",
    "SeedColumns",
    "SetRetentionPlan",
    "ShowPlan",
    "SnapshotFormat",
    "SummarizePlan",
    "UpdatePlan",
    "VacuumPlan",
    "changes_nothing",
]


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
    new: NewFiles | None = None
    """The files that the query reads, where COPY takes new ones only: they are to be remembered."""


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
    changed: frozenset[str]
    """The columns that get new values."""


@dataclass(frozen=True, slots=True)
class AlterPlan:
    """A table has other columns from the next version on; no file is rewritten."""

    table: Table
    columns: tuple[Column, ...]
    did: str
    """What happens, for a person."""
    base: int
    message: str | None


FileFormat = Literal["parquet", "csv", "tsv", "json", "jsonl", "arrow"]


@dataclass(frozen=True, slots=True)
class CopyToPlan:
    """Rows go into a file."""

    query: Asked
    path: str
    span: Span
    """Of the path."""
    format: FileFormat
    writer: str
    """What DuckDB's COPY is told in parentheses; empty where it does not write the file."""


SnapshotFormat = Literal["parquet", "npz", "pyg"]


@dataclass(frozen=True, slots=True)
class CopySnapshotPlan:
    """A whole snapshot goes into a folder."""

    snapshot: Snapshot
    path: str
    span: Span
    """Of the path."""
    format: SnapshotFormat
    splits: Mapping[str, str]
    """Vertex type → the column whose values become masks, of those that have one."""
    split_said: bool
    """Values of it that make no masks are an error."""
    overwrite: bool
    """An earlier export that stands there is replaced."""


@dataclass(frozen=True, slots=True)
class CreateGraphPlan:
    """A definition whose tables and columns are there; its data is checked when it is created."""

    graph: PropertyGraph
    replaces: bool


@dataclass(frozen=True, slots=True)
class Pushed:
    """Conditions on an edge type that say no more than start ≤ event time < stop."""

    element: str
    start: int | None = None
    stop: int | None = None
    filters: tuple[Filter, ...] = ()
    """Those conditions."""


@dataclass(frozen=True, slots=True)
class CreateSnapshotPlan:
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


@dataclass(frozen=True, slots=True)
class RefreshPlan:
    """A snapshot, pinned anew in the place of what it was."""

    create: CreateSnapshotPlan
    before: Snapshot
    full: bool
    """Build everything again from the tables, instead of from what is there."""
    dry_run: bool
    """Only tell what would happen."""


@dataclass(frozen=True, slots=True)
class DiffSnapshotPlan:
    """What one snapshot has and another has not: added is in `after` and not in `before`."""

    after: Snapshot
    before: Snapshot
    detail: Literal["SUMMARY", "ROWS", "FEATURES"]


@dataclass(frozen=True, slots=True)
class DiffGraphPlan:
    """What a whole graph has at one version and has not at another."""

    graph: PropertyGraph
    before: int
    after: int
    tables_before: Mapping[str, Table]
    """By case-folded name."""
    tables_after: Mapping[str, Table]
    detail: Literal["SUMMARY", "ROWS", "FEATURES"]


@dataclass(frozen=True, slots=True)
class ExpirePlan:
    """Snapshots that go because they are old."""

    snapshots: tuple[tuple[Snapshot, str | None], ...]
    """Each that was asked about, oldest first, and why it stays; None: it goes."""
    dry_run: bool


@dataclass(frozen=True, slots=True)
class RetainPlan:
    """Snapshots go that their graph's retention does not keep."""

    retentions: Mapping[str, Retention]
    """Of the graphs that were asked about, by case-folded name."""
    dry_run: bool


@dataclass(frozen=True, slots=True)
class SetRetentionPlan:
    """A graph says how long which of its snapshots stay; nothing goes yet."""

    graph: PropertyGraph
    retention: Retention | None
    """None: all stay until they are dropped."""
    dry_run: bool
    """Only tell what it would let go."""


@dataclass(frozen=True, slots=True)
class ExplainPlan:
    """What a plan would do, told instead of done."""

    plan: Plan
    text: str
    """The statement."""
    analyze: bool
    """Do it too, and tell what it took."""
    json: bool
    bound: Plan | None = None
    """What the rules found; None: no rule was asked."""
    rules: tuple[str, ...] = ()
    """The rules that changed it, by name, in the order in which they ran."""


@dataclass(frozen=True, slots=True)
class ShowPlan:
    """A list of what there is."""

    what: Shown
    like: str | None
    tables: tuple[Table, ...]
    """Those to list, of the version that was asked for."""
    of: str | None
    """The table whose versions or columns, or the graph whose snapshots are listed; None: all."""


@dataclass(frozen=True, slots=True)
class DescribePlan:
    """What one thing is made of."""

    target: Table | PropertyGraph | Snapshot | Sampler | Cache | Task


@dataclass(frozen=True, slots=True)
class SummarizePlan:
    """What a snapshot holds, in numbers."""

    snapshot: Snapshot


@dataclass(frozen=True, slots=True)
class DropPlan:
    """A table, graph, snapshot, sampler, cache, task or tag goes."""

    target: Table | PropertyGraph | Snapshot | Sampler | Cache | Task | Tag
    base: int
    dependants: tuple[PropertyGraph | Snapshot | Sampler | Cache, ...] = ()
    """What goes with it (CASCADE), what depends on others first."""


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
class BackupPlan:
    """The database is copied to another directory, and the copy checked."""

    path: str
    span: Span
    copies: bool
    """Copies only, and no hard links."""


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


READS = (
    QueryPlan,
    SamplePlan,
    AuditPlan,
    ShowPlan,
    DescribePlan,
    SummarizePlan,
    DiffTablePlan,
    DiffSnapshotPlan,
    DiffGraphPlan,
    CheckPlan,
    BackupPlan,
    NothingPlan,
    CopyToPlan,
    CopySnapshotPlan,
    CopySamplePlan,
)
"""Plans that change nothing."""

TRANSACTIONAL = (
    QueryPlan,
    CreateTablePlan,
    InsertPlan,
    DeletePlan,
    UpdatePlan,
    AlterPlan,
    DropPlan,
    ShowPlan,
    DescribePlan,
    SummarizePlan,
    DiffTablePlan,
    DiffSnapshotPlan,
    NothingPlan,
    BeginPlan,
    CommitPlan,
    RollbackPlan,
    CopyToPlan,
)
"""Plans that may stand between BEGIN and COMMIT; of DropPlan, those of tables."""

Plan = (
    QueryPlan
    | CreateTablePlan
    | InsertPlan
    | DeletePlan
    | UpdatePlan
    | AlterPlan
    | CopyToPlan
    | CopySnapshotPlan
    | CopySamplePlan
    | CreateGraphPlan
    | CreateSnapshotPlan
    | CreateSamplerPlan
    | CreateCachePlan
    | RefreshCachePlan
    | SamplePlan
    | AuditPlan
    | ShowPlan
    | DescribePlan
    | SummarizePlan
    | DropPlan
    | CreateTagPlan
    | CreateTaskPlan
    | AlterTaskPlan
    | ExecuteTaskPlan
    | DiffTablePlan
    | RefreshPlan
    | DiffSnapshotPlan
    | DiffGraphPlan
    | ExpirePlan
    | RetainPlan
    | SetRetentionPlan
    | ExplainPlan
    | BeginPlan
    | CommitPlan
    | RollbackPlan
    | CheckPlan
    | BackupPlan
    | VacuumPlan
    | NothingPlan
)


def changes_nothing(plan: Plan) -> bool:
    """Whether a plan only looks."""
    match plan:
        case VacuumPlan() | ExpirePlan() | RetainPlan() | SetRetentionPlan() | RefreshPlan():
            return plan.dry_run
        case ExplainPlan():
            return not plan.analyze or changes_nothing(plan.plan)
        case _:
            return isinstance(plan, READS)

"""Versions: tags, transactions, and DIFF of tables, graphs and snapshots."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

from snapdb.catalog.state import VersionHistory
from snapdb.errors import BindError, Span
from snapdb.plan.fits import misfits
from snapdb.plan.names import check_name, find_named, find_table
from snapdb.plan.plan import NothingPlan, Plan, PlanFamily, PlanNode
from snapdb.plan.scope import BindContext
from snapdb.sql.versions import Begin, Commit, CreateTag, DiffGraph, DiffSnapshot, DiffTable, Rollback
from snapdb.types import PropertyGraph, Snapshot, Table, Tag


@dataclass(frozen=True, slots=True)
class CreateTagPlan(Plan):
    """CREATE TAG: name a version."""

    tag: Tag
    replaces: bool

    def describe(self) -> PlanNode:
        return PlanNode("CreateTag", f"{self.tag.name} for version {self.tag.version}")


@dataclass(frozen=True, slots=True)
class BeginPlan(Plan):
    """BEGIN: combine the statements up to COMMIT into one version, or discard all of them."""

    transactional: ClassVar[bool] = True

    def describe(self) -> PlanNode:
        return PlanNode("Begin")


@dataclass(frozen=True, slots=True)
class CommitPlan(Plan):
    """COMMIT: publish the changes of the open transaction as a version."""

    transactional: ClassVar[bool] = True

    message: str | None

    def describe(self) -> PlanNode:
        """Return the plan as a tree of operators.

        >>> CommitPlan("day 324").describe().detail
        "with message 'day 324'"
        """
        return PlanNode("Commit", "" if self.message is None else f"with message {self.message!r}")


@dataclass(frozen=True, slots=True)
class RollbackPlan(Plan):
    """ROLLBACK: discard the changes of the open transaction."""

    transactional: ClassVar[bool] = True

    def describe(self) -> PlanNode:
        return PlanNode("Rollback")


@dataclass(frozen=True, slots=True)
class DiffTablePlan(Plan):
    """DIFF TABLE: compare a table at two versions. A table is None if it did not exist at that version."""

    reads: ClassVar[bool] = True
    transactional: ClassVar[bool] = True

    name: str
    before: Table | None
    after: Table | None
    rows: bool

    def describe(self) -> PlanNode:
        return PlanNode("DiffTable", f"{self.name}, {'rows' if self.rows else 'counts'}")


@dataclass(frozen=True, slots=True)
class DiffGraphPlan(Plan):
    """DIFF GRAPH: compare a whole graph at two versions."""

    reads: ClassVar[bool] = True

    graph: PropertyGraph
    before: int
    after: int
    tables_before: Mapping[str, Table]
    """The tables at the earlier version by case-folded name."""
    tables_after: Mapping[str, Table]
    detail: Literal["SUMMARY", "ROWS", "FEATURES"]

    def describe(self) -> PlanNode:
        detail = f"{self.graph.name} from version {self.before} to {self.after}, {self.detail.lower()}"
        return PlanNode("DiffGraph", detail)


@dataclass(frozen=True, slots=True)
class DiffSnapshotPlan(Plan):
    """DIFF SNAPSHOT: compare two snapshots. Added rows are in `after` but not in `before`."""

    reads: ClassVar[bool] = True
    transactional: ClassVar[bool] = True

    after: Snapshot
    before: Snapshot
    detail: Literal["SUMMARY", "ROWS", "FEATURES"]

    def describe(self) -> PlanNode:
        return PlanNode("DiffSnapshot", f"{self.after.name} with {self.before.name}, {self.detail.lower()}")


def _bind_create_tag(statement: CreateTag, context: BindContext) -> Plan:
    """Bind a tag for an existing version."""
    name = statement.name.text
    existing = next(
        (tag for tag in VersionHistory(context.store.catalog_db).tags() if tag.name.lower() == name.lower()), None
    )
    if existing is not None and statement.if_not_exists:
        return NothingPlan(f'tag "{existing.name}" already exists')
    if existing is not None and not statement.or_replace:
        raise BindError(
            f'tag "{existing.name}" already exists; choose another name, or write CREATE OR REPLACE TAG',
            span=statement.name.span,
            code="exists",
        )
    if existing is None:  # a tag from an older snapdb may have any name, and can still be moved
        check_name(statement.name)
    version = context.catalog.version if statement.at is None else context.resolve_version(statement.at)
    if not version:
        raise BindError(
            "no version exists yet; CREATE TABLE publishes the first one",
            span=statement.name.span,
            code="unknown-version",
        )
    return CreateTagPlan(Tag(name, version, 0), existing is not None)


def _bind_diff_table(statement: DiffTable, context: BindContext) -> DiffTablePlan:
    """Bind the table at both versions."""
    name = statement.table.text
    first = context.resolve_version(statement.start)
    before = context.tables_at(first).get(name.lower())
    if statement.stop is None:
        last, after = context.catalog.version, context.catalog.tables.get(name.lower())
    else:
        last = context.resolve_version(statement.stop)
        after = context.tables_at(last).get(name.lower())
    # A table that was created or dropped in between exists at only one of the versions, which is a valid diff.
    if before is None and after is None:
        if not context.was_table(name):
            find_table(context, statement.table)  # raises an error with the nearest name
        raise BindError(
            f"table {name} does not exist at versions {first} and {last}; SHOW VERSIONS OF {name} lists its versions",
            span=statement.table.span,
            code="unknown-table",
        )
    shown = after or before
    assert shown is not None
    for table in (before, after):
        if table is not None:
            context.rows(table)  # raises an error if a file is missing
    return DiffTablePlan(shown.name, before, after, statement.rows)


def _bind_diff_graph(statement: DiffGraph, context: BindContext) -> DiffGraphPlan:
    """Bind the graph over the tables of two versions, both of which must fit it."""
    graph = find_named(context.catalog.graph, statement.graph)
    before = context.resolve_version(statement.start)
    tables_before = context.tables_at(before)
    _check_fits(graph, before, tables_before, statement.start.span)
    if statement.stop is None:
        after, tables_after, place = context.catalog.version, context.catalog.tables, statement.graph.span
    else:
        after, place = context.resolve_version(statement.stop), statement.stop.span
        tables_after = context.tables_at(after)
    _check_fits(graph, after, tables_after, place)
    return DiffGraphPlan(graph, before, after, tables_before, tables_after, statement.detail)


def _check_fits(graph: PropertyGraph, version: int, tables: Mapping[str, Table], span: Span) -> None:
    if problem := next(misfits(graph, tables), None):
        raise BindError(
            f"version {version} does not match graph {graph.name}: {problem}; compare other versions, or "
            "write DIFF TABLE for each of its tables",
            span=span,
            code="does-not-fit",
        )


def _bind_diff_snapshot(statement: DiffSnapshot, context: BindContext) -> DiffSnapshotPlan:
    """Bind two snapshots that have an element in common."""
    after, before = (
        find_named(context.catalog.snapshot, statement.after),
        find_named(context.catalog.snapshot, statement.before),
    )
    names = {e.name.lower() for e in after.graph.elements}
    if not any(e.name.lower() in names for e in before.graph.elements):
        there = ", ".join(e.name for e in after.graph.elements)
        raise BindError(
            f"snapshots {after.name} and {before.name} have no element in common; {after.name} has {there}",
            span=statement.before.span,
            code="nothing-in-common",
        )
    for snapshot in (after, before):
        context.views(snapshot)  # raises an error if a file is missing
    return DiffSnapshotPlan(after, before, statement.detail)


FAMILY = PlanFamily(
    binders={
        CreateTag: _bind_create_tag,
        Begin: lambda statement, context: BeginPlan(),
        Commit: lambda statement, context: CommitPlan(statement.message),
        Rollback: lambda statement, context: RollbackPlan(),
        DiffTable: _bind_diff_table,
        DiffGraph: _bind_diff_graph,
        DiffSnapshot: _bind_diff_snapshot,
    },
    operators={
        CreateTagPlan: "snapdb.execute.versions:create_tag",
        BeginPlan: "snapdb.execute.versions:begin",
        CommitPlan: "snapdb.execute.versions:commit",
        RollbackPlan: "snapdb.execute.versions:rollback",
        DiffTablePlan: "snapdb.execute.diff.operators:diff_table",
        DiffGraphPlan: "snapdb.execute.diff.operators:diff_graph",
        DiffSnapshotPlan: "snapdb.execute.diff.operators:diff_snapshot",
    },
)

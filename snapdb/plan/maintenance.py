"""Maintenance: CHECK, BACKUP, VACUUM, EXPIRE SNAPSHOTS and retention."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from snapdb.catalog.state import VersionHistory
from snapdb.errors import BindError, InputError, Span
from snapdb.plan.names import find_named, find_table
from snapdb.plan.plan import Plan, PlanFamily, PlanNode
from snapdb.plan.scope import BindContext
from snapdb.plan.times import spelled
from snapdb.remote import check_url
from snapdb.sql.maintenance import (
    BackupDatabase,
    CheckDatabase,
    DropRetention,
    ExpireSnapshots,
    RetentionRule,
    SetRetention,
    Vacuum,
)
from snapdb.sql.syntax import Name, SqlFragment
from snapdb.sql_engine import quote_odd
from snapdb.types import PropertyGraph, Retention, Rule, Snapshot, Table

_HOUR = 3_600_000_000


@dataclass(frozen=True, slots=True)
class CheckPlan(Plan):
    """CHECK DATABASE: check every file and every catalog row against its checksum and the manifests."""

    reads: ClassVar[bool] = True

    def describe(self) -> PlanNode:
        return PlanNode("Check", "all files and all rows of the catalog")


@dataclass(frozen=True, slots=True)
class BackupPlan(Plan):
    """BACKUP DATABASE: copy the database to another directory, and check the copy."""

    reads: ClassVar[bool] = True

    path: str
    span: Span
    copies: bool
    """Whether to always copy files instead of creating hard links."""

    def describe(self) -> PlanNode:
        return PlanNode("Backup", f"to {self.path}")


@dataclass(frozen=True, slots=True)
class VacuumPlan(Plan):
    """VACUUM: merge small files, and remove unreferenced ones."""

    table: Table | None
    """The table, or None for all tables."""
    grace: int
    """The time in microseconds for which a file is kept after its last reference is removed."""
    dry_run: bool

    def is_read(self) -> bool:
        return self.dry_run

    def describe(self) -> PlanNode:
        return PlanNode("Vacuum", "every table" if self.table is None else self.table.name)


@dataclass(frozen=True, slots=True)
class VacuumPublicationPlan(Plan):
    """VACUUM 'url': remove the objects of a publication that no kept generation lists."""

    url: str
    span: Span
    grace: int
    """The time in microseconds for which such an object is kept."""
    dry_run: bool

    def is_read(self) -> bool:
        return self.dry_run

    def describe(self) -> PlanNode:
        return PlanNode("VacuumPublication", self.url)


@dataclass(frozen=True, slots=True)
class ExpirePlan(Plan):
    """EXPIRE SNAPSHOTS by age or by count."""

    snapshots: tuple[tuple[Snapshot, str | None], ...]
    """The snapshots that the statement covers, oldest first, each with the reason to keep it, or None if it expires."""
    dry_run: bool

    def is_read(self) -> bool:
        return self.dry_run

    def describe(self) -> PlanNode:
        expired = (snapshot.name for snapshot, stays in self.snapshots if stays is None)
        return PlanNode("Expire", ", ".join(expired) or "nothing")


@dataclass(frozen=True, slots=True)
class RetainPlan(Plan):
    """EXPIRE SNAPSHOTS … BY RETENTION: expire the snapshots that their graph's retention rules do not keep."""

    retentions: Mapping[str, Retention]
    """Maps case-folded graph names to the graphs' retention rules."""
    dry_run: bool

    def is_read(self) -> bool:
        return self.dry_run

    def describe(self) -> PlanNode:
        rules = (PlanNode("Retention", f"of {graph}: {retention}") for graph, retention in self.retentions.items())
        return PlanNode("Expire", "snapshots that retention does not keep", tuple(rules))


@dataclass(frozen=True, slots=True)
class SetRetentionPlan(Plan):
    """SET or DROP RETENTION: change a graph's retention rules. This does not expire any snapshot."""

    graph: PropertyGraph
    retention: Retention | None
    """The rules, or None to keep snapshots until they are dropped."""
    dry_run: bool
    """Whether the statement only lists the snapshots that the rules would remove."""

    def is_read(self) -> bool:
        return self.dry_run

    def describe(self) -> PlanNode:
        return PlanNode("SetRetention", f"of {self.graph.name}: {self.retention or 'none'}")


def _bind_expire(statement: ExpireSnapshots, context: BindContext) -> ExpirePlan | RetainPlan:
    """Bind the covered snapshots, oldest first, each with the reason to keep it, or their graphs' retention rules."""
    if statement.by_retention:
        return _bind_retained(statement, context)
    snapshots = list(context.catalog.snapshots.values())
    if statement.graph is not None:
        graph = find_named(context.catalog.graph, statement.graph)
        snapshots = [s for s in snapshots if s.graph.name.lower() == graph.name.lower()]
    before = None if statement.older is None else _oldest_moment(context, statement.older)
    if statement.last is not None and statement.last < 1:
        raise BindError(
            "RETAIN LAST must be greater than zero; DROP SNAPSHOT drops a snapshot by name",
            span=statement.last_span,
            code="out-of-range",
        )
    snapshots.sort(key=lambda s: (s.built_at, s.id))
    names: dict[int, str] = {}
    for tag in VersionHistory(context.store.catalog_db).tags():
        names.setdefault(tag.version, tag.name)
    samplers = {sampler.snapshot.lower(): sampler.name for sampler in context.catalog.samplers.values()}
    # RETAIN LAST counts per graph, so a graph with frequent snapshots does not expire those of another graph.
    newest = _newest_ids(snapshots, statement.last or 0)
    decisions = []
    for snapshot in snapshots:
        reason = None
        # Only the first reason is reported: the age, RETAIN LAST, a tag, or a sampler.
        if before is not None and snapshot.built_at >= before:
            reason = f"not older than {spelled(before)}"
        elif snapshot.id in newest:
            reason = f"among the last {statement.last} of graph {snapshot.graph.name}"
        elif snapshot.version in names:
            reason = f"version {snapshot.version} is tagged {names[snapshot.version]}"
        elif (sampler := samplers.get(snapshot.name.lower())) is not None:
            reason = f"sampler {sampler} uses it"
        decisions.append((snapshot, reason))
    return ExpirePlan(tuple(decisions), statement.dry_run)


def _bind_retained(statement: ExpireSnapshots, context: BindContext) -> RetainPlan:
    """Bind the retention rules of one graph, which must have some, or of all graphs that have some."""
    if statement.graph is None:
        return RetainPlan(context.catalog.retentions, statement.dry_run)
    graph, retention = _find_retention(context, statement.graph)
    return RetainPlan({graph.name.lower(): retention}, statement.dry_run)


def _newest_ids(snapshots: Sequence[Snapshot], last: int) -> set[int]:
    """Return the ids of the last `last` snapshots of each graph. `snapshots` is sorted oldest first."""
    seen: Counter[str] = Counter()
    kept = set()
    for snapshot in reversed(snapshots):
        graph = snapshot.graph.name.lower()
        seen[graph] += 1
        if seen[graph] <= last:
            kept.add(snapshot.id)
    return kept


def _oldest_moment(context: BindContext, older: SqlFragment) -> int:
    """Return the time in OLDER THAN. An interval is subtracted from the current time."""
    query = context.bind_query(older)
    if context.type_of(query) != "INTERVAL":
        return context.time_value(older, "timestamp", "OLDER THAN must be INTERVAL '30 days' or a timestamp")
    now = context.number(context.bind_query(SqlFragment("now()", older.span)), "SELECT epoch_us(", ")")
    # DuckDB subtracts the interval, because months differ in length.
    before = context.number(query, f"SELECT epoch_us(make_timestamp({now}) - (", "))")
    if before > now:
        raise BindError("the interval of OLDER THAN must not be negative", span=older.span, code="out-of-range")
    return before


def _bind_retention(statement: SetRetention | DropRetention, context: BindContext) -> SetRetentionPlan:
    """Bind SET RETENTION or DROP RETENTION."""
    if isinstance(statement, DropRetention):
        graph, _ = _find_retention(context, statement.graph)
        return SetRetentionPlan(graph, None, dry_run=False)
    graph = find_named(context.catalog.graph, statement.graph)
    rules = tuple(_retention_rule(context, rule) for rule in statement.rules)
    return SetRetentionPlan(graph, Retention(rules, statement.keep_tagged), statement.dry_run)


def _find_retention(context: BindContext, name: Name) -> tuple[PropertyGraph, Retention]:
    """Return the graph with that name and its retention. Raises BindError if either does not exist."""
    graph = find_named(context.catalog.graph, name)
    if (retention := context.catalog.retentions.get(graph.name.lower())) is None:
        way = f"ALTER PROPERTY GRAPH {quote_odd(graph.name)} SET RETENTION (all '3 days', daily '30 days') adds rules"
        raise BindError(
            f"graph {graph.name} has no retention rules, so its snapshots are kept until they are dropped; {way}",
            span=name.span,
            code="no-retention",
        )
    return graph, retention


def _retention_rule(context: BindContext, rule: RetentionRule) -> Rule:
    length = context.period_of_text(rule.length, rule.span)
    if length is None:
        raise BindError(
            f"{rule.keeps} must be a duration greater than zero without negative parts, found "
            f"'{rule.length[:40]}'; write one such as '7 days'",
            span=rule.span,
            code="bad-length",
        )
    return Rule(rule.keeps, length, rule.length)


def _bind_backup(statement: BackupDatabase, context: BindContext) -> BackupPlan:
    if not statement.path.strip():
        raise BindError("BACKUP DATABASE must have a path", span=statement.path_span, code="bad-path")
    return BackupPlan(statement.path, statement.path_span, statement.copies)


def _bind_vacuum(statement: Vacuum, context: BindContext) -> VacuumPlan | VacuumPublicationPlan:
    """Bind the tables or the publication to vacuum, and the time for which unreferenced files are kept."""
    table = None if statement.table is None else _vacuumed(statement.table, context)
    default = _HOUR if statement.url is None else 24 * _HOUR
    grace = default if statement.retain is None else context.duration(statement.retain)
    if grace < 0:
        assert statement.retain is not None
        raise BindError("the interval of RETAIN must not be negative", span=statement.retain.span, code="out-of-range")
    if statement.url is not None:
        try:
            url = check_url(statement.url.value)
        except InputError as error:
            error.span = statement.url.span
            raise
        return VacuumPublicationPlan(url, statement.url.span, grace, statement.dry_run)
    return VacuumPlan(table, grace, statement.dry_run)


def _vacuumed(name: Name, context: BindContext) -> Table:
    """Return the table to vacuum. Other databases' VACUUM options are parsed as names, which BindError explains."""
    try:
        return find_table(context, name)
    except BindError:
        if name.text.upper() not in {"ANALYZE", "FREEZE", "FULL", "VERBOSE"}:
            raise
        message = f'table "{name}" does not exist, and VACUUM has no options; write VACUUM, or VACUUM table'
        raise BindError(message, span=name.span, code="unknown-table") from None


FAMILY = PlanFamily(
    binders={
        CheckDatabase: lambda statement, context: CheckPlan(),
        BackupDatabase: _bind_backup,
        Vacuum: _bind_vacuum,
        ExpireSnapshots: _bind_expire,
        SetRetention: _bind_retention,
        DropRetention: _bind_retention,
    },
    operators={
        CheckPlan: "snapdb.execute.maintenance:check",
        BackupPlan: "snapdb.execute.maintenance:backup",
        VacuumPlan: "snapdb.execute.maintenance:vacuum",
        VacuumPublicationPlan: "snapdb.execute.publications:vacuum_publication",
        ExpirePlan: "snapdb.execute.maintenance:expire_snapshots",
        RetainPlan: "snapdb.execute.maintenance:expire_snapshots",
        SetRetentionPlan: "snapdb.execute.maintenance:set_retention",
    },
)

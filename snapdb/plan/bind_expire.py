"""EXPIRE SNAPSHOTS: which snapshots are old enough to go, and why the others stay."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from snapdb.catalog import tags
from snapdb.errors import BindError
from snapdb.plan.bind_retention import find_retention
from snapdb.plan.maintenance import ExpirePlan, RetainPlan
from snapdb.plan.moments import number, spelled, time_value, type_of
from snapdb.plan.names import find_graph
from snapdb.plan.scope import Context
from snapdb.sql.ast import ExpireSnapshots, Island
from snapdb.types import Snapshot


def bind_expire(statement: ExpireSnapshots, context: Context) -> ExpirePlan | RetainPlan:
    """Every snapshot that was asked about, oldest first, each with why it stays if it does; or whose graphs tell."""
    if statement.by_retention:
        return _by_retention(statement, context)
    asked = list(context.catalog.snapshots.values())
    if statement.graph is not None:
        graph = find_graph(context, statement.graph)
        asked = [s for s in asked if s.graph.name.lower() == graph.name.lower()]
    before = None if statement.older is None else _moment(context, statement.older)
    if statement.last is not None and statement.last < 1:
        raise BindError(
            "RETAIN LAST takes a number greater than zero; DROP SNAPSHOT drops one by its name",
            span=statement.last_span,
            code="out-of-range",
        )
    asked.sort(key=lambda s: (s.made, s.id))
    names: dict[int, str] = {}
    for tag in tags(context.ledger):
        names.setdefault(tag.version, tag.name)
    samplers = {sampler.snapshot.lower(): sampler.name for sampler in context.catalog.samplers.values()}
    newest = _newest(asked, statement.last or 0)
    found = []
    for snapshot in asked:
        reason = None
        if before is not None and snapshot.made >= before:
            reason = f"not older than {spelled(before)}"
        elif snapshot.id in newest:
            reason = f"among the last {statement.last} of graph {snapshot.graph.name}"
        elif snapshot.version in names:
            reason = f"version {snapshot.version} is tagged {names[snapshot.version]}"
        elif (sampler := samplers.get(snapshot.name.lower())) is not None:
            reason = f"sampler {sampler} is of it"
        found.append((snapshot, reason))
    return ExpirePlan(tuple(found), statement.dry_run)


def _by_retention(statement: ExpireSnapshots, context: Context) -> RetainPlan:
    """Of one graph, which must have a retention, or of all that have one."""
    if statement.graph is None:
        return RetainPlan(context.catalog.retentions, statement.dry_run)
    graph, retention = find_retention(context, statement.graph)
    return RetainPlan({graph.name.lower(): retention}, statement.dry_run)


def _newest(snapshots: Sequence[Snapshot], last: int) -> set[int]:
    """The ids of the last so many of each graph, of snapshots with the oldest first."""
    seen: Counter[str] = Counter()
    kept = set()
    for snapshot in reversed(snapshots):
        graph = snapshot.graph.name.lower()
        seen[graph] += 1
        if seen[graph] <= last:
            kept.add(snapshot.id)
    return kept


def _moment(context: Context, older: Island) -> int:
    """The moment before which a snapshot is old; an interval counts back from now."""
    asked = context.asked(older)
    if type_of(context, asked) != "INTERVAL":
        return time_value(context, older, "timestamp", "OLDER THAN takes INTERVAL '30 days' or a moment")
    now = number(context, context.asked(Island("now()", older.span)), "SELECT epoch_us(", ")")
    before = number(context, asked, f"SELECT epoch_us(make_timestamp({now}) - (", "))")
    if before > now:
        raise BindError("OLDER THAN takes an interval that is not negative", span=older.span, code="out-of-range")
    return before

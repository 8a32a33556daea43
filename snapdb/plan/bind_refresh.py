"""REFRESH SNAPSHOT: what was said relative to now is resolved again, and everything else stays as it was."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from snapdb.catalog import version_of_tag
from snapdb.errors import BindError, SnapdbError
from snapdb.plan.bind_snapshot import check_filters, element_shapes
from snapdb.plan.bind_window import event_unit, trailing_window
from snapdb.plan.fits import misfits
from snapdb.plan.names import find_snapshot
from snapdb.plan.plan import NothingPlan, Plan
from snapdb.plan.scope import Context
from snapdb.plan.snapshots import CreateSnapshotPlan, RefreshPlan
from snapdb.sql.ast import Island, Name, RefreshSnapshot
from snapdb.types import ALL_TIME, FORMS, Snapshot, Table


def bind_refresh(statement: RefreshSnapshot, context: Context) -> Plan:
    """The snapshot pinned anew; a NothingPlan when nothing in it moves, unless it is to be built again in FULL."""
    name = statement.name
    snapshot = find_snapshot(context, name)
    if not snapshot.pin.moves and not statement.full:
        return NothingPlan(
            f"nothing moves: {snapshot.name} is pinned at version {snapshot.version} and its window is "
            "fixed; create it anew to move it"
        )
    version = _version(context, snapshot, name)
    tables = context.tables_at(version)
    _check_fits(context, snapshot, version, tables, name)
    window, length = snapshot.window, snapshot.pin.window
    if length is not None:
        # Its words are not in this statement, so that a complaint about them is shown at the snapshot's name.
        asked = replace(context.asked(Island(length, name.span)), pieces=())
        try:
            window = trailing_window(context, asked, snapshot.unit, snapshot.graph, tables)
        except BindError as error:
            gone = f"snapshot {snapshot.name} has a window that ends at the latest event, and there is none now"
            error.message = f"{gone}; load edges first, or drop it"
            raise
    create = CreateSnapshotPlan(
        name=snapshot.name,
        graph=snapshot.graph,
        version=version,
        tables=tables,
        window=window,
        unit=event_unit(snapshot.graph, tables, None),
        filters=snapshot.filters,
        replaces=snapshot,
        pin=snapshot.pin,
        layout=next((form for form in FORMS if form == snapshot.layout), None),
        refreshes=True,
    )
    return RefreshPlan(create, snapshot, statement.full, statement.dry_run)


def _version(context: Context, snapshot: Snapshot, name: Name) -> int:
    if snapshot.pin.tag is not None:
        try:
            return version_of_tag(context.ledger, snapshot.pin.tag)
        except SnapdbError as error:
            error.message = f"snapshot {snapshot.name} follows a tag that is gone: {error.message}"
            error.span = name.span
            raise
    return context.catalog.version if snapshot.pin.head else snapshot.version


def _check_fits(context: Context, snapshot: Snapshot, version: int, tables: Mapping[str, Table], name: Name) -> None:
    """Nothing when the tables at the version can be the snapshot's."""
    problem = next(misfits(snapshot.graph, tables), None)
    if problem is None and snapshot.window != ALL_TIME:
        unit = event_unit(snapshot.graph, tables, None)
        if unit != snapshot.unit:
            problem = f"its event times are {unit}s now, and its window is of {snapshot.unit}s"
    if problem is None and snapshot.filters:
        problem = _wrong_filter(context, snapshot, tables)
    if problem is not None:
        raise BindError(
            f"version {version} does not fit snapshot {snapshot.name} any more: {problem}; create it anew",
            span=name.span,
            code="does-not-fit",
        )


def _wrong_filter(context: Context, snapshot: Snapshot, tables: Mapping[str, Table]) -> str | None:
    """What keeps a condition from being read at the version."""
    with context.relational.session(element_shapes(snapshot.graph, tables)) as session:
        for condition in snapshot.filters:
            try:
                check_filters(session, [condition])
            except SnapdbError as error:
                return f"its condition {condition.condition} cannot be read: {error.message}"
    return None

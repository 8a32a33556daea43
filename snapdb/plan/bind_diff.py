"""DIFF: one table, graph or snapshot at two moments, checked to be comparable."""

from __future__ import annotations

from collections.abc import Mapping

from snapdb.errors import BindError, Span
from snapdb.plan.fits import misfits
from snapdb.plan.moments import resolve_version
from snapdb.plan.names import find_graph, find_snapshot, find_table
from snapdb.plan.scope import Context
from snapdb.plan.versions import DiffGraphPlan, DiffSnapshotPlan, DiffTablePlan
from snapdb.sql.ast import DiffGraph, DiffSnapshot, DiffTable
from snapdb.types import PropertyGraph, Table


def bind_diff_table(statement: DiffTable, context: Context) -> DiffTablePlan:
    """The table at two versions."""
    name = statement.table.text
    first = resolve_version(context, statement.start)
    before = context.tables_at(first).get(name.lower())
    if statement.stop is None:
        last, after = context.catalog.version, context.catalog.tables.get(name.lower())
    else:
        last = resolve_version(context, statement.stop)
        after = context.tables_at(last).get(name.lower())
    if before is None and after is None:
        if not context.was_table(name):
            find_table(context, statement.table)  # says so, and knows the nearest
        raise BindError(
            f"neither version {first} nor {last} has a table {name}; SHOW VERSIONS OF {name} tells more",
            span=statement.table.span,
            code="unknown-table",
        )
    shown = after or before
    assert shown is not None
    for table in (before, after):
        if table is not None:
            context.rows(table)  # its files must be there
    return DiffTablePlan(shown.name, before, after, statement.rows)


def bind_diff_graph(statement: DiffGraph, context: Context) -> DiffGraphPlan:
    """The graph over the tables of two versions, both of which fit it."""
    graph = find_graph(context, statement.graph)
    before = resolve_version(context, statement.start)
    tables_before = context.tables_at(before)
    _check_fits(graph, before, tables_before, statement.start.span)
    if statement.stop is None:
        after, tables_after, place = context.catalog.version, context.catalog.tables, statement.graph.span
    else:
        after, place = resolve_version(context, statement.stop), statement.stop.span
        tables_after = context.tables_at(after)
    _check_fits(graph, after, tables_after, place)
    return DiffGraphPlan(graph, before, after, tables_before, tables_after, statement.detail)


def _check_fits(graph: PropertyGraph, version: int, tables: Mapping[str, Table], span: Span) -> None:
    if problem := next(misfits(graph, tables), None):
        raise BindError(
            f"version {version} does not fit graph {graph.name}: {problem}; compare versions that fit, or "
            "write DIFF TABLE for each of its tables",
            span=span,
            code="does-not-fit",
        )


def bind_diff_snapshot(statement: DiffSnapshot, context: Context) -> DiffSnapshotPlan:
    """Two snapshots with an element in common."""
    after, before = find_snapshot(context, statement.after), find_snapshot(context, statement.before)
    names = {e.name.lower() for e in after.graph.elements}
    if not any(e.name.lower() in names for e in before.graph.elements):
        there = ", ".join(e.name for e in after.graph.elements)
        raise BindError(
            f"snapshots {after.name} and {before.name} have no element in common; {after.name} has {there}",
            span=statement.before.span,
            code="nothing-in-common",
        )
    for snapshot in (after, before):
        context.views(snapshot)  # their files must be there
    return DiffSnapshotPlan(after, before, statement.detail)

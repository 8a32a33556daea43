"""SHOW, DESCRIBE and SUMMARIZE SNAPSHOT: what is listed, and what a name stands for."""

from __future__ import annotations

from snapdb.errors import SnapdbError
from snapdb.plan.moments import resolve_version
from snapdb.plan.names import find_cache, find_graph, find_sampler, find_snapshot, find_table, find_task
from snapdb.plan.plan import Plan, QueryPlan
from snapdb.plan.scope import Context
from snapdb.plan.show import DescribePlan, ShowPlan, SummarizePlan
from snapdb.sql import ast
from snapdb.types import Table


def bind_show(statement: ast.Show, context: Context) -> ShowPlan:
    """What is listed; tables are those of the version that was asked for."""
    tables: tuple[Table, ...] = tuple(context.catalog.tables.values())
    if statement.at is not None:
        tables = tuple(context.tables_at(resolve_version(context, statement.at)).values())
    return ShowPlan(statement.what, statement.like, tables, _of(statement, context))


def _of(statement: ast.Show, context: Context) -> str | None:
    """The one whose versions, columns, snapshots or runs are asked for; versions and runs outlive what they are of."""
    if statement.of is None:
        return None
    if statement.what == "SNAPSHOTS":
        return find_graph(context, statement.of).name
    if statement.what == "TASK RUNS":
        return statement.of.text if context.had_runs(statement.of.text) else find_task(context, statement.of).name
    if statement.what == "VERSIONS" and context.was_table(statement.of.text):
        return statement.of.text
    return find_table(context, statement.of).name


def bind_describe(statement: ast.Describe, context: Context) -> Plan:
    """The thing, a table as it was at the version that was asked for; without a kind, whatever has the name."""
    name = statement.name
    if statement.at is not None:
        version = resolve_version(context, statement.at)
        try:
            return DescribePlan(context.table_at(name.text, version))
        except SnapdbError as error:
            error.span = name.span
            raise
    match statement.kind or _kind(context, name.text):
        case "GRAPH":
            return DescribePlan(find_graph(context, name))
        case "SNAPSHOT":
            return DescribePlan(find_snapshot(context, name))
        case "SAMPLER":
            return DescribePlan(find_sampler(context, name))
        case "CACHE":
            return DescribePlan(find_cache(context, name))
        case "TASK":
            return DescribePlan(find_task(context, name))
        case "TABLE" if statement.kind is None:  # as DuckDB does it, which also knows data that was registered
            return QueryPlan(context.asked(ast.Island(statement.text, statement.span)))
        case _:
            return DescribePlan(find_table(context, name))


def _kind(context: Context, name: str) -> str:
    """The kind of what has the name; samplers, caches and tasks, whose names are their own, come last."""
    if (kind := context.catalog.kind_of(name)) is not None:
        return kind.upper()
    registered = name.lower() in {source.lower() for source in context.sources}
    catalog = context.catalog
    own = {"SAMPLER": catalog.samplers, "CACHE": catalog.caches, "TASK": catalog.tasks}
    found = (kind for kind, known in own.items() if name.lower() in known and not registered)
    return next(found, "TABLE")


def bind_summarize(statement: ast.Summarize, context: Context) -> SummarizePlan:
    """The snapshot."""
    return SummarizePlan(find_snapshot(context, statement.name))

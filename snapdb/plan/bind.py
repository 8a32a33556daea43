"""From a statement to a plan: every name is looked up, every type checked, before anything is done."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from snapdb.errors import BindError, SnapdbError
from snapdb.plan.bind_change import bind_alter, bind_delete, bind_update
from snapdb.plan.bind_copy import bind_copy
from snapdb.plan.bind_graph import bind_create_graph
from snapdb.plan.bind_sample import bind_sample
from snapdb.plan.bind_snapshot import bind_create_snapshot
from snapdb.plan.bind_table import bind_create_table, bind_insert
from snapdb.plan.bind_version import bind_create_tag, bind_diff_table, bind_show, bind_vacuum, find_tag
from snapdb.plan.logical import (
    BeginPlan,
    CheckPlan,
    CommitPlan,
    DescribePlan,
    DropPlan,
    NothingPlan,
    Plan,
    QueryPlan,
    RollbackPlan,
)
from snapdb.plan.moments import resolve_version
from snapdb.plan.names import find_graph, find_snapshot, find_table
from snapdb.plan.scope import Context
from snapdb.sql import ast
from snapdb.types import PropertyGraph, Snapshot, Table, Tag

__all__ = ["bind"]


def bind(statement: ast.Statement, context: Context) -> Plan:
    """The plan of a statement.

    Raises:
        BindError: a name, type or clause does not fit; it carries its place in the text.
    """
    try:
        return _BINDERS[type(statement)](statement, context)
    except SnapdbError as error:
        raise error.located(statement.source) from error.__cause__


def _bind_describe(statement: ast.Describe, context: Context) -> DescribePlan:
    kind, name = statement.kind, statement.name
    if statement.at is None:
        target = _find(context, kind, name)
        assert not isinstance(target, Tag)
        return DescribePlan(target)
    version = resolve_version(context, statement.at)
    try:
        return DescribePlan(context.table_at(name.text, version))
    except SnapdbError as error:
        error.span = name.span
        raise


def _bind_drop(statement: ast.Drop, context: Context) -> Plan:
    kind, name = statement.kind.lower(), statement.name
    try:
        target = _find(context, statement.kind, name)
    except BindError as error:
        if statement.if_exists and error.code == f"unknown-{kind}":
            return NothingPlan(f'there is no {kind} "{name}"')
        raise
    if users := _users(context, target):
        raise BindError(f"{kind} {target.name} is used by {', '.join(users)}; drop what uses it first",
                        span=name.span, code="used")  # fmt: skip
    return DropPlan(target, context.catalog.version)


def _users(context: Context, target: Table | PropertyGraph | Snapshot | Tag) -> list[str]:
    """What depends on a thing, each by its kind and name."""
    graphs, snapshots = context.catalog.graphs.values(), context.catalog.snapshots.values()
    match target:
        case Table():
            tables = {g.name: {e.table.lower() for e in g.elements} for g in graphs}
            return [f"graph {name}" for name, used in tables.items() if target.name.lower() in used]
        case PropertyGraph():
            return [f"snapshot {s.name}" for s in snapshots if s.graph.name == target.name]
        case Snapshot() | Tag():
            return []


def _find(context: Context, kind: ast.Kind, name: ast.Name) -> Table | PropertyGraph | Snapshot | Tag:
    match kind:
        case "TABLE":
            return find_table(context, name)
        case "GRAPH":
            return find_graph(context, name)
        case "SNAPSHOT":
            return find_snapshot(context, name)
        case "TAG":
            return find_tag(context, name)


_BINDERS: dict[type[ast.Statement], Callable[[Any, Context], Plan]] = {
    ast.Query: lambda statement, context: QueryPlan(context.asked(statement.query)),
    ast.CreateTable: bind_create_table,
    ast.CopyFrom: bind_copy,
    ast.Insert: bind_insert,
    ast.Delete: bind_delete,
    ast.Update: bind_update,
    ast.AlterTable: bind_alter,
    ast.CreateGraph: bind_create_graph,
    ast.CreateSnapshot: bind_create_snapshot,
    ast.Sample: bind_sample,
    ast.Show: bind_show,
    ast.Describe: _bind_describe,
    ast.Drop: _bind_drop,
    ast.CreateTag: bind_create_tag,
    ast.DiffTable: bind_diff_table,
    ast.Begin: lambda statement, context: BeginPlan(),
    ast.Commit: lambda statement, context: CommitPlan(statement.message),
    ast.Rollback: lambda statement, context: RollbackPlan(),
    ast.CheckDatabase: lambda statement, context: CheckPlan(),
    ast.Vacuum: bind_vacuum,
}
"""Which binder reads which statement."""

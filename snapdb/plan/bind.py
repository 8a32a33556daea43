"""From a statement to a plan: every name is looked up, every type checked, before anything is done."""

from __future__ import annotations

from snapdb.errors import BindError, SnapdbError
from snapdb.plan.bind_graph import bind_create_graph
from snapdb.plan.bind_sample import bind_sample
from snapdb.plan.bind_snapshot import bind_create_snapshot
from snapdb.plan.bind_table import bind_copy, bind_create_table, bind_delete, bind_insert
from snapdb.plan.logical import DescribePlan, DropPlan, NothingPlan, Plan, QueryPlan, ShowPlan
from snapdb.plan.names import find_graph, find_snapshot, find_table
from snapdb.plan.scope import Context
from snapdb.sql import ast
from snapdb.types import PropertyGraph, Snapshot, Table

__all__ = ["bind"]


def bind(statement: ast.Statement, context: Context) -> Plan:
    """The plan of a statement.

    Raises:
        BindError: a name, type or clause does not fit; it carries its place in the text.
    """
    try:
        return _bind(statement, context)
    except SnapdbError as error:
        raise error.located(statement.source) from error.__cause__


def _bind(statement: ast.Statement, context: Context) -> Plan:
    match statement:
        case ast.Query(query=query):
            return QueryPlan(context.asked(query))
        case ast.CreateTable():
            return bind_create_table(statement, context)
        case ast.CopyFrom():
            return bind_copy(statement, context)
        case ast.Insert():
            return bind_insert(statement, context)
        case ast.Delete():
            return bind_delete(statement, context)
        case ast.CreateGraph():
            return bind_create_graph(statement, context)
        case ast.CreateSnapshot():
            return bind_create_snapshot(statement, context)
        case ast.Sample():
            return bind_sample(statement, context)
        case ast.Show(what=what, like=like):
            return ShowPlan(what, like)
        case ast.Describe(kind=kind, name=name):
            return DescribePlan(kind, _find(context, kind, name).name)
        case ast.Drop():
            return _bind_drop(statement, context)
    raise AssertionError(f"no binder for {type(statement).__name__}")


def _bind_drop(statement: ast.Drop, context: Context) -> Plan:
    kind, name = statement.kind.lower(), statement.name
    if statement.if_exists and context.catalog.kind_of(name.text) != kind:
        return NothingPlan(f'there is no {kind} "{name}"')
    target = _find(context, statement.kind, name)
    if users := _users(context, target):
        raise BindError(f"{kind} {target.name} is used by {', '.join(users)}; drop what uses it first",
                        span=name.span, code="used")  # fmt: skip
    return DropPlan(target, context.catalog.version)


def _users(context: Context, target: Table | PropertyGraph | Snapshot) -> list[str]:
    """What depends on a thing, each by its kind and name."""
    graphs, snapshots = context.catalog.graphs.values(), context.catalog.snapshots.values()
    match target:
        case Table():
            tables = {g.name: {e.table.lower() for e in g.elements} for g in graphs}
            return [f"graph {name}" for name, used in tables.items() if target.name.lower() in used]
        case PropertyGraph():
            return [f"snapshot {s.name}" for s in snapshots if s.graph.name == target.name]
        case Snapshot():
            return []


def _find(context: Context, kind: ast.Kind, name: ast.Name) -> Table | PropertyGraph | Snapshot:
    match kind:
        case "TABLE":
            return find_table(context, name)
        case "GRAPH":
            return find_graph(context, name)
        case "SNAPSHOT":
            return find_snapshot(context, name)

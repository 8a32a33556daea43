"""DROP and DESCRIBE: one thing by its kind and name, and what depends on it."""

from __future__ import annotations

from collections.abc import Sequence

from snapdb.errors import BindError, SnapdbError
from snapdb.plan.bind_version import find_tag
from snapdb.plan.logical import DescribePlan, DropPlan, NothingPlan, Plan
from snapdb.plan.moments import resolve_version
from snapdb.plan.names import find_graph, find_snapshot, find_table, tables_of
from snapdb.plan.scope import Context
from snapdb.sql import ast
from snapdb.types import PropertyGraph, Snapshot, Table, Tag

__all__ = ["bind_describe", "bind_drop"]

_NAMED = 8
"""How many dependants a refusal names."""


def bind_describe(statement: ast.Describe, context: Context) -> DescribePlan:
    """The thing, a table as it was at the version that was asked for."""
    name = statement.name
    if statement.at is None:
        target = _find(context, statement.kind, name)
        assert not isinstance(target, Tag)
        return DescribePlan(target)
    version = resolve_version(context, statement.at)
    try:
        return DescribePlan(context.table_at(name.text, version))
    except SnapdbError as error:
        error.span = name.span
        raise


def bind_drop(statement: ast.Drop, context: Context) -> Plan:
    """The thing that goes, and with CASCADE what depends on it."""
    kind, name = statement.kind.lower(), statement.name
    try:
        target = _find(context, statement.kind, name)
    except BindError as error:
        if statement.if_exists and error.code == f"unknown-{kind}":
            return NothingPlan(f'there is no {kind} "{name}"')
        raise
    dependants = _dependants(context, target)
    if dependants and not statement.cascade:
        way = "drop them first" if len(dependants) > 1 else "drop it first"
        raise BindError(f"{kind} {target.name} is used by {_listed(dependants)}; {way}, or write DROP {statement.kind} "
                        f"{target.name} CASCADE",
                        span=name.span, code="used")  # fmt: skip
    return DropPlan(target, context.catalog.version, dependants)


def _dependants(
    context: Context, target: Table | PropertyGraph | Snapshot | Tag
) -> tuple[PropertyGraph | Snapshot, ...]:
    """What depends on a thing: snapshots, then the graphs that they are of."""
    match target:
        case Table():
            graphs = [g for g in context.catalog.graphs.values() if target.name.lower() in tables_of(g)]
            return (*_snapshots_of(context, graphs), *graphs)
        case PropertyGraph():
            return _snapshots_of(context, [target])
        case Snapshot() | Tag():
            return ()


def _snapshots_of(context: Context, graphs: Sequence[PropertyGraph]) -> tuple[Snapshot, ...]:
    names = {graph.name.lower() for graph in graphs}
    return tuple(s for s in context.catalog.snapshots.values() if s.graph.name.lower() in names)


def _listed(dependants: Sequence[PropertyGraph | Snapshot]) -> str:
    """The first of them by kind and name, graphs before snapshots, and how many more there are."""
    named = [f"{'graph' if isinstance(d, PropertyGraph) else 'snapshot'} {d.name}" for d in dependants]
    named.sort(key=lambda said: said.startswith("snapshot"))
    more = [f"{len(named) - _NAMED} more"] if len(named) > _NAMED else []
    return ", ".join([*named[:_NAMED], *more])


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

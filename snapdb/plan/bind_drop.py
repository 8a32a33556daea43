"""DROP: one thing by its kind and name, and what depends on it."""

from __future__ import annotations

from collections.abc import Sequence

from snapdb.errors import BindError
from snapdb.plan.bind_version import find_tag
from snapdb.plan.names import find_cache, find_graph, find_sampler, find_snapshot, find_table, find_task, tables_of
from snapdb.plan.plan import NothingPlan, Plan
from snapdb.plan.scope import Context
from snapdb.plan.show import DropPlan
from snapdb.sql import ast
from snapdb.types import Cache, PropertyGraph, Sampler, Snapshot, Table, Tag, Task

_NAMED = 8
"""How many dependants a refusal names."""
KINDS: dict[type, str] = {PropertyGraph: "graph", Snapshot: "snapshot", Sampler: "sampler", Cache: "cache"}
"""What each dependant is called, in the order in which they are named."""


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
        raise BindError(
            f"{kind} {target.name} is used by {_listed(dependants)}; {way}, or write DROP {statement.kind} "
            f"{target.name} CASCADE",
            span=name.span,
            code="in-use",
        )
    return DropPlan(target, context.catalog.version, dependants)


def _dependants(
    context: Context, target: Table | PropertyGraph | Snapshot | Sampler | Cache | Task | Tag
) -> tuple[PropertyGraph | Snapshot | Sampler | Cache, ...]:
    """What depends on a thing: caches, then the samplers, snapshots and graphs, each of the next, that they are of."""
    match target:
        case Table():
            graphs = [g for g in context.catalog.graphs.values() if target.name.lower() in tables_of(g)]
            return (*_snapshots_of(context, graphs), *graphs)
        case PropertyGraph():
            return _snapshots_of(context, [target])
        case Snapshot():
            return _samplers_of(context, [target])
        case Sampler():
            return _caches_of(context, [target])
        case Cache() | Task() | Tag():
            return ()


def _snapshots_of(context: Context, graphs: Sequence[PropertyGraph]) -> tuple[Snapshot | Sampler | Cache, ...]:
    names = {graph.name.lower() for graph in graphs}
    snapshots = [s for s in context.catalog.snapshots.values() if s.graph.name.lower() in names]
    return (*_samplers_of(context, snapshots), *snapshots)


def _samplers_of(context: Context, snapshots: Sequence[Snapshot]) -> tuple[Sampler | Cache, ...]:
    names = {snapshot.name.lower() for snapshot in snapshots}
    samplers = [s for s in context.catalog.samplers.values() if s.snapshot.lower() in names]
    return (*_caches_of(context, samplers), *samplers)


def _caches_of(context: Context, samplers: Sequence[Sampler]) -> tuple[Cache, ...]:
    names = {sampler.name.lower() for sampler in samplers}
    return tuple(c for c in context.catalog.caches.values() if c.sampler.lower() in names)


def _listed(dependants: Sequence[PropertyGraph | Snapshot | Sampler | Cache]) -> str:
    """The first of them by kind and name, graphs first and caches last, and how many more there are."""
    order = list(KINDS)
    named = [f"{KINDS[type(d)]} {d.name}" for d in sorted(dependants, key=lambda d: order.index(type(d)))]
    more = [f"{len(named) - _NAMED} more"] if len(named) > _NAMED else []
    return ", ".join([*named[:_NAMED], *more])


def _find(
    context: Context, kind: ast.Kind, name: ast.Name
) -> Table | PropertyGraph | Snapshot | Sampler | Cache | Task | Tag:
    match kind:
        case "TABLE":
            return find_table(context, name)
        case "GRAPH":
            return find_graph(context, name)
        case "SNAPSHOT":
            return find_snapshot(context, name)
        case "SAMPLER":
            return find_sampler(context, name)
        case "TAG":
            return find_tag(context, name)
        case "CACHE":
            return find_cache(context, name)
        case "TASK":
            return find_task(context, name)

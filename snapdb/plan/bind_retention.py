"""ALTER PROPERTY GRAPH … SET and DROP RETENTION: how long which snapshots of a graph are to stay."""

from __future__ import annotations

from snapdb.errors import BindError
from snapdb.plan.lengths import period_of_text
from snapdb.plan.maintenance import SetRetentionPlan
from snapdb.plan.names import find_graph
from snapdb.plan.scope import Context
from snapdb.relational import quote_odd
from snapdb.sql.ast import DropRetention, Name, RetentionRule, SetRetention
from snapdb.types import PropertyGraph, Retention, Rule


def bind_retention(statement: SetRetention | DropRetention, context: Context) -> SetRetentionPlan:
    """The plan of setting a retention, or of dropping the one that is there."""
    if isinstance(statement, DropRetention):
        graph, _ = find_retention(context, statement.graph)
        return SetRetentionPlan(graph, None, dry_run=False)
    graph = find_graph(context, statement.graph)
    rules = tuple(_rule(context, rule) for rule in statement.rules)
    return SetRetentionPlan(graph, Retention(rules, statement.keep_tagged), statement.dry_run)


def find_retention(context: Context, name: Name) -> tuple[PropertyGraph, Retention]:
    """The graph of that name and its retention, or BindError at its place."""
    graph = find_graph(context, name)
    if (retention := context.catalog.retentions.get(graph.name.lower())) is None:
        way = f"ALTER PROPERTY GRAPH {quote_odd(graph.name)} SET RETENTION (all '3 days', daily '30 days') sets one"
        raise BindError(
            f"graph {graph.name} has no retention: its snapshots stay until they are dropped; {way}",
            span=name.span,
            code="no-retention",
        )
    return graph, retention


def _rule(context: Context, rule: RetentionRule) -> Rule:
    length = period_of_text(context, rule.length, rule.span)
    if length is None:
        raise BindError(
            f"{rule.keeps} takes a length of time greater than zero, with no part below it, found "
            f"'{rule.length[:40]}'; write one such as '7 days'",
            span=rule.span,
            code="bad-length",
        )
    return Rule(rule.keeps, length, rule.length)

"""SAMPLE: the snapshot, the seed type, and every fanout resolved to edge types and directions."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from snapdb.errors import BindError, Span
from snapdb.plan.asked import Asked
from snapdb.plan.logical import SamplePlan
from snapdb.plan.names import find_snapshot
from snapdb.plan.repeatable import check_repeatable
from snapdb.plan.scope import Context
from snapdb.relational import Names, quote
from snapdb.relational.sources import as_arrow
from snapdb.sql import parse
from snapdb.sql.ast import FanoutClause, Query, Sample
from snapdb.types import FULL, Fanout, SampleSpec, Snapshot
from snapdb.types.suggest import did_you_mean

__all__ = ["bind_sample", "with_seeds"]


def bind_sample(statement: Sample, context: Context) -> SamplePlan:
    """A sampler whose names are those of its snapshot."""
    snapshot = find_snapshot(context, statement.snapshot)
    seed_type = snapshot.graph.vertex(statement.seed_type.text)
    if seed_type is None:
        known = [v.name for v in snapshot.graph.vertices]
        hint = did_you_mean(statement.seed_type.text, known) or f"; it has {', '.join(known)}"
        raise BindError(f'no vertex type "{statement.seed_type}" in snapshot {snapshot.name}{hint}',
                        span=statement.seed_type.span, code="unknown-type")  # fmt: skip
    if statement.batch < 1:
        raise BindError(f"BATCH needs at least 1, found {statement.batch}", span=statement.batch_span)
    if not 0 <= statement.repeatable < 2**64:
        raise BindError("REPEATABLE takes a number from 0 to 2^64 - 1", span=statement.repeatable_span)
    if statement.epochs < 1:
        raise BindError(f"EPOCHS needs at least 1, found {statement.epochs}", span=statement.span)
    spec = SampleSpec(
        snapshot=snapshot.name,
        seed_type=seed_type.name,
        seed_query=statement.seeds.text,
        fanouts=_fanouts(statement, snapshot, context),
        batch_size=statement.batch,
        seed=statement.repeatable,
        order=statement.order,
        text=statement.text,
    )
    seeds = context.asked(statement.seeds, first=snapshot)
    with context.session(seeds) as session:
        check_repeatable(session, statement.seeds, "a sampler's seeds must be repeatable")
        session.describe(seeds.text, seeds.parameters)
    return SamplePlan(spec, snapshot, seeds, statement.epochs)


def with_seeds(context: Context, plan: SamplePlan, seeds: Any) -> SamplePlan:
    """The same sampler with seeds from outside its statement: a SELECT, or ids as a tensor, array, list or Arrow."""
    if isinstance(seeds, str):
        (query, *more) = parse(seeds) or (None,)
        if not isinstance(query, Query) or more:
            raise BindError("seeds takes one SELECT, or ids", text=seeds, span=Span(0, len(seeds.rstrip()) or 1))
        asked = context.asked(query.query, first=plan.snapshot)
        with context.session(asked) as session:
            check_repeatable(session, query.query, "a sampler's seeds must be repeatable")
        return replace(plan, seeds=replace(asked, pieces=()))
    table = as_arrow(seeds)
    name = "snapdb seeds given"
    columns = ", ".join(quote(c) for c in table.column_names)
    query_text = f"SELECT {columns} FROM {quote(name)}"
    return replace(plan, seeds=Asked(query_text, Span(0, 0), Names(sources={name: table})))


def _fanouts(statement: Sample, snapshot: Snapshot, context: Context) -> tuple[Fanout, ...]:
    """One fanout for each edge type and direction, DEFAULT spread over the types that are not named."""
    lengths = {len(clause.counts) for clause in statement.fanouts}
    found: dict[tuple[str, str], Fanout] = {}
    default: FanoutClause | None = None
    for clause in statement.fanouts:
        _check_counts(clause, lengths, statement)
        if clause.edge is None:
            if default is not None:
                raise BindError("DEFAULT is given twice", span=clause.span)
            default = clause
            continue
        edge = snapshot.graph.edge(clause.edge.text)
        if edge is None:
            raise BindError(_no_edge(clause.edge.text, snapshot, context), span=clause.edge.span, code="unknown-type")
        directions = {d for name, d in found if name == edge.name}
        if clause.direction in directions or (directions and "BOTH" in (*directions, clause.direction)):
            raise BindError(f"{edge.name} has this direction already", span=clause.span)
        found[edge.name, clause.direction] = Fanout(edge.type, clause.direction, clause.counts)
    if default is not None:
        named = {name for name, _ in found}
        rest = [e for e in snapshot.graph.edges if e.name not in named]
        found |= {(e.name, "IN"): Fanout(e.type, "IN", default.counts) for e in rest}
    return tuple(found.values())


def _no_edge(name: str, snapshot: Snapshot, context: Context) -> str:
    graph = context.catalog.graphs.get(snapshot.graph.name.lower())
    if graph is not None and graph.edge(name) is not None:
        return f'snapshot {snapshot.name} leaves out edge type "{name}" of graph {graph.name}; sample another snapshot'
    known = [e.name for e in snapshot.graph.edges]
    hint = did_you_mean(name, known) or (f"; it has {', '.join(known)}" if known else "; it has none")
    return f'no edge type "{name}" in graph {snapshot.graph.name}{hint}'


def _check_counts(clause: FanoutClause, lengths: set[int], statement: Sample) -> None:
    if len(lengths) > 1:
        raise BindError(f"every fanout needs one number for each hop; found lists of {_and(lengths)}",
                        span=statement.fanout_span)  # fmt: skip
    for count in clause.counts:
        if count < 0 and count != FULL:
            raise BindError(f"a fanout is 0 or more, or FULL (-1); found {count}", span=clause.span)
        if count >= 2**31:
            raise BindError(f"a fanout of {count} is too large; say FULL for every neighbour", span=clause.span)


def _and(numbers: set[int]) -> str:
    return " and ".join(map(str, sorted(numbers)))

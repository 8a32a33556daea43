"""Clauses of WALK: LENGTH and PER SEED, the metapath, RETURN and INOUT, RESTART, TIME RESPECTING, WINDOW, NEGATIVES."""

from collections.abc import Iterator, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import NamedTuple

from snapdb.errors import BindError, Span
from snapdb.plan.names import find_edge_type
from snapdb.plan.samples.clauses import bind_weights
from snapdb.plan.scope import BindContext
from snapdb.sql.samples import Sample
from snapdb.sql.syntax import Spanned
from snapdb.sql.walk_clauses import StepClause, WalkClauses
from snapdb.sql_engine import quote_odd
from snapdb.types import Drawing, EdgeElement, Fanout, Relation, Snapshot
from snapdb.types.sampling import RandomWalk
from snapdb.types.text import counted

_MOST_STEPS = 1_000_000
"""The maximum of LENGTH. A batch contains every vertex of its walks."""
_MOST_WALKS = 1_000_000
"""The maximum of PER SEED, and of NEGATIVES."""
_LEAST_BIAS, _MOST_BIAS = Decimal("0.001"), Decimal(1000)
"""The range of RETURN and INOUT. It bounds the expected number of draws per step of a walk of the second order."""
_MOST_PLACES = 6
"""The maximum number of decimal places of RETURN, INOUT and RESTART. The weights of steps then fit into 64 bits."""


class WalkBinding(NamedTuple):
    """The clauses of WALK with their names resolved."""

    walk: RandomWalk
    fanouts: tuple[Fanout, ...]
    """Each relation of the metapath once, with count 1."""
    drawing: Drawing


def bind_walk(
    statement: Sample, clauses: WalkClauses, seed_type: str, snapshot: Snapshot, context: BindContext, hops: int = 1
) -> WalkBinding:
    """Bind the clauses of walks, and the weights of their steps.

    Args:
        statement: The statement.
        clauses: The clauses of WALK, or of FANOUT (BY WALKS …).
        seed_type: The vertex type from which walks start.
        snapshot: The snapshot.
        context: The catalog and the tables.
        hops: The number of hops at which nodes have walks.

    Raises:
        BindError: A name does not exist, the metapath does not chain, a number is out of range, or clauses contradict
            each other.
    """
    assert clauses.length is not None, "the parser wants LENGTH"
    ids = statement.clauses.ids
    if statement.visits is None and ids is not None and ids.value != "int64":
        raise _clash(f"walks have int64 ids; leave WITH (ids = '{ids.value}') out", ids.span)
    length = _whole(clauses.length, "LENGTH", 1, _MOST_STEPS)
    steps = _metapath(statement, clauses, snapshot, context, seed_type, length)
    names = {step.edge.edge for step in steps}
    walked = [edge for edge in snapshot.graph.edges if edge.name in names]
    _check_times(statement, clauses, walked)
    word = "PER SEED" if statement.visits is None else "BY WALKS"
    walk = RandomWalk(
        length=length,
        steps=steps,
        per_seed=1 if clauses.per_seed is None else _whole(clauses.per_seed, word, 1, _MOST_WALKS),
        back=_bias(clauses.back, "RETURN", steps),
        inout=_bias(clauses.inout, "INOUT", steps),
        restart=_restart(clauses, seed_type, steps),
        clock="any" if clauses.clock is None else clauses.clock.clock,
        strict=clauses.clock is not None and clauses.clock.strict,
        window=None if clauses.window is None else _whole(clauses.window, "WINDOW", 1, _MOST_STEPS),
        negatives=_negatives(clauses),
    )
    weights = bind_weights(statement, snapshot, walked, context, context.tables_under(snapshot))
    drawing = Drawing(replace=True, weights=tuple(weights.items()), weighted=statement.clauses.weights is not None)
    fanouts = tuple(Fanout(step.edge, step.direction, (1,) * hops) for step in dict.fromkeys(steps))
    return WalkBinding(walk, fanouts, drawing)


def _metapath(
    statement: Sample, clauses: WalkClauses, snapshot: Snapshot, context: BindContext, seed_type: str, length: int
) -> tuple[Relation, ...]:
    """Return the relations of ALONG, or the only relation that leads from the seeds in the direction."""
    if clauses.along is None:
        return (_only_relation(statement, clauses, snapshot, seed_type),)
    if clauses.direction is not None:
        raise _clash(
            "DIRECTION applies to walks without ALONG; leave it out, and write the direction after each edge type",
            clauses.direction.span,
        )
    items = clauses.along.value
    steps = tuple(_relation(item, find_edge_type(context, snapshot, item.edge)) for item in items)
    _check_chain(items, steps, seed_type, length, clauses.along.span)
    return steps


def _relation(item: StepClause, edge: EdgeElement) -> Relation:
    if item.direction == "BOTH" and edge.source != edge.destination:
        raise BindError(
            f"{edge.name} connects {edge.source} to {edge.destination}; BOTH needs an edge type between vertices of "
            "one type, write OUT or IN",
            span=item.span,
            code="metapath",
        )
    return Relation(edge.type, item.direction)


def _check_chain(
    items: Sequence[StepClause], steps: Sequence[Relation], seed_type: str, length: int, whole: Span
) -> None:
    """Raise an error unless each step begins at the vertex type that the previous one reaches."""
    at, before = seed_type, "the seeds are"
    for item, step in zip(items, steps, strict=True):
        if step.expands != at:
            raise _broken(item.span, step, f"{before} {at}")
        at, before = step.reaches, f"{step.edge.edge} {step.direction} reaches"
    # The metapath repeats if the walk is longer.
    if length > len(steps) and at != steps[0].expands:
        raise BindError(
            f"the metapath repeats, because LENGTH {length} is more than its {counted(len(steps), 'step')}, but it "
            f"begins at {steps[0].expands} and ends at {at}; add the steps back to {steps[0].expands}, or write LENGTH "
            f"{len(steps)}",
            span=whole,
            code="metapath",
        )


def _broken(span: Span, step: Relation, at: str) -> BindError:
    turned = {"OUT": "IN", "IN": "OUT"}.get(step.direction)
    way = (
        f"; write {quote_odd(step.edge.edge)} {turned}" if turned and at.rsplit(maxsplit=1)[-1] == step.reaches else ""
    )
    return BindError(
        f"{step.edge.edge} {step.direction} begins at {step.expands}, but {at}{way or '; write another edge type'}",
        span=span,
        code="metapath",
    )


def _only_relation(statement: Sample, clauses: WalkClauses, snapshot: Snapshot, seed_type: str) -> Relation:
    """Return the relation of a walk without ALONG."""
    direction = "OUT" if clauses.direction is None else clauses.direction.value
    relations = [Relation(edge.type, direction) for edge in snapshot.graph.edges]
    leaving = [step for step in relations if step.expands == seed_type and _fits(step)]
    if len(leaving) != 1:
        names = ", ".join(_along(snapshot, seed_type))
        what = f"{len(leaving)} edge types lead from {seed_type}" if leaving else f"no edge type leads from {seed_type}"
        raise BindError(
            f"{what} in direction {direction}; write the steps with ALONG, such as ALONG (edge_type OUT); the edge "
            f"types at {seed_type} are {names or 'none'}",
            span=statement.seeds.span if clauses.direction is None else clauses.direction.span,
            code="needs-along",
        )
    (step,) = leaving
    if clauses.length is not None and clauses.length.value > 1 and step.reaches != seed_type:
        raise BindError(
            f"{step.edge.edge} {direction} leads from {seed_type} to {step.reaches}, so a walk of LENGTH "
            f"{clauses.length.value} needs the steps back; write ALONG ({quote_odd(step.edge.edge)} {direction}, …)",
            span=clauses.length.span,
            code="needs-along",
        )
    return step


def _fits(step: Relation) -> bool:
    return step.direction != "BOTH" or step.edge.source == step.edge.destination


def _along(snapshot: Snapshot, seed_type: str) -> Iterator[str]:
    """Yield the possible first items of ALONG."""
    for edge in snapshot.graph.edges:
        if edge.source == seed_type:
            yield f"{edge.name} OUT"
        if edge.destination == seed_type:
            yield f"{edge.name} IN"


def _check_times(statement: Sample, clauses: WalkClauses, walked: Sequence[EdgeElement]) -> None:
    """Raise an error if TIME RESPECTING has no event times to respect."""
    if clauses.clock is not None and not any(edge.event_time for edge in walked):
        names = ", ".join(edge.name for edge in walked)
        raise BindError(
            f"TIME RESPECTING needs event times, but no edge type of the walk ({names}) has an EVENT TIME; leave it "
            "out, or declare EVENT TIME in the graph",
            span=clauses.clock.span,
            code="needs-event-time",
        )


def _bias(clause: Spanned[Decimal] | None, name: str, steps: Sequence[Relation]) -> Fraction:
    """Return RETURN or INOUT as a fraction. Both need one relation between vertices of one type."""
    if clause is None:
        return Fraction(1)
    relations = set(steps)
    if len(relations) > 1:
        raise _clash(
            f"{name} weighs the neighbours of the previous vertex in one edge type, but the walk has {len(relations)}: "
            f"{', '.join(f'{step.edge.edge} {step.direction}' for step in dict.fromkeys(steps))}; leave it out",
            clause.span,
        )
    if steps[0].expands != steps[0].reaches:
        raise _clash(
            f"{name} needs an edge type between vertices of one type, but {steps[0].edge.edge} connects "
            f"{steps[0].edge.source} to {steps[0].edge.destination}; leave it out",
            clause.span,
        )
    if not _LEAST_BIAS <= clause.value <= _MOST_BIAS:
        raise _outside(f"{name} must be from {_LEAST_BIAS} to {_MOST_BIAS}, found {clause.value}", clause.span)
    return _exact(clause, name)


def _restart(clauses: WalkClauses, seed_type: str, steps: Sequence[Relation]) -> Fraction:
    clause = clauses.restart
    if clause is None:
        return Fraction(0)
    if not 0 <= clause.value < 1:
        raise _outside(f"RESTART must be at least 0 and less than 1, found {clause.value}", clause.span)
    if seed_type not in {step.reaches for step in steps}:
        raise _clash(
            f"RESTART replaces a step that reaches {seed_type}, the type of the seeds, but no step of the walk does; "
            "leave it out",
            clause.span,
        )
    return _exact(clause, "RESTART")


def _negatives(clauses: WalkClauses) -> int:
    clause = clauses.contrasts
    if clause is None:
        return 0
    if clauses.window is None:
        raise BindError(
            "NEGATIVES of a walk are random vertices for each skip-gram pair, which need WINDOW; add WINDOW 5, or "
            "leave it out",
            span=clause.span,
            code="needs-window",
        )
    return _whole(clause, "NEGATIVES", 1, _MOST_WALKS)


def _exact(clause: Spanned[Decimal], name: str) -> Fraction:
    exponent = clause.value.as_tuple().exponent
    if not isinstance(exponent, int) or exponent < -_MOST_PLACES:
        raise _outside(f"{name} must have at most {_MOST_PLACES} decimal places, found {clause.value}", clause.span)
    return Fraction(clause.value)


def _whole(clause: Spanned[int], name: str, least: int, most: int) -> int:
    if not least <= clause.value <= most:
        raise _outside(f"{name} must be from {least} to {most:,}, found {clause.value}", clause.span)
    return clause.value


def _clash(message: str, span: Span) -> BindError:
    return BindError(message, span=span, code="clauses-clash")


def _outside(message: str, span: Span) -> BindError:
    return BindError(message, span=span, code="out-of-range")

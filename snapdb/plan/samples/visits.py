"""The binder of FANOUT (BY WALKS …)."""

from typing import NamedTuple

from snapdb.errors import BindError, Span
from snapdb.plan.samples.walk_clauses import bind_walk
from snapdb.plan.scope import BindContext
from snapdb.sql.samples import Sample
from snapdb.sql.walk_clauses import VisitsClause
from snapdb.types import Drawing, Fanout, Link, Snapshot, Visits

_MOST_NEIGHBORS = 10_000
"""The maximum of TOP."""
_MOST_VISITS = 1_000_000
"""The maximum number of steps of a node's walks, whose visits are sorted together."""


class VisitsBinding(NamedTuple):
    """FANOUT (BY WALKS …) with its names resolved."""

    visits: Visits
    fanouts: tuple[Fanout, ...]
    """Each relation of the metapath once, with count 1 for each hop."""
    drawing: Drawing


def bind_visits(
    statement: Sample, clause: VisitsClause, seed_type: str, link: Link | None, snapshot: Snapshot, context: BindContext
) -> VisitsBinding:
    """Bind FANOUT (BY WALKS …), and the weights of the walks' steps.

    Raises:
        BindError: The errors of `bind_walk`, or a clause has no meaning for neighbours that are visited by walks.
    """
    _check_clauses(statement, link)
    bound = bind_walk(statement, clause.walk, seed_type, snapshot, context, hops=len(clause.tops))
    walk = bound.walk
    if walk.per_seed * walk.length > _MOST_VISITS:
        raise _outside(
            f"{walk.per_seed:,} walks of {walk.length:,} steps are more than {_MOST_VISITS:,} steps for each node; "
            "make them fewer or shorter",
            clause.span,
        )
    for top in clause.tops:
        if not 1 <= top <= _MOST_NEIGHBORS:
            raise _outside(f"TOP must be from 1 to {_MOST_NEIGHBORS:,}, found {top}", clause.span)
    if seed_type not in walk.vertex_types[1:]:
        raise BindError(
            f"the neighbours are the vertices of type {seed_type} that walks visit, but no step of these walks reaches "
            f"one; increase LENGTH, or add steps that lead back to {seed_type}",
            span=clause.span,
            code="metapath",
        )
    return VisitsBinding(Visits(walk, clause.tops), bound.fanouts, bound.drawing)


def _check_clauses(statement: Sample, link: Link | None) -> None:
    """Raise an error for clauses that choose among the edges of a node."""
    clauses = statement.clauses
    for clause, name in (
        (clauses.method, "METHOD"),
        (clauses.replace, "WITH REPLACEMENT"),
        (clauses.refresh, "REFRESH"),
    ):
        if clause is not None:
            raise BindError(
                f"{name} applies to neighbours that are drawn among a node's edges, but BY WALKS takes the vertices "
                f"that walks visit most; leave {name} out",
                span=clause.span,
                code="clauses-clash",
            )
    if link is not None and link.exclude != "NONE":
        raise BindError(
            "walks cannot avoid the seed edges of a batch; write KEEP SEEDS",
            span=statement.seeds.span if clauses.exclude is None else clauses.exclude.span,
            code="clauses-clash",
        )


def _outside(message: str, span: Span) -> BindError:
    return BindError(message, span=span, code="out-of-range")

"""SEEDS EDGES: seeds that are edges, the negatives drawn for them, and the edges that must not give them away."""

from __future__ import annotations

from collections.abc import Mapping

from snapdb.errors import BindError, Span
from snapdb.plan.bind_methods import find_weight
from snapdb.plan.names import find_edge_type
from snapdb.plan.scope import Context
from snapdb.sql.ast import Clauses, Sample
from snapdb.types import EdgeElement, EdgeType, Link, Negatives, Snapshot, Table

_MOST = 1_000_000
"""Negatives of a positive: a batch has a table of all of them."""


def bind_link(statement: Sample, snapshot: Snapshot, context: Context, tables: Mapping[str, Table]) -> Link | None:
    """What seed edges bring with them; None: the seeds are vertices.

    Raises:
        BindError: an edge type or column that is not there, or a clause of seed edges without them.
    """
    clauses = statement.clauses
    negatives, known, exclude = clauses.negatives, clauses.known, clauses.exclude
    if not statement.seeds.edges:
        excluding = "KEEP SEEDS" if exclude is not None and exclude.value == "NONE" else "EXCLUDE SEEDS"
        for clause, keyword in ((negatives, "NEGATIVES"), (known, "EXCLUDE KNOWN"), (exclude, excluding)):
            if clause is not None:
                raise BindError(
                    f"{keyword} goes with seeds that are edges; write SEEDS EDGES edge_type (SELECT e_id "
                    "FROM …), or leave it out",
                    span=clause.span,
                    code="needs-seed-edges",
                )
        return None
    if known is not None and negatives is None:
        raise BindError(
            "EXCLUDE KNOWN chooses among negatives; add NEGATIVES n PER POSITIVE, or leave it out",
            span=known.span,
            code="needs-negatives",
        )
    edge = find_edge_type(context, snapshot, statement.seeds.type)
    return Link(
        edge.type,
        _negatives(clauses, edge, snapshot, tables, _among(clauses, edge, snapshot, context)),
        "PAIR" if exclude is None else exclude.value,
    )


def _among(clauses: Clauses, seeds: EdgeElement, snapshot: Snapshot, context: Context) -> tuple[EdgeType, ...]:
    """The edge types of EXCLUDE KNOWN … IN, which have the ends of the seeds' own."""
    found: list[EdgeType] = []
    for name in () if clauses.known is None else clauses.known.types:
        edge = find_edge_type(context, snapshot, name)
        if (edge.source, edge.destination) != (seeds.source, seeds.destination):
            raise BindError(
                f"{edge.name} goes from {edge.source} to {edge.destination}, and the seeds' {seeds.name} "
                f"from {seeds.source} to {seeds.destination}; name edge types with the seeds' ends",
                span=name.span,
                code="other-ends",
            )
        if edge.type in found:
            raise BindError(f'edge type "{edge.name}" is named twice; keep one', span=name.span, code="duplicate-name")
        found.append(edge.type)
    return tuple(found)


def _negatives(
    clauses: Clauses,
    edge: EdgeElement,
    snapshot: Snapshot,
    tables: Mapping[str, Table],
    among: tuple[EdgeType, ...],
) -> Negatives | None:
    clause = clauses.negatives
    if clause is None:
        return None
    if not 1 <= clause.count <= _MOST:
        raise BindError(
            f"NEGATIVES takes a number from 1 to {_MOST:,}, found {clause.count}", span=clause.span, code="out-of-range"
        )
    weight: str | None = None
    if clause.weight == "DEGREE":
        weight = "DEGREE"
    elif clause.weight is not None:
        vertex = snapshot.graph.vertex(edge.destination)
        assert vertex is not None, "a snapshot's edges have their ends"
        weight = find_weight(tables[vertex.table.lower()], clause.weight).name
        _check_not_degree(weight, clause.weight.span)
    return Negatives(clause.count, weight, None if clauses.known is None else clauses.known.value, among)


def _check_not_degree(column: str, place: Span) -> None:
    if column == "DEGREE":
        raise BindError(
            'WEIGHTED BY DEGREE means how many edges a vertex has; give the column "DEGREE" another name',
            span=place,
            code="ambiguous-degree",
        )

"""Clauses of SAMPLE: FANOUT, METHOD and WEIGHT BY, SEEDS EDGES with negatives, TEMPORAL and WITHIN, REFRESH."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction

from snapdb.errors import BindError, Span
from snapdb.plan.fits import SqlType, graph_times
from snapdb.plan.fragment_checks import check_repeatable
from snapdb.plan.names import find_column, find_edge_type
from snapdb.plan.scope import BindContext
from snapdb.plan.snapshots import check_length, event_unit
from snapdb.sql import parse
from snapdb.sql.lexer import rewrite
from snapdb.sql.sample_clauses import (
    Clauses,
    FanoutClause,
    MethodClause,
    RefreshClause,
    WeightColumn,
    print_refresh_clause,
)
from snapdb.sql.samples import Sample
from snapdb.sql.syntax import Name, SqlFragment
from snapdb.sql_engine import quote_odd
from snapdb.types import (
    FULL,
    Column,
    Drawing,
    EdgeElement,
    EdgeType,
    Fanout,
    Link,
    Method,
    Negatives,
    Refresh,
    SampleSpec,
    Snapshot,
    Table,
    Temporal,
    TimeUnit,
)
from snapdb.types.text import did_you_mean

_BY_WEIGHT: tuple[Method, ...] = ("TOPK", "PRIORITY")
_WEIGHTLESS: tuple[Method, ...] = ("LATEST", "FULL", "BOTTOMK", "LABOR")
_MOST_BATCHES = 2**31
_MOST = 1_000_000
"""The maximum number of negatives per positive edge. It is limited because each batch contains all its negatives."""
LEAST_PLACE = -40
"""The minimum exponent of a number in a clause. More decimal places would produce fractions of unlimited length."""
_AMPLIFY = Decimal(2)
_MOST_EDGES = 2**31 - 1
_MOST_DEGREE = 2**63 - 1
_ROWLESS: dict[Method, str] = {
    "LATEST": "always selects the newest edges",
    "TOPK": "always selects the heaviest edges",
    "FULL": "selects every edge",
    "BOTTOMK": "draws with a random key for each edge and batch",
    "LABOR": "draws with a random key for each neighbour and batch, and reuses draws with DEPENDENT BATCHES",
}
"""Maps each method that cannot use a neighbor pool to the reason."""


def bind_fanouts(statement: Sample, snapshot: Snapshot, context: BindContext) -> tuple[Fanout, ...]:
    """Return one fanout per edge type and direction. DEFAULT applies to edge types that are not named.

    METHOD FULL replaces all nonzero counts with FULL.
    """
    method = statement.clauses.method
    lengths = {len(clause.counts) for clause in statement.fanouts}
    by_relation: dict[tuple[str, str], Fanout] = {}
    defaults: dict[str, FanoutClause] = {}
    for clause in statement.fanouts:
        _check_counts(clause, lengths, statement.fanout_span)
        if clause.edge is None:
            _check_direction("DEFAULT", set(defaults), clause)
            defaults[clause.direction] = clause
            continue
        for edge in _meant(snapshot, clause.edge) or [find_edge_type(context, snapshot, clause.edge)]:
            _check_direction(edge.name, {d for name, d in by_relation if name == edge.name}, clause)
            by_relation[edge.name, clause.direction] = Fanout(edge.type, clause.direction, clause.counts)
    named = {name for name, _ in by_relation}
    rest = [edge for edge in snapshot.graph.edges if edge.name not in named]
    spread = (Fanout(e.type, default.direction, default.counts) for e in rest for default in defaults.values())
    fanouts = (*by_relation.values(), *spread)
    if method is not None and method.method == "FULL":
        return tuple(replace(f, counts=tuple(FULL if count > 0 else count for count in f.counts)) for f in fanouts)
    return fanouts


def _meant(snapshot: Snapshot, name: Name) -> list[EdgeElement]:
    """Return the edge type with that name, or else all edge types with that label."""
    return [element for element in snapshot.graph.labelled(name.text) if isinstance(element, EdgeElement)]


def _check_direction(name: str, taken: set[str], clause: FanoutClause) -> None:
    """Raise an error if a clause repeats a direction of an edge type."""
    if clause.direction in taken or (taken and "BOTH" in (*taken, clause.direction)):
        raise BindError(
            f"{name} is specified twice in one direction (BOTH is IN and OUT); keep one",
            span=clause.span,
            code="duplicate-fanout",
        )


def _check_counts(clause: FanoutClause, lengths: set[int], place: Span) -> None:
    if len(lengths) > 1:
        raise BindError(
            f"all fanouts must have the same number of hops, found lists of {_and(lengths)}",
            span=place,
            code="fanout-lengths",
        )
    for count in clause.counts:
        if count < 0 and count != FULL:
            raise BindError(
                f"a fanout must be 0 or more, or FULL (-1), found {count}", span=clause.span, code="out-of-range"
            )
        if count >= 2**31:
            raise BindError(
                f"a fanout of {count} is too large; write FULL for all neighbours",
                span=clause.span,
                code="out-of-range",
            )


def _and(numbers: set[int]) -> str:
    return " and ".join(map(str, sorted(numbers)))


def bind_drawing(
    statement: Sample, snapshot: Snapshot, fanouts: Sequence[Fanout], context: BindContext, tables: Mapping[str, Table]
) -> Drawing:
    """Bind the sampling method and its parameters.

    Raises:
        BindError: Clauses contradict each other, or columns do not exist or are not numeric.
    """
    clauses = statement.clauses
    method: Method = "UNIFORM" if clauses.method is None else clauses.method.method
    traversed = _traversed_edges(snapshot, fanouts)
    with_replacement = clauses.replace is not None and clauses.replace.value
    if clauses.replace is not None and with_replacement and method != "UNIFORM":
        raise BindError(
            f"METHOD {method} always draws without replacement; leave out WITH REPLACEMENT or METHOD",
            span=clauses.replace.span,
            code="clauses-clash",
        )
    if clauses.weights is not None and method in _WEIGHTLESS:
        raise BindError(
            f"METHOD {method} does not use weights; leave WEIGHT BY out, or write METHOD UNIFORM, PRIORITY or TOPK",
            span=clauses.weights.span,
            code="clauses-clash",
        )
    if method == "LATEST" and not any(edge.event_time for edge in traversed):
        raise BindError(
            f"METHOD LATEST needs event times, but no edge type in FANOUT ({_names(traversed)}) has an EVENT TIME",
            span=_place(statement),
            code="needs-event-time",
        )
    weights = _weights(statement, method, snapshot, traversed, context, tables)
    return Drawing(
        method=method,
        replace=with_replacement,
        weights=tuple(weights.items()),
        weighted=clauses.weights is not None or method in _BY_WEIGHT,
        dependent=_dependent(clauses.method),
    )


def _traversed_edges(snapshot: Snapshot, fanouts: Sequence[Fanout]) -> list[EdgeElement]:
    """Return the edge types in FANOUT, in graph order."""
    names = {fanout.edge.edge for fanout in fanouts}
    return [edge for edge in snapshot.graph.edges if edge.name in names]


def _find_weight(table: Table, name: Name) -> Column:
    """Return the column with that name. Raises BindError if it is not numeric."""
    column = find_column(table, name)
    if not SqlType(column.type).is_weight():
        raise BindError(
            f'column "{column.name}" of type {column.type} cannot be a weight, which must be a number; '
            "encode it when loading",
            span=name.span,
            code="column-type",
        )
    return column


def _dependent(clause: MethodClause | None) -> int:
    if clause is None:
        return 1
    if not 1 <= clause.dependent <= _MOST_BATCHES:
        raise BindError(
            f"DEPENDENT BATCHES must be from 1 to 2^31, found {clause.dependent}", span=clause.span, code="out-of-range"
        )
    return clause.dependent


def _weights(
    statement: Sample,
    method: Method,
    snapshot: Snapshot,
    traversed: Sequence[EdgeElement],
    context: BindContext,
    tables: Mapping[str, Table],
) -> dict[str, str]:
    """Return the weight column of each edge type that has one, in graph order."""
    # Under WEIGHT BY, edges of types without a weight column have weight 1. TOPK and PRIORITY require one per type.
    named = bind_weights(statement, snapshot, traversed, context, tables)
    if method not in _BY_WEIGHT:
        return named
    weights = {edge.name: named.get(edge.name) or edge.weight for edge in traversed}
    if missing := [name for name, column in weights.items() if column is None]:
        raise BindError(
            f"METHOD {method} needs a weight for every edge type in FANOUT, but {missing[0]} has none; write "
            f"WEIGHT BY {quote_odd(missing[0])}.column, or declare a WEIGHT in the graph",
            span=_place(statement),
            code="needs-weight",
        )
    return {name: column for name, column in weights.items() if column is not None}


def bind_weights(
    statement: Sample,
    snapshot: Snapshot,
    traversed: Sequence[EdgeElement],
    context: BindContext,
    tables: Mapping[str, Table],
) -> dict[str, str]:
    """Return the columns of WEIGHT BY by edge type, in graph order.

    Raises:
        BindError: An edge type or column does not exist, or is not in the statement's relations.
    """
    clause = statement.clauses.weights
    if clause is None:
        return {}
    where = "FANOUT" if statement.clauses.walk is None else "the walk"
    named = _named_weights(clause.value, where, snapshot, traversed, context, tables)
    return {edge.name: named[edge.name] for edge in traversed if edge.name in named}


def _named_weights(
    columns: Sequence[WeightColumn],
    where: str,
    snapshot: Snapshot,
    traversed: Sequence[EdgeElement],
    context: BindContext,
    tables: Mapping[str, Table],
) -> dict[str, str]:
    """Return the columns of WEIGHT BY by edge type. `where` names the clause with the edge types, for messages."""
    weights: dict[str, str] = {}
    for edge_name, column in columns:
        if edge_name is None:
            if len(columns) > 1:
                raise BindError(
                    f"if WEIGHT BY has several columns, each must be qualified by its edge type, as in "
                    f"{quote_odd(traversed[0].name)}.{quote_odd(column.text)}",
                    span=column.span,
                    code="ambiguous-weight",
                )
            return {edge.name: _weight_of(edge, column, where, tables, alone=len(traversed) == 1) for edge in traversed}
        edge = find_edge_type(context, snapshot, edge_name)
        if edge not in traversed:
            hint = did_you_mean(edge_name.text, [e.name for e in traversed]) or f"; {where} has {_names(traversed)}"
            raise BindError(
                f'edge type "{edge.name}" in WEIGHT BY is not listed in {where}{hint}',
                span=edge_name.span,
                code="weight-not-walked",
            )
        if edge.name in weights:
            raise BindError(
                f"{edge.name} is specified twice in WEIGHT BY; keep one", span=edge_name.span, code="duplicate-name"
            )
        weights[edge.name] = _weight_of(edge, column, where, tables, alone=True)
    return weights


def _weight_of(edge: EdgeElement, name: Name, where: str, tables: Mapping[str, Table], *, alone: bool) -> str:
    try:
        return _find_weight(tables[edge.table.lower()], name).name
    except BindError as error:
        if not alone:
            error.message += (
                f" (an unqualified column must exist in every edge type of {where}; "
                f"write edge_type.{quote_odd(name.text)})"
            )
        raise


def _names(edges: Sequence[EdgeElement]) -> str:
    return ", ".join(edge.name for edge in edges)


def _place(statement: Sample) -> Span:
    return statement.fanout_span if statement.clauses.method is None else statement.clauses.method.span


def bind_link(statement: Sample, snapshot: Snapshot, context: BindContext, tables: Mapping[str, Table]) -> Link | None:
    """Bind the parameters of seed edges, or return None if the seeds are vertices.

    Raises:
        BindError: An edge type or column does not exist, or a clause requires seed edges.
    """
    clauses = statement.clauses
    negatives, known, exclude = clauses.negatives, clauses.known, clauses.exclude
    if not statement.seeds.edges:
        excluding = "KEEP SEEDS" if exclude is not None and exclude.value == "NONE" else "EXCLUDE SEEDS"
        for clause, keyword in ((negatives, "NEGATIVES"), (known, "EXCLUDE KNOWN"), (exclude, excluding)):
            if clause is not None:
                raise BindError(
                    f"{keyword} needs seeds that are edges; write SEEDS EDGES edge_type (SELECT e_id "
                    "FROM …), or leave it out",
                    span=clause.span,
                    code="needs-seed-edges",
                )
        return None
    if known is not None and negatives is None:
        raise BindError(
            "EXCLUDE KNOWN needs negatives; add NEGATIVES n PER POSITIVE, or leave it out",
            span=known.span,
            code="needs-negatives",
        )
    edge = find_edge_type(context, snapshot, statement.seeds.type)
    return Link(
        edge.type,
        _negatives(clauses, edge, snapshot, tables, _among(clauses, edge, snapshot, context)),
        "PAIR" if exclude is None else exclude.value,
    )


def _among(clauses: Clauses, seeds: EdgeElement, snapshot: Snapshot, context: BindContext) -> tuple[EdgeType, ...]:
    """Return the edge types of EXCLUDE KNOWN … IN, which must have the same end types as the seeds."""
    types: list[EdgeType] = []
    for name in () if clauses.known is None else clauses.known.types:
        edge = find_edge_type(context, snapshot, name)
        if (edge.source, edge.destination) != (seeds.source, seeds.destination):
            raise BindError(
                f"{edge.name} connects {edge.source} to {edge.destination}, but the seed edges {seeds.name} connect "
                f"{seeds.source} to {seeds.destination}; write edge types between the same vertex types",
                span=name.span,
                code="other-ends",
            )
        if edge.type in types:
            raise BindError(
                f'edge type "{edge.name}" is specified twice; keep one', span=name.span, code="duplicate-name"
            )
        types.append(edge.type)
    return tuple(types)


def _negatives(
    clauses: Clauses, edge: EdgeElement, snapshot: Snapshot, tables: Mapping[str, Table], among: tuple[EdgeType, ...]
) -> Negatives | None:
    clause = clauses.negatives
    if clause is None:
        return None
    if not 1 <= clause.count <= _MOST:
        raise BindError(
            f"NEGATIVES must be from 1 to {_MOST:,}, found {clause.count}", span=clause.span, code="out-of-range"
        )
    weight: str | None = None
    if clause.weight == "DEGREE":
        weight = "DEGREE"
    elif clause.weight is not None:
        vertex = snapshot.graph.vertex(edge.destination)
        assert vertex is not None, "a snapshot's edges have their ends"
        weight = _find_weight(tables[vertex.table.lower()], clause.weight).name
        _check_not_degree(weight, clause.weight.span)
    return Negatives(clause.count, weight, None if clauses.known is None else clauses.known.value, among)


def _check_not_degree(column: str, place: Span) -> None:
    if column == "DEGREE":
        raise BindError(
            'WEIGHTED BY DEGREE means the degree of a vertex, not the column "DEGREE"; rename the column',
            span=place,
            code="ambiguous-degree",
        )


def bind_temporal(
    statement: Sample, snapshot: Snapshot, context: BindContext, tables: Mapping[str, Table]
) -> Temporal | None:
    """Bind the temporal constraint of each seed, or return None if every edge of the snapshot is eligible.

    Raises:
        BindError: The graph has no event time, or the length of WITHIN is negative or has the wrong unit.
    """
    clause, length = statement.clauses.temporal, statement.clauses.within
    if clause is None:
        if length is not None:
            raise BindError(
                "WITHIN needs TEMPORAL, because it limits the age of edges before a seed's time; add TEMPORAL < "
                "SEED_TIME",
                span=length.value.span,
                code="needs-temporal",
            )
        return None
    if not graph_times(snapshot.graph, tables):
        raise BindError(
            f"TEMPORAL needs event times, but no element of graph {snapshot.graph.name} "
            "has an EVENT TIME; leave it out, or declare EVENT TIME in the graph",
            span=clause.span,
            code="needs-event-time",
        )
    unit = event_unit(snapshot.graph, tables, clause.span)
    within = None if length is None else _length(context, length.value, unit)
    return Temporal(clause.value, within)


def _length(context: BindContext, length: SqlFragment, unit: TimeUnit | None) -> int:
    query = context.bind_query(length)
    check_repeatable(context.store.sql_engine, length, "the time limit of a seed must be repeatable", "write its value")
    check_length(context, query, unit, "WITHIN")
    value = context.whole(query) if unit == "integer" else context.duration(length)
    if value < 0:
        raise BindError(f"WITHIN must be 0 or more, found {length.text}", span=length.span, code="out-of-range")
    return value


def bind_refresh_clause(statement: Sample, fanouts: Sequence[Fanout], drawing: Drawing) -> Refresh | None:
    """Bind the neighbor pool, or return None if every batch resamples (REFRESH FBL, or no REFRESH).

    Raises:
        BindError: A number is out of range, or another clause is not supported with a neighbor pool.
    """
    clause = statement.clauses.refresh
    if clause is None or clause.strategy == "FBL":
        return None
    _check_drawing(statement, clause, drawing)
    every = None if clause.every == "AUTO" else clause.every
    refresh = Refresh(
        strategy=clause.strategy,
        every=None if every is None else _whole(clause, "EVERY", every, 1, _MOST_BATCHES),
        share=Fraction(1) if clause.percent is None else _share(clause, "OTF", clause.percent),
        amplify=_amplify(clause),
        fetch=None if clause.fetch is None else _share(clause, "FETCH", clause.fetch),
        visited=clause.scope == "VISITED",
        shared=clause.shared,
        above=_whole(clause, "DEGREE ABOVE", clause.above or 0, 0, _MOST_DEGREE),
    )
    most = max((count for fanout in fanouts for count in fanout.counts if count != FULL), default=0)
    if refresh.size(most) > _MOST_EDGES:
        raise _outside(
            clause,
            f"a row of {refresh.size(most)} edges, which is AMPLIFY times a fanout of {most}, exceeds "
            f"the maximum of {_MOST_EDGES}; write FULL for all neighbours",
        )
    return refresh


def with_every(spec: SampleSpec, every: int) -> SampleSpec:
    """Return the same sampler with EVERY n BATCHES in its REFRESH and text, instead of EVERY AUTO or the default."""
    assert spec.refresh is not None, "rows have a period"
    (statement,) = parse(spec.text)
    assert isinstance(statement, Sample), "a sampler's text is a SAMPLE statement"
    clause = statement.clauses.refresh
    assert clause is not None, "the text says what the spec does"
    # The text is rewritten too, because lineages record it and a replay must use the same period.
    printed = print_refresh_clause(replace(clause, every=every))
    text = rewrite(spec.text, [(clause.span, printed)]).text
    return replace(spec, refresh=replace(spec.refresh, every=every), text=text)


def _check_drawing(statement: Sample, clause: RefreshClause, drawing: Drawing) -> None:
    """Raise an error unless the method can reuse rows: uniform sampling without replacement, or METHOD PRIORITY."""
    clauses, what = statement.clauses, f"REFRESH {clause.strategy}"
    if drawing.method in _ROWLESS and clauses.method is not None:
        raise _clash(
            f"METHOD {drawing.method} {_ROWLESS[drawing.method]}; leave {what} out, or write METHOD UNIFORM or "
            "PRIORITY",
            clauses.method.span,
        )
    if clauses.replace is not None and drawing.replace:
        raise _clash(f"{what} draws without replacement; leave out WITH REPLACEMENT or {what}", clauses.replace.span)
    if clauses.weights is not None and drawing.method != "PRIORITY":
        raise _clash(
            f"{what} supports weights only with METHOD PRIORITY, which returns the probability of each edge; "
            "add it, or leave WEIGHT BY out",
            clauses.weights.span,
        )


def _clash(message: str, span: Span) -> BindError:
    return BindError(message, span=span, code="clauses-clash")


def _amplify(clause: RefreshClause) -> Fraction:
    """Return the size of a row of the neighbor pool as a multiple of its fanout."""
    amplify = _AMPLIFY if clause.amplify is None else clause.amplify
    if amplify < 1:
        raise _outside(clause, f"AMPLIFY must be 1 or more, found {amplify}")
    return _exact(clause, "AMPLIFY", amplify)


def _share(clause: RefreshClause, name: str, percent: Decimal) -> Fraction:
    """Return a percentage as a fraction. Only FETCH may be 0."""
    least = "from 0 to" if name == "FETCH" else "more than 0 and at most"
    if not 0 <= percent <= 100 or (percent == 0 and name != "FETCH"):
        raise _outside(clause, f"{name} must be {least} 100 PERCENT, found {percent}")
    return _exact(clause, name, percent) / 100


def _exact(clause: RefreshClause, name: str, value: Decimal) -> Fraction:
    exponent = value.as_tuple().exponent
    if not isinstance(exponent, int) or not LEAST_PLACE <= exponent <= -LEAST_PLACE:
        raise _outside(clause, f"{name} must have at most {-LEAST_PLACE} decimal places, found {value}")
    return Fraction(value)


def _whole(clause: RefreshClause, name: str, value: int, least: int, most: int) -> int:
    if not least <= value <= most:
        raise _outside(clause, f"{name} must be from {least} to {most}, found {value}")
    return value


def _outside(clause: RefreshClause, message: str) -> BindError:
    return BindError(message, span=clause.span, code="out-of-range")

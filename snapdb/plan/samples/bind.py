"""Binders of SAMPLE, WALK, CREATE SAMPLER and AUDIT: the snapshot, the seed query's columns, and all clauses."""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from typing import Literal, TypeVar

from snapdb.errors import BindError, CorruptError, ParseError, SnapdbError, Span
from snapdb.plan.fragment_checks import check_repeatable
from snapdb.plan.names import check_own, find_named, find_vertex_type
from snapdb.plan.plan import NothingPlan, Plan, PlanFamily
from snapdb.plan.queries import BoundQuery
from snapdb.plan.samples.clauses import (
    LEAST_PLACE,
    bind_drawing,
    bind_fanouts,
    bind_link,
    bind_refresh_clause,
    bind_temporal,
)
from snapdb.plan.samples.plans import AuditPlan, CreateSamplerPlan, Origin, Places, SamplePlan, SeedColumns, about_seeds
from snapdb.plan.samples.seed_columns import bind_order, seed_columns
from snapdb.plan.samples.visits import bind_visits
from snapdb.plan.samples.walk_clauses import bind_walk
from snapdb.plan.scope import BindContext
from snapdb.plan.variables import no_variables
from snapdb.sql import parse
from snapdb.sql.lexer import Token, rewrite, scan
from snapdb.sql.queries import Query
from snapdb.sql.sample_clauses import Clauses
from snapdb.sql.samples import Audit, CreateSampler, Sample, SampleUsing
from snapdb.sql.syntax import Name, Spanned
from snapdb.sql_engine import Names, quote, quote_odd
from snapdb.sql_engine.sources import as_arrow
from snapdb.storage.tables.commit import author, now
from snapdb.types import Column, Drawing, Fanout, Refresh, Sampler, SampleSpec, SeedOrder, Snapshot
from snapdb.types.sampling import SamplerMethod

_T = TypeVar("_T")
_U = TypeVar("_U")
BATCH = 1024
REPEATABLE = 0
EPOCHS = 1
ORDER: SeedOrder = "SHUFFLE"
LAYOUT: Literal["NODES", "BLOCKS"] = "NODES"
"""The default of LAYOUT."""
_VERBS = {"stream": "SAMPLE or WALK", "draw": "SAMPLE"}
_WHY = "a sampler's seeds must be repeatable"
_TORCH_CAP = 1024
"""The maximum fanout of the torch back end, which compares all draws of a node with each other."""


def bind_sample(statement: Sample | SampleUsing, context: BindContext) -> SamplePlan:
    """Bind a sampler's names to its snapshot."""
    if isinstance(statement, Sample):
        return _bound(statement, context)
    sampler = find_named(context.catalog.sampler, statement.sampler)
    _check_verb(statement, sampler)
    whole, origin = _resolve(statement, sampler)
    with origin.shown():
        plan = _bound(whole, context)
    # REFRESH CACHE advances a named sampler's generation, which is part of the keys of its pool rows.
    spec = replace(plan.spec, generation=sampler.generation)
    return replace(plan, spec=spec, sampler=sampler, places=replace(plan.places, origin=origin))


def _check_verb(statement: SampleUsing, sampler: Sampler) -> None:
    """Raise an error if a sampler of walks is used by SAMPLE, or one of neighbourhoods by WALK."""
    verb = sampler.verb
    if not statement.only_name and statement.clauses.verb != verb:
        what = "random walks" if verb == "WALK" else "neighbourhoods"
        raise BindError(
            f"{sampler.name} is a sampler of {what}; write {verb} USING {quote_odd(sampler.name)}",
            span=statement.sampler.span,
            code="other-sampler",
        )


def _bound(statement: Sample, context: BindContext) -> SamplePlan:
    _check_numbers(statement.clauses)
    snapshot = find_named(context.catalog.snapshot, statement.snapshot)
    spec = _spec(statement, snapshot, context)
    query, clauses = statement.seeds.query, statement.clauses
    seeds = context.bind_query(query, first=snapshot)
    with about_seeds(seeds.span, None), context.describing(seeds) as session:
        check_repeatable(context.store.sql_engine, query, _WHY)
        described = session.describe(seeds.text, seeds.parameters)
        order = bind_order(session, seeds, described, spec.order, clauses.order.span if clauses.order else None)
    clause = clauses.temporal or clauses.known
    columns = _columns(context, described, spec, snapshot, seeds.span, clause.span if clause else seeds.span)
    epochs = _or(clauses.epochs, EPOCHS)
    return SamplePlan(spec, snapshot, seeds, epochs, columns._replace(order=order), _places(clauses))


def with_seeds(context: BindContext, plan: SamplePlan, seeds: object) -> SamplePlan:
    """Return the same sampler with other seeds: a SELECT, a tensor, array or list of ids, or Arrow data.

    Additional columns contain the seeds' times and targets, as in SEEDS. A mapping with `seed_time` has one column per
    key. With IN ORDER, the order of ids is preserved.
    """
    query = _bind_outside(context, plan, seeds) if isinstance(seeds, str) else _given(context, plan, seeds)
    outside = seeds if isinstance(seeds, str) else ""
    with about_seeds(query.span, outside):
        with context.describing(query) as session:
            described = session.describe(query.text, query.parameters)
            order = bind_order(session, query, described, plan.spec.order, None) if outside else ()
        columns = _columns(context, described, plan.spec, plan.snapshot, query.span, query.span)
    return replace(plan, seeds=query, columns=columns._replace(order=order), outside=outside)


def _places(clauses: Clauses) -> Places:
    """Return the spans of the clauses that are checked when the sampler is opened."""
    weights, device = clauses.weights or clauses.method, clauses.device or clauses.backend
    return Places(
        weights=None if weights is None else weights.span,
        negatives=None if clauses.negatives is None else clauses.negatives.span,
        device=None if device is None else device.span,
        memory=None if clauses.memory is None else clauses.memory.span,
        ids=None if clauses.ids is None else clauses.ids.span,
    )


def _columns(
    context: BindContext, described: Sequence[Column], spec: SampleSpec, snapshot: Snapshot, place: Span, clause: Span
) -> SeedColumns:
    """Return the roles of the query's columns. `clause` is the span of the clause that requires a seed time."""
    columns = seed_columns(described, spec, snapshot, context.tables_under(snapshot), place)
    needing = _clause_needing_time(spec)
    if needing is not None and columns.time is None:
        raise BindError(
            f"{needing} needs the time of each seed; add it to the columns of SEEDS, as in t AS seed_time",
            span=clause,
            code="needs-seed-time",
        )
    return columns


def _bind_outside(context: BindContext, plan: SamplePlan, seeds: str) -> BoundQuery:
    """Bind a SELECT from outside the statement. Errors show the text of that SELECT."""
    (query, *more) = parse(seeds) or (None,)
    if not isinstance(query, Query) or more:
        raise BindError(
            "seeds must be one SELECT, or ids", text=seeds, span=Span(0, len(seeds.rstrip()) or 1), code="not-a-query"
        )
    try:
        bound = context.bind_query(query.query, first=plan.snapshot)
        with context.describing(bound) as session:
            check_repeatable(context.store.sql_engine, query.query, _WHY)
            session.describe(bound.text, bound.parameters)
    except SnapdbError as error:
        raise error.located(seeds, query.span) from error.__cause__
    return bound


def _given(context: BindContext, plan: SamplePlan, seeds: object) -> BoundQuery:
    table = as_arrow(seeds)
    name = "snapdb seeds given"
    columns = [quote(c) for c in table.column_names]
    if not table.num_rows:  # an empty array has an arbitrary type: torch.tensor([]) is float
        key = [f"CAST(NULL AS {column.type}) AS {quote(column.name)}" for column in _key(context, plan)]
        names = [c.lower() for c in table.column_names]
        start = names.index("e_id") if plan.spec.link is not None and "e_id" in names else 0
        columns[start : start + len(key)] = key
    return BoundQuery(f"SELECT {', '.join(columns)} FROM {quote(name)}", Span(0, 0), Names(sources={name: table}))


def _key(context: BindContext, plan: SamplePlan) -> list[Column]:
    """Return the columns that identify a seed."""
    if plan.spec.link is not None:
        return [Column("e_id", "BIGINT")]
    vertex = plan.snapshot.graph.vertex(plan.spec.seed_type)
    assert vertex is not None, "the seed type was looked up"
    types = {c.name: c.type for c in context.tables_under(plan.snapshot)[vertex.table.lower()].columns}
    return [Column(name, types[name]) for name in vertex.key]


def _clause_needing_time(spec: SampleSpec) -> str | None:
    """Return the first clause that depends on each seed's time, or None."""
    if spec.temporal is not None:
        return "TEMPORAL"
    negatives = None if spec.link is None else spec.link.negatives
    if negatives is not None and negatives.known in ("BEFORE", "AT"):
        return f"EXCLUDE KNOWN {negatives.known} SEED_TIME"
    return None


def _spec(statement: Sample, snapshot: Snapshot, context: BindContext) -> SampleSpec:
    """Return the spec with every clause bound."""
    clauses, tables = statement.clauses, context.tables_under(snapshot)
    link = None if clauses.walk else bind_link(statement, snapshot, context, tables)
    seed_type = find_vertex_type(snapshot, statement.seeds.type).name if link is None else link.edge.source
    walk = None if clauses.walk is None else bind_walk(statement, clauses.walk, seed_type, snapshot, context)
    by_walks = statement.visits
    visits = None if by_walks is None else bind_visits(statement, by_walks, seed_type, link, snapshot, context)
    walked = walk or visits
    fanouts = walked.fanouts if walked else bind_fanouts(statement, snapshot, context)
    drawing = walked.drawing if walked else bind_drawing(statement, snapshot, fanouts, context, tables)
    device = None if clauses.device is None else _device(clauses.device)
    backend = _or(clauses.backend, None)
    refresh = bind_refresh_clause(statement, fanouts, drawing)
    if backend == "torch":  # without WITH, numba samples even if the batches are for a GPU
        _check_cap(statement, fanouts, drawing, refresh)
    return SampleSpec(
        snapshot=snapshot.name,
        seed_type=seed_type,
        seed_query=statement.seeds.query.text,
        fanouts=fanouts,
        batch_size=_or(clauses.batch, BATCH),
        seed=_or(clauses.repeatable, REPEATABLE),
        order=_or(clauses.order, ORDER),
        text=statement.text,
        drawing=drawing,
        temporal=bind_temporal(statement, snapshot, context, tables),
        link=link,
        subset=None if clauses.subset is None else _share(clauses.subset),
        layout=_or(clauses.layout, LAYOUT),
        reuse_hops=clauses.reuse_hops is not None,
        allow_duplicates=clauses.allow_duplicates is not None,
        device=device,
        backend=backend,
        memory=_or(clauses.memory, None),
        ids=_or(clauses.ids, "int64"),
        refresh=refresh,
        walk=walk.walk if walk else None,
        visits=visits.visits if visits else None,
    )


def _check_numbers(clauses: Clauses) -> None:
    batch, repeatable, epochs = clauses.batch, clauses.repeatable, clauses.epochs
    if batch is not None and batch.value < 1:
        raise BindError(f"BATCH must be at least 1, found {batch.value}", span=batch.span, code="out-of-range")
    if repeatable is not None and not 0 <= repeatable.value < 2**64:
        raise BindError("REPEATABLE must be from 0 to 2^64 - 1", span=repeatable.span, code="out-of-range")
    if epochs is not None and epochs.value < 1:
        raise BindError(f"EPOCHS must be at least 1, found {epochs.value}", span=epochs.span, code="out-of-range")


def _or(clause: Spanned[_T] | None, default: _U) -> _T | _U:
    """Return a clause's value, or the default if the clause is missing."""
    return default if clause is None else clause.value


def _share(subset: Spanned[Decimal]) -> Fraction:
    """Return the percentage of SUBSET as a fraction."""
    percent = subset.value
    exponent = percent.as_tuple().exponent
    if not 0 < percent <= 100:
        raise BindError(
            f"SUBSET must be more than 0 and at most 100 PERCENT, found {percent}",
            span=subset.span,
            code="out-of-range",
        )
    if not isinstance(exponent, int) or exponent < LEAST_PLACE:
        raise BindError(
            f"SUBSET must have at most {-LEAST_PLACE} decimal places", span=subset.span, code="out-of-range"
        )
    return Fraction(percent) / 100


def _device(clause: Spanned[str]) -> str | None:
    """Return the device of the batches, or None for the CPU."""
    name = clause.value.strip().lower()
    if name == "cpu":
        return None
    if not re.fullmatch(r"cuda(:\d{1,3})?", name, re.ASCII):
        raise BindError(
            f"unknown device '{clause.value}'; write 'cpu', 'cuda' or a numbered GPU such as 'cuda:1'",
            span=clause.span,
            code="unknown-device",
        )
    return name


def _check_cap(statement: Sample, fanouts: Sequence[Fanout], drawing: Drawing, refresh: Refresh | None) -> None:
    """Raise an error if the torch back end does not support a fanout."""
    if refresh is None and (drawing.method != "UNIFORM" or drawing.weighted or drawing.replace):
        return
    most = max((count for fanout in fanouts for count in fanout.counts), default=0)
    size = most if refresh is None else refresh.size(most)
    if size > _TORCH_CAP:
        what, remedy = f"a row of {size} edges", "a smaller AMPLIFY"
        if refresh is None:
            what, remedy = f"a fanout of {most}", "METHOD BOTTOMK"
        raise BindError(
            f"{what} exceeds {_TORCH_CAP}, the maximum for uniform draws with torch; write WITH numba, "
            f"{remedy}, or FULL",
            span=statement.fanout_span,
            code="out-of-range",
        )


def _bind_create_sampler(statement: CreateSampler, context: BindContext) -> Plan:
    """Bind a sampler with its complete statement, after resolving SAMPLE USING."""
    name = statement.name
    existing = context.catalog.samplers.get(name.text.lower())
    if (there := check_own(statement, "sampler", existing)) is not None:
        return NothingPlan(there)
    with no_variables():
        sample = bind_sample(statement.sample, context)
    spec = sample.spec
    sampler = Sampler(
        id=0,
        name=name.text,
        text=spec.text,
        snapshot=spec.snapshot,
        seeds=spec.seed_type if spec.link is None else spec.link.edge.edge,
        edges=spec.link is not None,
        batch=spec.batch_size,
        hops=spec.hops if spec.walk is None else spec.walk.length,
        method=_method(spec),
        created=now(),
        author=author(),
    )
    return CreateSamplerPlan(sampler, existing, sample)


def _method(spec: SampleSpec) -> SamplerMethod:
    """Return the method of a sampler, as SHOW SAMPLERS lists it."""
    if spec.walk is not None:
        return "WALK"
    return spec.drawing.method if spec.visits is None else "BY WALKS"


def statement_of(sampler: Sampler) -> Sample:
    """Return the statement that a sampler stores.

    Raises:
        CorruptError: The stored text is not a SAMPLE or WALK statement.
    """
    with suppress(ValueError, ParseError):
        (statement,) = parse(sampler.text)
        if isinstance(statement, Sample):
            return statement
    raise CorruptError(
        f"the text of sampler {sampler.name} is not a valid SAMPLE statement: {sampler.text[:40]!r}; create "
        f"it again with CREATE OR REPLACE SAMPLER {quote_odd(sampler.name)}",
        code="damaged-catalog",
    )


def _resolve(statement: SampleUsing, sampler: Sampler) -> tuple[Sample, Origin]:
    """Return the complete statement of a named sampler, and the origins of its parts."""
    base = statement_of(sampler)
    own, end = base.clauses.spans, len(sampler.text)
    spans = statement.clauses.spans
    # A clause replaces the same clause of the sampler in place, and new clauses are appended, so that the text parses.
    replaced = [(own[name], span) for name, span in spans.items() if name in own]
    added = sorted(span for name, span in spans.items() if name not in own)
    source = statement.source
    composed = rewrite(sampler.text, [(old, source[new.start : new.stop]) for old, new in replaced])
    edits = [(new, old, dict(replaced)[old]) for new, old in composed.edits]
    text = composed.text
    for span in added:
        text += " "
        place = Span(len(text), len(text) + span.stop - span.start)
        text += source[span.start : span.stop]
        edits.append((place, Span(end, end), span))
    (whole,) = parse(text)
    assert isinstance(whole, Sample), "clauses make no other statement of it"
    return whole, Origin(sampler.name, sampler.text, tuple(edits))


def _bind_audit(statement: Audit, context: BindContext) -> AuditPlan:
    """Bind the sampler that is checked. Its batches must have edges of the graph, or be walks.

    Raises:
        BindError: The neighbours are visited by walks.
    """
    sample = bind_sample(statement.sample, context)
    if sample.spec.visits is not None:
        raise BindError(
            "AUDIT compares the edges of batches with the tables, but the edges of BY WALKS are visits; audit the "
            "walks themselves with AUDIT WALK",
            span=statement.sample.span,
            code="clauses-clash",
        )
    return AuditPlan(replace(sample, delivers="batches"), statement.text)


@contextmanager
def streamed(query: str, method: Literal["stream", "draw"] = "stream") -> Iterator[Sample | SampleUsing]:
    """Yield the parsed statement. A single word or quoted name is a sampler name.

    If the block fails because no sampler has the name, the error also lists the other possible arguments.

    Args:
        query: The text.
        method: The method of `Database` to which the text was passed, for messages. Only `draw` accepts EPOCHS.

    >>> with streamed("sample") as statement:
    ...     print(statement.sampler)
    sample

    Raises:
        BindError: The text is neither a name nor a SAMPLE or WALK statement, or it has EPOCHS.
    """
    if (token := _only_name(query)) is None:
        yield _statement(query, method)
        return
    try:
        yield SampleUsing(query, token.span, Name(token.identifier, token.span), Clauses(), only_name=True)
    except BindError as error:
        if error.code == "unknown-sampler":
            error.message += (
                f" (the argument of {method} must be a sampler's name, or a whole {_VERBS[method]} statement)"
            )
        raise


def _only_name(query: str) -> Token | None:
    """Return the only token of a text if it is a name."""
    try:
        (token,) = scan(query)
    except (ValueError, ParseError):  # no token, several tokens, or an error that the parser reports better
        return None
    return token if token.kind in ("word", "quoted") else None


def _statement(query: str, method: str) -> Sample | SampleUsing:
    (statement, *more) = parse(query) or (None,)
    if not isinstance(statement, Sample | SampleUsing) or more:
        raise BindError(
            f"the argument of {method} must be a sampler's name, or one {_VERBS[method]} statement",
            text=query,
            span=Span(0, len(query.rstrip()) or 1),
            code="not-a-sample",
        )
    epochs = statement.clauses.epochs
    if method == "stream" and epochs is not None and epochs.value != 1:
        raise BindError(
            "EPOCHS is not supported in streams, which are iterated once per epoch; leave it out",
            text=query,
            span=epochs.span,
            code="epochs-in-stream",
        )
    return statement


FAMILY = PlanFamily(
    binders={Sample: bind_sample, SampleUsing: bind_sample, CreateSampler: _bind_create_sampler, Audit: _bind_audit},
    operators={
        SamplePlan: "snapdb.execute.samples.operators:sample",
        CreateSamplerPlan: "snapdb.execute.samples.operators:create_sampler",
        AuditPlan: "snapdb.execute.samples.audit:audit",
    },
)

"""Definitions: CREATE VIEW, MACRO, TYPE, SEQUENCE and SCHEMA."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from snapdb.errors import BindError, SnapdbError, Span
from snapdb.plan.names import check_name, check_new, check_not_reserved, check_schema, tables_of
from snapdb.plan.plan import NothingPlan, Plan, PlanFamily, PlanNode
from snapdb.plan.queries import BoundQuery
from snapdb.plan.scope import BindContext
from snapdb.sql.definitions import CreateDefinition
from snapdb.sql.syntax import SqlFragment
from snapdb.sql_engine import TEMPORARY, check_storable, quote, quote_all, text_literal
from snapdb.types import Definition

_SEQUENCE = """
    SELECT increment_by, min_value, max_value, start_value, cycle FROM duckdb_sequences()
    WHERE database_name = {} AND sequence_name = 'defined'
"""


@dataclass(frozen=True, slots=True)
class CreatePlan(Plan):
    """CREATE VIEW, MACRO, TYPE, SEQUENCE or SCHEMA: store a definition."""

    transactional: ClassVar[bool] = True

    definition: Definition
    replaces: Definition | None
    message: str | None

    def fits_transaction(self) -> bool:
        # The next value of a sequence belongs to no version, so its row is written with the definition.
        return self.definition.kind != "sequence"

    def is_read(self) -> bool:
        return self.definition.temporary

    def describe(self) -> PlanNode:
        return PlanNode(f"Create{self.definition.kind.capitalize()}", self.definition.name)


def _bind_create(statement: CreateDefinition, context: BindContext) -> Plan:
    """Bind a definition, which must be valid for the tables and definitions as they are."""
    name, kind = statement.name, statement.kind
    check_schema(context, name)
    known = context.catalog.definitions.get((kind, name.text.lower()))
    if kind == "view":
        check_new(context.catalog, name, ("view",) if known is not None else ())
    else:
        check_not_reserved(name)
        check_name(name)
    if kind == "schema":
        _check_free_schema(context, statement)
    if known is not None and statement.if_not_exists:
        return NothingPlan(f'{kind} "{known.name}" already exists')
    if known is not None and not statement.or_replace:
        raise BindError(
            f'{kind} "{known.name}" already exists; choose another name, or write CREATE OR REPLACE {kind.upper()}',
            span=name.span,
            code="exists",
        )
    if known is not None and known.temporary != statement.temporary:
        raise BindError(
            f"{kind} {known.name} is {'' if known.temporary else 'not '}temporary; drop it first",
            span=name.span,
            code="exists",
        )
    definition = Definition(kind, name.text, "", schema=name.schema, temporary=statement.temporary)
    try:
        definition = _BODIES[kind](statement, replace(context, reading=frozenset((definition.key,))), definition)
    except BindError as error:
        if (
            known is not None
            and error.code in ("unknown-table", "unknown-function")
            and f'"{known.name}"' in error.message
        ):
            error.message = f"{kind} {known.name} would read itself; write the text of the earlier definition"
            error.code = "recursive-definition"
        raise
    if kind == "view" and known is not None:
        _check_graphs(context, statement, definition)
    return CreatePlan(definition, known, statement.message)


def _body(statement: CreateDefinition) -> SqlFragment:
    """Return the text of the definition. That of a recursive view is a common table expression with its name."""
    body = statement.body or SqlFragment("", statement.name.span)
    if not statement.recursive:
        return body
    name, columns = quote(statement.name.last), quote_all(column.text for column in statement.columns)
    before = f"WITH RECURSIVE {name}{f'({columns})' if columns else ''} AS ("
    # The span starts earlier by the length of what is added, so that errors in the query point to it.
    return SqlFragment(f"{before}{body.text}\n) FROM {name}", Span(body.span.start - len(before), body.span.stop))


def _view(statement: CreateDefinition, context: BindContext, definition: Definition) -> Definition:
    """Return the definition of a view with its columns."""
    query = _read(statement, context, definition)
    with context.describing(query) as session:
        columns = session.describe(query.text, query.parameters)
    if len(statement.columns) > len(columns):
        raise BindError(
            f"the view lists {len(statement.columns)} columns, but its query returns {len(columns)}",
            span=statement.columns[len(columns)].span,
            code="column-count",
        )
    names = tuple(each.text for each in statement.columns)
    renamed = [replace(c, name=new) for c, new in zip(columns, names, strict=False)] + columns[len(names) :]
    return replace(definition, body=_body(statement).text, names=names, columns=tuple(renamed))


def _macro(statement: CreateDefinition, context: BindContext, definition: Definition) -> Definition:
    """Return the definition of a macro, after DuckDB has created it."""
    query = _read(statement, context, definition)
    with context.session(query) as session:
        session.wrap(f"CREATE MACRO {quote('snapdb defined')}", query.text, "\n", query.parameters)
        session.rows(f"DROP MACRO {quote('snapdb defined')}")
    return replace(definition, body=_body(statement).text)


def _type(statement: CreateDefinition, context: BindContext, definition: Definition) -> Definition:
    """Return the definition of a type, with all names in it resolved."""
    query = _read(statement, context, definition)
    with context.session(query) as session:
        session.wrap("CREATE TYPE defined AS ", query.text, "", query.parameters)
        (column,) = session.describe("SELECT CAST(NULL AS defined) AS v")
        session.rows("DROP TYPE defined")
    try:
        check_storable([column])
    except SnapdbError as error:
        error.span = _body(statement).span
        raise
    return replace(definition, body=column.type)


def _sequence(statement: CreateDefinition, context: BindContext, definition: Definition) -> Definition:
    """Return the definition of a sequence, with all options."""
    query = BoundQuery(_body(statement).text, _body(statement).span)
    if statement.temporary:
        raise BindError(
            "a sequence is not temporary; leave TEMPORARY out", span=statement.name.span, code="not-supported"
        )
    if statement.or_replace:
        raise BindError(
            "a sequence is not replaced, because values would repeat; write DROP SEQUENCE, then CREATE SEQUENCE",
            span=statement.name.span,
            code="not-supported",
        )
    with context.session(query) as session:
        session.wrap("CREATE SEQUENCE defined ", query.text, "")
        ((step, least, most, start, cycle),) = session.rows(_SEQUENCE.format(text_literal(session.space)))
        session.rows("DROP SEQUENCE defined")
    cycles = "CYCLE" if cycle else "NO CYCLE"
    return replace(definition, body=f"INCREMENT BY {step} MINVALUE {least} MAXVALUE {most} {cycles} START {start}")


def _schema(statement: CreateDefinition, context: BindContext, definition: Definition) -> Definition:
    return definition


def _read(statement: CreateDefinition, context: BindContext, definition: Definition) -> BoundQuery:
    """Bind the text of a definition, in which the name of the definition itself does not exist."""
    query = context.bind_query(_body(statement))
    if not statement.temporary and any(quote(TEMPORARY) in select for select in query.names.views.values()):
        raise BindError(
            f"{definition.kind} {definition.name} would read a temporary table; write CREATE TEMPORARY "
            f"{definition.kind.upper()}",
            span=statement.name.span,
            code="temporary-table",
        )
    return query


def _check_free_schema(context: BindContext, statement: CreateDefinition) -> None:
    """Raise BindError if a snapshot has the name, or an object has a quoted name that the schema would qualify."""
    name = statement.name
    if name.text.lower() in context.catalog.snapshots:
        raise BindError(
            f'snapshot "{name}" already exists, and its elements are named {name}.element; choose another name',
            span=name.span,
            code="exists",
        )
    prefix = f"{name.text.lower()}."
    if known := next((one for one in context.catalog.names() if one.lower().startswith(prefix)), None):
        raise BindError(
            f'"{known}" already exists, and would become a name in the schema; choose another name',
            span=name.span,
            code="exists",
        )


def _check_graphs(context: BindContext, statement: CreateDefinition, view: Definition) -> None:
    """Raise BindError if a graph names a column of the view that its new query does not return."""
    known = {column.name.lower() for column in view.columns}
    for graph in context.catalog.graphs.values():
        if missing := sorted(tables_of(graph).get(view.name.lower(), set()) - known):
            raise BindError(
                f'column "{missing[0]}" of view {view.name} is used by graph {graph.name}; return it from the query, '
                "or drop the graph and its snapshots",
                span=statement.name.span,
                code="in-use",
            )


_BODIES = {"view": _view, "macro": _macro, "type": _type, "sequence": _sequence, "schema": _schema}

FAMILY = PlanFamily(
    binders={CreateDefinition: _bind_create}, operators={CreatePlan: "snapdb.execute.definitions:create"}
)

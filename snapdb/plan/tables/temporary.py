"""Temporary tables, which belong to one session. DuckDB keeps their rows in memory, and runs the statements on them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, TypeVar

from snapdb.errors import BindError, Span
from snapdb.plan.names import check_new
from snapdb.plan.plan import NothingPlan, Plan, PlanNode
from snapdb.plan.queries import BoundQuery
from snapdb.plan.scope import BindContext
from snapdb.sql.syntax import Name, SqlFragment
from snapdb.sql.tables import AlterTable, CreateTable, Delete, Insert, Merge, Truncate, Update
from snapdb.sql_engine import temporary_name

_Changes = AlterTable | CreateTable | Delete | Insert | Merge | Truncate | Update
_S = TypeVar("_S", AlterTable, Delete, Insert, Merge, Truncate, Update)


@dataclass(frozen=True, slots=True)
class TemporaryPlan(Plan):
    """A statement that creates or changes a temporary table."""

    reads: ClassVar[bool] = True
    transactional: ClassVar[bool] = True

    query: BoundQuery
    """The statement, in which the table has its qualified name."""
    name: str
    returns: bool
    """Whether the rows are those of RETURNING, and not their number."""

    def source(self) -> BoundQuery | None:
        return None

    def describe(self) -> PlanNode:
        return PlanNode("Temporary", " ".join(self.query.text.split()))


def bind_create_temporary(statement: CreateTable, context: BindContext) -> Plan:
    """Bind CREATE TEMPORARY TABLE."""
    name, catalog = statement.name, context.catalog
    _check_plain(statement, name)
    known = catalog.definitions.get(("table", name.text.lower()))
    if check_new(catalog, name, ("table",) if known is not None else ()) and statement.if_not_exists:
        return NothingPlan(f'table "{name}" already exists')
    if known is not None and not statement.or_replace:
        raise BindError(
            f'table "{name}" already exists; choose another name, or write CREATE OR REPLACE TEMPORARY TABLE',
            span=name.span,
            code="exists",
        )
    replaced = Span(0, name.span.stop - statement.span.start)
    query = _bind(statement, context, replaced, f"CREATE OR REPLACE TABLE {temporary_name(name.text)}")
    return TemporaryPlan(query, name.text, returns=False)


def or_temporary(bind: Callable[[_S, BindContext], Plan]) -> Callable[[_S, BindContext], Plan]:
    """Return a binder that binds a statement on a temporary table as it is, and others with `bind`."""

    def bind_either(statement: _S, context: BindContext) -> Plan:
        known = context.catalog.definitions.get(("table", statement.table.text.lower()))
        if known is None:
            return bind(statement, context)
        _check_plain(statement, statement.table)
        start = statement.span.start
        place = Span(statement.table.span.start - start, statement.table.span.stop - start)
        query = _bind(statement, context, place, temporary_name(known.name))
        return TemporaryPlan(query, known.name, returns=getattr(statement, "returning", None) is not None)

    return bind_either


def _bind(statement: _Changes, context: BindContext, place: Span, new: str) -> BoundQuery:
    return context.bind_query(SqlFragment(statement.text, statement.span), replacements=[(place, new)])


def _check_plain(statement: _Changes, name: Name) -> None:
    if statement.message is not None:
        raise BindError(
            "temporary tables have no versions; leave MESSAGE out", span=statement.span, code="temporary-table"
        )
    if name.schema:
        raise BindError(
            f"a temporary table belongs to no schema; write {name.last}", span=name.span, code="temporary-table"
        )

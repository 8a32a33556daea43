"""Views as elements of graphs: a table of the same name contains their rows, which snapshots pin."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import TypeVar

from snapdb.errors import BindError, SnapdbError, Span
from snapdb.plan.names import check_schema, find_table
from snapdb.plan.plan import Plan, PlanNode
from snapdb.plan.scope import BindContext
from snapdb.sql.syntax import Name, SqlFragment, Statement
from snapdb.sql_engine import qualified
from snapdb.types import Definition, PropertyGraph, Table

_S = TypeVar("_S", bound=Statement)


_OF_ROWS = frozenset(("does-not-fit", "needs-event-time"))
"""The codes of errors that rows or columns of the views can correct after they were stored again."""


@dataclass(frozen=True, slots=True)
class OverViewsPlan(Plan):
    """A statement on a graph with views: the rows of the views are stored first, as a version."""

    statement: Statement
    plan: Plan | None
    """The plan over the rows that are stored now, for EXPLAIN, or None if they are too old for one."""
    views: tuple[Definition, ...]
    version: int | None
    """The version at which the stored rows must be those of the views, or None to store them at the head."""

    def describe(self) -> PlanNode:
        names = ", ".join(view.name for view in self.views)
        return PlanNode("StoreViewRows", names, () if self.plan is None else (self.plan.describe(),))


def over_views(
    bind: Callable[[_S, BindContext], Plan], views_of: Callable[[_S, BindContext], tuple[Iterable[str], int | None]]
) -> Callable[[_S, BindContext], Plan]:
    """Return a binder that binds a statement on a graph after the rows of the graph's views have been stored.

    Args:
        bind: The binder of the statement.
        views_of: Returns the names of the graph's tables and views, and the version that the statement reads, if it is
            not the head.
    """

    def bind_over(statement: _S, context: BindContext) -> Plan:
        if context.views_stored or not context.catalog.definitions:
            return bind(statement, context)
        names, version = views_of(statement, context)
        found = (context.catalog.view(name) for name in dict.fromkeys(name.lower() for name in names))
        views = tuple(view for view in found if view is not None)
        if not views or any(view.temporary for view in views):
            return bind(statement, context)
        try:
            plan = bind(statement, replace(context, views_stored=True))
        except SnapdbError as error:
            # Other errors do not depend on the stored rows, so nothing is stored.
            if version is not None or error.code not in _OF_ROWS:
                raise
            plan = None
        return OverViewsPlan(statement, plan, views, version)

    return bind_over


def tables_named(graph: PropertyGraph | None) -> list[str]:
    """Return the names of the tables and views that a graph reads, or none without a graph."""
    return [] if graph is None else list(graph.tables)


def find_rows(context: BindContext, name: Name) -> Table:
    """Return the table that an element of a graph reads. That of a view has the view's columns, even before its rows.

    Raises:
        BindError: The name is neither a table nor a view, or the view is temporary.
    """
    check_schema(context, name)
    view = context.catalog.view(name.text)
    if view is None:
        return find_table(context, name)
    if view.temporary:
        raise BindError(
            f"{view.name} is a temporary view, which other sessions could not read; create it as a view",
            span=name.span,
            code="temporary-table",
        )
    stored = context.catalog.tables.get(name.text.lower())
    return stored if stored is not None and fits_view(stored, view) else shape_of(context, view)


def fits_view(table: Table, view: Definition) -> bool:
    """Return whether a table has the columns of a view."""
    return [(c.name, c.type) for c in table.columns] == [(c.name, c.type) for c in view.columns]


def shape_of(context: BindContext, view: Definition) -> Table:
    """Return an empty table with the columns of a view."""
    columns = tuple(replace(column, field=field) for field, column in enumerate(view.columns, 1))
    return Table(0, view.name, columns, (), (), 0, context.catalog.version, 0, len(columns))


def view_query(view: Definition) -> SqlFragment:
    """Return the query of all rows of a view."""
    bare = view.name[len(view.schema) + 1 :] if view.schema else view.name
    text = f"SELECT * FROM {qualified(view.schema, bare)}"
    return SqlFragment(text, Span(0, len(text)))

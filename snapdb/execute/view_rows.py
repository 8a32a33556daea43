"""Stores the rows of views that graphs read, so that their snapshots pin them and find what changed.

A table with the name of a view contains the rows that the view had when it was last stored. Storing them again adds and
removes the rows that differ, as one version, so that ids stay and a refresh is incremental.
"""

import random
import time
from dataclasses import replace

from snapdb.catalog import load
from snapdb.errors import BindError, CommitConflict, SnapdbError
from snapdb.execute.results import Rows
from snapdb.execute.session import ExecutionContext, run
from snapdb.execute.tables.returned_rows import discard
from snapdb.plan.defined_names import tables_behind
from snapdb.plan.planner import bind_unlocated, optimize
from snapdb.plan.queries import BoundQuery
from snapdb.plan.scope import BindContext
from snapdb.plan.view_rows import OverViewsPlan, fits_view, shape_of, view_query
from snapdb.sql_engine import ROW_ID, SqlSession, quote, quote_all
from snapdb.storage.tables.commit import AddTable, Append, Change, Unchanged
from snapdb.storage.tables.segments import write_query, write_segment
from snapdb.types import Definition, Segment, Table

_ID = quote(ROW_ID)
_TRIES = 40
"""The number of times that rows are stored if other statements change the tables meanwhile."""
_LONGEST_WAIT = 0.1
"""The maximum delay in seconds before the next try. It begins with 2 ms and doubles with each try, with jitter."""


def over_views(plan: OverViewsPlan, context: ExecutionContext) -> Rows:
    """Store the rows of the views, or compare them at a version, and run the statement over them."""
    if plan.version is None:
        bind_context = _store(plan, context)
    else:
        bind_context = context.bind_context
        _check(plan.views, bind_context.catalog.version, bind_context.at_version(plan.version), plan.version)
    bind_context = replace(bind_context, views_stored=True)
    bound = optimize(bind_unlocated(plan.statement, bind_context), context.rules)
    return (yield from run(bound, replace(context, bind_context=bind_context)))


def _store(plan: OverViewsPlan, context: ExecutionContext) -> BindContext:
    """Store the rows of the views at the head, and return a context of the version that has them."""
    bind_context = context.bind_context
    for attempt in range(_TRIES):
        changes: list[Change] = []
        for view in plan.views:
            context.report(f"reading the rows of {view.name}", None)
            changes += _changes(context, bind_context, view)
        if not changes:
            return bind_context
        try:
            context.publish(changes, f"rows of {', '.join(view.name for view in plan.views)}", "", 0)
        except CommitConflict:
            if attempt == _TRIES - 1:
                raise
            time.sleep(random.uniform(0, min(0.002 * 2**attempt, _LONGEST_WAIT)))  # noqa: S311  # jitter, not a secret
        bind_context = replace(bind_context, catalog=load(context.store.catalog_db))
    return bind_context


def _changes(context: ExecutionContext, bind_context: BindContext, view: Definition) -> list[Change]:
    """Return the changes after which the table of a view has its rows, or none if it has them already."""
    query = bind_context.bind_query(view_query(view))
    table = bind_context.catalog.tables.get(view.name.lower())
    base = bind_context.catalog.version
    with bind_context.session(query) as session:
        current = replace(view, columns=tuple(session.describe(query.text)))
        if table is None or not fits_view(table, current):
            new = shape_of(bind_context, current)
            file = _write(context, session, new, f"{query.text} ORDER BY ALL")
            number, replaces = context.transactions.next_table(), None if table is None else table.id
            changed: list[Change] = [AddTable(number, view.name, new.columns, (file,), replaces, base, of_view=True)]
        else:
            changed = _differences(context, bind_context, session, table, query)
    catalog, kinds = bind_context.catalog, ("append", "delete", "alter")
    read = [catalog.tables[name] for name in tables_behind(catalog, [view.name])] if changed else []
    return [*(Unchanged(each.id, base, kinds) for each in read), *changed]


def _write(context: ExecutionContext, session: SqlSession, table: Table, text: str) -> Segment:
    return write_segment(context.store.db_dir, session, table.folder, table.columns, text)


def _differences(
    context: ExecutionContext, bind_context: BindContext, session: SqlSession, table: Table, query: BoundQuery
) -> list[Change]:
    """Return the removal and the addition of the rows in which the table and the view differ."""
    gone, come = _difference_queries(bind_context, table, query)
    removed = write_query(context.store.db_dir, session, table.folder, ("", gone, ""))
    added = _write(context, session, table, f"{come} ORDER BY ALL")
    changes: list[Change] = []
    if removed.rows:
        changes.append(context.transactions.removal(table, removed, bind_context.catalog.version))
    if added.rows:
        changes.append(Append(table.id, table.columns, (added,)))
    discard(context, *(file for file in (removed, added) if not file.rows))
    return changes


def _difference_queries(bind_context: BindContext, table: Table, query: BoundQuery) -> tuple[str, str]:
    """Return the query of the ids of rows that only the table has, and that of rows that only the view has.

    Equal rows are numbered, so that the rows differ by their number.
    """
    columns = quote_all(column.name for column in table.columns)
    stored = bind_context.rows(table, row_ids=True)
    numbered = f"row_number() OVER (PARTITION BY {columns} ORDER BY {{}}) AS {quote('snapdb number')}"
    before = f"SELECT *, {numbered.format(_ID)} FROM ({stored})"
    after = f"SELECT *, {numbered.format(columns)} FROM ({query.text})"
    names = [quote(column.name) for column in table.columns] + [quote("snapdb number")]
    same = " AND ".join(f"b.{name} IS NOT DISTINCT FROM a.{name}" for name in names)
    gone = f"SELECT {_ID} AS row_id FROM ({before}) b ANTI JOIN ({after}) a ON {same} ORDER BY row_id"
    come = f"SELECT {columns} FROM ({after}) a ANTI JOIN ({before}) b ON {same}"
    return gone, come


def _check(views: tuple[Definition, ...], head: int, then: BindContext, version: int) -> None:
    """Raise BindError unless the rows stored at a version are those that the views had then."""
    for view in views:
        table, known = then.catalog.tables.get(view.name.lower()), then.catalog.view(view.name)
        if table is not None and known is not None and _has_rows(then, table, known):
            continue
        if version == head:
            message = f"the rows of view {view.name} changed since they were stored; REFRESH SNAPSHOT stores them"
        else:
            message = (
                f"the rows of view {view.name} are not stored at version {version}, because no snapshot was taken "
                "then; leave AT out, or choose a version at which a snapshot of the graph was created or refreshed"
            )
        raise BindError(message, code="view-rows")


def _has_rows(then: BindContext, table: Table, view: Definition) -> bool:
    try:
        query = then.bind_query(view_query(view))
        with then.session(query) as session:
            current = replace(view, columns=tuple(session.describe(query.text)))
            if not fits_view(table, current):
                return False
            gone, come = _difference_queries(then, table, query)
            ((differs,),) = session.rows(f"SELECT EXISTS ({gone}) OR EXISTS ({come})")
    except SnapdbError:
        return False
    return not differs

"""WHEN of a task: whether a firing is to run, by a query that may ask how much a graph has changed."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping

import pyarrow as pa

from snapdb.catalog import load
from snapdb.errors import QueryError
from snapdb.execute.own_database import OwnDatabase
from snapdb.sql import parse
from snapdb.sql.conditions import changed_graphs, with_counts
from snapdb.storage.home import Home
from snapdb.storage.ledger import Ledger
from snapdb.storage.run_rows import last_ok
from snapdb.types import PropertyGraph, Task

__all__ = ["changed_rows", "condition_query", "holds"]

_CHANGED = """
    SELECT coalesce(sum(c.rows_added + c.rows_removed), 0) FROM changes c JOIN tables t ON t.id = c.table_id
    WHERE t.folded IN ({names}) AND c.version > ? AND c.version NOT IN (
        SELECT own.value FROM runs, json_each(runs.published) own WHERE runs.task = ?)
"""


def condition_query(home: Home, ledger: Ledger, task: Task) -> str | None:
    """The query whose only value tells whether the task is to run; None: it runs at every firing.

    Raises:
        BindError: a graph that it asks about is not there.
    """
    if task.condition is None:
        return None
    return f"SELECT ({with_counts(task.condition, _counts(home, ledger, task))})"


def holds(database: OwnDatabase, query: str) -> bool:
    """Whether a condition's query says so; NULL says no.

    Raises:
        QueryError: it gives no truth value.
    """
    (statement,) = parse(query)
    table = database.run(statement).arrow()
    if table.num_columns != 1 or table.num_rows != 1 or table.schema.types[0] not in (pa.bool_(), pa.null()):
        found = ", ".join(map(str, table.schema.types))
        raise QueryError(f"WHEN of a task asks for one truth value, found {table.num_rows:,} of type {found}; compare "
                         "with something, as in changed('shop') > 0", code="condition-value")  # fmt: skip
    return table.column(0)[0].as_py() is True


def changed_rows(connection: sqlite3.Connection, graph: PropertyGraph, task: int) -> int:
    """Rows added to and removed from a graph's tables since the last run of a task that ended well began.

    What the task itself published does not count.
    """
    last = last_ok(connection, task)
    names = [name.lower() for name in graph.tables]
    query = _CHANGED.format(names=", ".join("?" * len(names)))
    return int(connection.execute(query, (*names, 0 if last is None else last.version, task)).fetchone()[0])


def _counts(home: Home, ledger: Ledger, task: Task) -> Mapping[str, int]:
    asked = [name for name, _ in changed_graphs(task.condition or "")]
    if not asked:
        return {}
    catalog = load(home, ledger)
    graphs = {name: catalog.graph(name) for name in asked}
    with ledger.reading() as connection:
        return {name: changed_rows(connection, graph, task.id) for name, graph in graphs.items()}

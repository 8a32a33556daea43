"""WHEN of a task: whether a firing is to run, by a query that may ask how much a graph has changed."""

from __future__ import annotations

import json
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

_OF_OTHERS = """
    > ? AND {version} NOT IN (SELECT own.value FROM runs, json_each(runs.published) own WHERE runs.task = ?)
"""
_CHANGED = f"""
    SELECT coalesce(sum(c.rows_added + c.rows_removed), 0) FROM changes c JOIN tables t ON t.id = c.table_id
    WHERE t.folded IN (SELECT value FROM json_each(?)) AND c.version {_OF_OTHERS.format(version="c.version")}
"""
_REPLACED = f"""
    SELECT json_group_array(id) FROM tables
    WHERE folded IN (SELECT value FROM json_each(?)) AND dropped {_OF_OTHERS.format(version="dropped")}
"""
_HELD = """
    SELECT coalesce(sum(rows_added - rows_removed), 0) FROM changes WHERE table_id IN (SELECT value FROM json_each(?))
"""
"""How many rows tables held when they were dropped, which is no change of theirs."""


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
        raise QueryError(
            f"WHEN of a task asks for one truth value, found {table.num_rows:,} of type {found}; compare "
            "with something, as in changed('shop') > 0",
            code="condition-value",
        )
    return table.column(0)[0].as_py() is True


def changed_rows(connection: sqlite3.Connection, graph: PropertyGraph, task: int) -> int:
    """Rows added to and removed from a graph's tables since the last run of a task that ended well began.

    What the task itself published does not count.
    """
    last = last_ok(connection, task)
    given = (json.dumps([name.lower() for name in graph.tables]), 0 if last is None else last.version, task)
    (changed,) = connection.execute(_CHANGED, given).fetchone()
    (replaced,) = connection.execute(_REPLACED, given).fetchone()
    (held,) = connection.execute(_HELD, (replaced,)).fetchone() if replaced != "[]" else (0,)
    return int(changed) + int(held)


def _counts(home: Home, ledger: Ledger, task: Task) -> Mapping[str, int]:
    asked = [name for name, _ in changed_graphs(task.condition or "")]
    if not asked:
        return {}
    catalog = load(home, ledger)
    graphs = {name: catalog.graph(name) for name in asked}
    with ledger.reading() as connection:
        return {name: changed_rows(connection, graph, task.id) for name, graph in graphs.items()}

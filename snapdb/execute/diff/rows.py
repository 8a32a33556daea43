"""The rows of an element that exist on only one side, found at a cost proportional to the difference.

Rows are identified by their ids. If both sides select rows by the same rules and only their tables or windows
differ, only the files and times that differ are read. Otherwise all rows of both sides are read and compared.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Literal, NamedTuple

import pyarrow as pa

from snapdb.catalog import EdgeRows, VertexRows
from snapdb.catalog.elements import rows_beyond, time_expression
from snapdb.sql_engine import ROW_ID, SqlSession, quote, quote_all, text_literal
from snapdb.types import Column, Table, Window

ElementRows = EdgeRows | VertexRows


class Key(NamedTuple):
    """The identity of an element in any snapshot."""

    kind: Literal["vertex", "edge"]
    name: str
    """The case-folded name of the element."""


class Difference(NamedTuple):
    """SELECTs of rows with their ids. No row occurs in more than one SELECT."""

    added: tuple[str, ...]
    """SELECTs of the rows that exist in `after` but not in `before`."""
    removed: tuple[str, ...]
    """SELECTs of the rows that exist in `before` but not in `after`."""
    key: tuple[str, ...]
    """The key columns that match an added row to the removed row that it replaces. Empty for edges and for different
    tables."""


def difference(session: SqlSession, before: ElementRows | None, after: ElementRows | None) -> Difference:
    """Return the rows added to and removed from an element. A side is None if the element does not exist on it."""
    added, removed = _beyond(session, after, before), _beyond(session, before, after)
    same = isinstance(after, VertexRows) and before is not None and _same_thing(after, before)
    return Difference(added, removed, after.element.key if same and isinstance(after, VertexRows) else ())


def row_count(session: SqlSession, parts: Sequence[str]) -> int:
    """Return the total number of rows of the SELECTs."""
    return sum(int(session.rows(f"SELECT count(*) FROM ({part})")[0][0]) for part in parts)


def replaced(session: SqlSession, changes: Difference) -> int:
    """Count the added rows that replace a removed row of the same vertex."""
    if not (changes.added and changes.removed and changes.key):
        return 0
    keys = quote_all(changes.key)
    new, old = (
        " UNION ALL ".join(f"SELECT {keys} FROM ({part})" for part in parts)
        for parts in (changes.added, changes.removed)
    )
    return row_count(session, [f"SELECT * FROM ({new}) SEMI JOIN ({old}) USING ({keys})"])


def tally(session: SqlSession, changes: Difference) -> tuple[int, int, int]:
    """Count the added rows, removed rows and changed vertices. A changed vertex is also an added and removed row."""
    return row_count(session, changes.added), row_count(session, changes.removed), replaced(session, changes)


def _id_of(rows: ElementRows) -> str:
    """Return the quoted name of the row id column in the SELECTs of a difference."""
    return "e_id" if isinstance(rows, EdgeRows) else quote(ROW_ID)


def _beyond(session: SqlSession, one: ElementRows | None, other: ElementRows | None) -> tuple[str, ...]:
    """Return SELECTs of the rows that exist in `one` but not in `other`."""
    if one is None or one == other:
        return ()
    if other is None or not _same_thing(one, other):
        return (_numbered(one),)
    # If the rules differ, only ids can be compared, which reads all rows of both sides.
    if not _alike(session, one, other):
        if _within(session, one, other):
            return ()
        name = _id_of(one)
        return (
            f"SELECT o.* FROM ({_numbered(one)}) o ANTI JOIN (SELECT {name} FROM ({_numbered(other)})) USING ({name})",
        )
    # With equal rules, a row is missing on the other side only if that side's table lacks it or its window excludes it.
    # The SELECT for the second case omits rows of the first, so the SELECTs are disjoint.
    new = rows_beyond(session, one.root, one.table, other.table)
    old = f" AND {_id_of(one)} NOT IN (SELECT {quote(ROW_ID)} FROM ({new}))" if new else ""
    parts = [_numbered(replace(one, given=new))] if new else []
    outside = [f"SELECT * FROM ({_numbered(one)}) WHERE {left_out}{old}" for left_out in _left_out(one, other.window)]
    return (*parts, *outside)


def _numbered(rows: ElementRows) -> str:
    return rows.sql if isinstance(rows, EdgeRows) else rows.numbered


def _same_thing(one: ElementRows, other: ElementRows) -> bool:
    """Return whether two elements can have equal rows: the same table and, for vertices, the same key."""
    if isinstance(one, VertexRows) and isinstance(other, VertexRows):
        return one.table.id == other.table.id and one.element.key == other.element.key
    return type(one) is type(other) and one.table.id == other.table.id


def _alike(session: SqlSession, one: ElementRows, other: ElementRows) -> bool:
    """Return whether both sides select rows by the same rules, apart from their windows."""
    if isinstance(one, VertexRows) and isinstance(other, VertexRows):
        return _chosen_by_row(one) and _chosen_by_row(other) and _same_conditions(one, other)
    assert isinstance(one, EdgeRows)
    assert isinstance(other, EdgeRows)
    ends = ((one.source, other.source), (one.destination, other.destination))
    same = _same_rules(one, other) and _same_conditions(one, other)
    return same and all(_same_end(session, one, *end) for end in ends)


def _within(session: SqlSession, one: ElementRows, other: ElementRows) -> bool:
    """Return whether `other` is known to have every row of `one`, as with AS OF a later time."""
    if not _same_thing(one, other) or not _same_conditions(one, other) or any(_left_out(one, other.window)):
        return False
    if rows_beyond(session, one.root, one.table, other.table) is not None:
        return False
    if isinstance(one, VertexRows) and isinstance(other, VertexRows):
        return _chosen_by_row(one) and _chosen_by_row(other)
    assert isinstance(one, EdgeRows)
    assert isinstance(other, EdgeRows)
    ends = ((one.source, other.source), (one.destination, other.destination))
    return _same_rules(one, other) and all(_within(session, *end) for end in ends)


def _same_rules(one: EdgeRows, other: EdgeRows) -> bool:
    mine, theirs = one.element, other.element
    keys = (mine.source_key, mine.destination_key, mine.on_dangling)
    return keys == (theirs.source_key, theirs.destination_key, theirs.on_dangling) and one.end == other.end


def _chosen_by_row(rows: VertexRows) -> bool:
    """Return whether each row is selected by its own values alone. If duplicates are removed, other rows matter too."""
    return rows.element.on_duplicate == "ERROR"


def _same_conditions(one: ElementRows, other: ElementRows) -> bool:
    """Return whether filters and event times have the same meaning on both sides.

    A filter depends on its table's columns, so equal texts are not sufficient.
    """
    if [f.condition for f in one.filters] != [f.condition for f in other.filters]:
        return False
    if one.filters and (one.table.columns != other.table.columns or one.element.name != other.element.name):
        return False
    return one.time == other.time and one.element.nulls_static == other.element.nulls_static


def _same_end(session: SqlSession, edges: EdgeRows, one: VertexRows, other: VertexRows) -> bool:
    """Return whether both sides have the same vertices at this end of an edge."""
    skips = edges.element.on_dangling == "SKIP"
    if one == other or not (skips or one.selective or other.selective):
        return True
    if skips or one.window != other.window or not (_same_thing(one, other) and _alike(session, one, other)):
        return False
    # Both ends of the edge exist in both tables. If one table only has more rows than the other, the ends are the same.
    pairs = ((one.table, other.table), (other.table, one.table))
    return any(rows_beyond(session, one.root, *pair) is None for pair in pairs)


def _left_out(rows: ElementRows, window: Window) -> Iterator[str]:
    """Yield disjoint conditions for rows that are in their own window but not in `window`."""
    time, own = rows.time, rows.window
    if time is None:
        return
    end = rows.end if isinstance(rows, EdgeRows) else None
    late = window.stop is not None and (own.stop is None or own.stop > window.stop)
    if late:
        yield " AND ".join([_is(time, ">=", window.stop), _is(time, "<", own.stop)])
    if isinstance(rows, VertexRows):
        return
    if end is None:
        if window.start is not None and (own.start is None or own.start < window.start):
            yield " AND ".join([_is(time, "<", window.start), _is(time, ">=", own.start)])
    elif window.until_after is not None and (own.until_after is None or own.until_after < window.until_after):
        early = [_is(end, "<=", window.until_after), _is(end, ">", own.until_after)]
        # A vertex or edge without a time is in every window.
        begun = f"({time_expression(time)} IS NULL OR {_is(time, '<', window.stop)})"
        yield " AND ".join([*early, begun])


def _is(column: Column, sign: str, moment: int | None) -> str:
    """Return a comparison of event times.

    If the type allows it, the plain column is also compared, so that a scan can skip files based on their statistics.
    """
    if moment is None:
        return "true"
    name = quote(column.name)
    plain = {"TIMESTAMP": f"make_timestamp({moment})", "TIMESTAMP WITH TIME ZONE": f"make_timestamptz({moment})"}
    exact = f"{time_expression(column)} {sign} {moment}"
    return f"{exact} AND {name} {sign} {plain[column.type]}" if column.type in plain else exact


# The rows of a difference as batches: the removed rows of each element, followed by the added ones.


_E_ID = Column("e_id", "BIGINT")

_Changed = tuple[str, ElementRows | None, ElementRows | None, Difference]
"""An element's name, its rows before and after, and the difference between them."""


def changed_rows(session: SqlSession, elements: Sequence[_Changed]) -> Iterator[pa.RecordBatch]:
    """Yield batches of `change`, `element` and the union of the elements' columns. There is at least one batch."""
    columns = _union([column for _, before, after, _ in elements for column in _columns(after or before)])
    queries = [
        query
        for name, before, after, changes in elements
        for query in (
            *_side("-", name, before, after, changes.removed, columns),
            *_side("+", name, after, after or before, changes.added, columns),
        )
    ]
    if not queries:
        nothing = "".join(f", CAST(NULL AS {c.type}) AS {quote(c.name)}" for c in columns)
        queries = [f"SELECT '' AS change, '' AS element{nothing} WHERE false"]
    for number, query in enumerate(queries):
        for batch in session.exact_reader(query):
            if batch.num_rows or number == 0:
                yield batch


def column_value(column: Column, table: Table, shown: Table) -> str | None:
    """Return a column of the shown table, read from another version, or None if that version lacks the column."""
    same_table = table.id == shown.id
    for c in table.columns:
        if c.type == column.type and (c.field == column.field if same_table else c.name == column.name):
            return quote(c.name)
    return None


def _columns(rows: ElementRows | None) -> tuple[Column, ...]:
    if rows is None:
        return ()
    return (*rows.table.columns, _E_ID) if _id_of(rows) == _E_ID.name else rows.table.columns


def _union(columns: Sequence[Column]) -> list[Column]:
    """Return one column per name. Its type is VARCHAR if the types differ."""
    by_name: dict[str, Column] = {}
    for column in columns:
        known = by_name.setdefault(column.name.lower(), Column(column.name, column.type))
        if known.type != column.type:
            by_name[column.name.lower()] = Column(known.name, "VARCHAR")
    return list(by_name.values())


def _side(
    sign: str,
    name: str,
    rows: ElementRows | None,
    shown: ElementRows | None,
    parts: Sequence[str],
    columns: Sequence[Column],
) -> list[str]:
    """Return the SELECTs of the rows added to or removed from one element, sorted by row id."""
    if rows is None or shown is None or not parts:
        return []
    own = {c.name.lower(): c for c in _columns(shown)}
    values = "".join(
        f", CAST({_value(own.get(c.name.lower()), rows, shown)} AS {c.type}) AS {quote(c.name)}" for c in columns
    )
    union = " UNION ALL ".join(f"({part})" for part in parts)
    return [
        f"SELECT '{sign}' AS change, {text_literal(name)} AS element{values} FROM ({union}) r ORDER BY r.{_id_of(rows)}"
    ]


def _value(column: Column | None, rows: ElementRows, shown: ElementRows) -> str:
    if column is None:
        return "NULL"
    if column == _E_ID:
        return _E_ID.name
    return column_value(column, rows.table, shown.table) or "NULL"

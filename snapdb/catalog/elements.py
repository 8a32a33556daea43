"""The SELECTs that read a graph's vertices and edges, and the row differences between two states of a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from snapdb.arrays import Int64s
from snapdb.sql_engine import ROW_ID, SqlSession, deleted_rows, quote, quote_all, table_rows
from snapdb.types import ALL_TIME, Column, EdgeElement, Filter, Properties, Snapshot, Table, VertexElement, Window

_ID = quote(ROW_ID)


def time_expression(column: Column, prefix: str = "") -> str:
    """Return a time column as BIGINT: microseconds since 1970 UTC, or the user's integers.

    Infinite times become NULL.
    """
    name = prefix + quote(column.name)
    if column.type == "DATE":
        return f"epoch_us(CAST({name} AS TIMESTAMP))"
    return f"epoch_us({name})" if column.type.startswith("TIMESTAMP") else f"CAST({name} AS BIGINT)"


@dataclass(frozen=True, slots=True)
class VertexRows:
    """The rows of one vertex type."""

    element: VertexElement
    table: Table
    root: Path
    """The database directory."""
    filters: tuple[Filter, ...] = ()
    window: Window = ALL_TIME
    """The event-time window. Vertices whose time is after its end are excluded."""
    given: str | None = None
    """A SELECT of the rows to read, with `ROW_ID`, or None for the whole table."""

    @property
    def sql(self) -> str:
        """A SELECT of the table's columns for rows that pass filters and window, or one row per key if requested."""
        return self._select(quote_all(c.name for c in self.table.columns), plain=not self.given)

    @property
    def numbered(self) -> str:
        """The same SELECT with the row ids as `ROW_ID`."""
        return self._select(f"{quote_all(c.name for c in self.table.columns)}, {_ID}", plain=False)

    def _select(self, columns: str, *, plain: bool) -> str:
        plain = plain and not self.selective and self.element.on_duplicate == "ERROR"
        source = self.given or table_rows(self.table, self.root, row_ids=not plain)
        if plain:
            return source
        where = _where([*self._born(), *(f.condition for f in self.filters)])
        chosen = ""
        if self.element.on_duplicate != "ERROR":
            order = "" if self.element.on_duplicate == "FIRST" else " DESC"
            keys = quote_all(self.element.key)
            # Only keys pass through the window, so that wide columns do not have to be sorted, and spilled.
            first = f"row_number() OVER (PARTITION BY {keys} ORDER BY {_ID}{order}) = 1"
            chosen = f" WHERE {_ID} IN (SELECT {_ID} FROM ({source}) QUALIFY {first})"
        # One of the duplicates is selected before the filters are applied, so the filters may then exclude it.
        inner = f"SELECT * FROM ({source}){chosen}"
        return f"SELECT {columns} FROM ({inner}) AS {quote(self.element.name)}{where}"

    @property
    def tables(self) -> tuple[Table, ...]:
        """The tables that `sql` reads."""
        return (self.table,)

    @property
    def selective(self) -> bool:
        """Whether any rows of the table can be excluded."""
        return bool(self.filters) or bool(self._born())

    @property
    def time(self) -> Column | None:
        """The event-time column, or None."""
        return self.table.column(self.element.event_time) if self.element.event_time else None

    def _born(self) -> list[str]:
        if self.time is None or self.window.stop is None:
            return []
        time = time_expression(self.time)
        return [_or_static(self.element, time, f"{time} < {self.window.stop}")]


@dataclass(frozen=True, slots=True)
class EdgeRows:
    """The rows of one edge type."""

    element: EdgeElement
    table: Table
    root: Path
    source: VertexRows
    destination: VertexRows
    window: Window = ALL_TIME
    filters: tuple[Filter, ...] = ()
    given: str | None = None
    """A SELECT of the rows to read, with `ROW_ID`, or None for the whole table."""

    @property
    def sql(self) -> str:
        """A SELECT of the table's columns and e_id. Rows pass the filters and the window, and both ends exist."""
        columns = f"{quote_all(c.name for c in self.table.columns)}, e_id"
        conditions = [*self._within(), *(f.condition for f in self.filters)]
        # Otherwise both ends of every edge exist, because a dangling edge is an error.
        if self.source.selective or self.element.on_dangling == "SKIP":
            conditions.append(_end_exists(self.element.source_key, self.source))
        if self.destination.selective or self.element.on_dangling == "SKIP":
            conditions.append(_end_exists(self.element.destination_key, self.destination))
        rows = self.given or table_rows(self.table, self.root, row_ids=True)
        source = f"SELECT * EXCLUDE ({_ID}), {_ID} AS e_id FROM ({rows})"
        return f"SELECT {columns} FROM ({source}) AS {quote(self.element.name)}{_where(conditions)}"

    @property
    def tables(self) -> tuple[Table, ...]:
        """The tables that `sql` reads."""
        skips = self.element.on_dangling == "SKIP"
        ends = [end.table for end in (self.source, self.destination) if skips or end.selective]
        return (self.table, *ends)

    @property
    def whole(self) -> EdgeRows:
        """The same rows without the window and filters."""
        source, destination = (replace(end, filters=(), window=ALL_TIME) for end in (self.source, self.destination))
        return replace(self, window=ALL_TIME, filters=(), source=source, destination=destination)

    @property
    def time(self) -> Column | None:
        """The column with the time of an event (or its start if it has a duration), or None without event times."""
        return self.table.column(self.element.event_time) if self.element.event_time else None

    @property
    def end(self) -> Column | None:
        """The column with the end of an event, or None for events without a duration."""
        return self.table.column(self.element.event_end) if self.element.event_end else None

    def _within(self) -> list[str]:
        if self.time is None:
            return []
        time, window = time_expression(self.time), self.window
        conditions = [] if window.stop is None else [f"{time} < {window.stop}"]
        if self.end is None and window.start is not None:
            conditions.append(f"{time} >= {window.start}")
        within = [_or_static(self.element, time, " AND ".join(conditions))] if conditions else []
        if self.end is not None and window.until_after is not None:
            end = time_expression(self.end)
            within.append(f"{end} IS NULL OR {end} > {window.until_after}")
        return within


def _or_static(element: VertexElement | EdgeElement, time: str, condition: str) -> str:
    return f"{time} IS NULL OR ({condition})" if element.nulls_static else condition


def shown_rows(rows: VertexRows | EdgeRows) -> str:
    """Return a SELECT of an element's columns in a snapshot."""
    if rows.element.properties is None:
        return rows.sql
    shown = shown_columns(rows.element, [c.name for c in rows.table.columns])
    columns = ", ".join(quote(name) if name == new else f"{quote(name)} AS {quote(new)}" for name, new in shown)
    return f"SELECT {columns} FROM ({rows.sql})"


def shown_columns(element: VertexElement | EdgeElement, columns: Sequence[str]) -> list[tuple[str, str]]:
    """Return the columns of an element in a snapshot, together with their names in the snapshot."""
    properties = element.properties or Properties(excepted=())
    shown = properties.shown(columns, element.needed)
    return [*shown, ("e_id", "e_id")] if isinstance(element, EdgeElement) else shown


def element_columns(element: VertexElement | EdgeElement, table: Table) -> tuple[Column, ...]:
    """Return the columns of a table's element in a snapshot, with their types."""
    types = {"e_id": "BIGINT"} | {c.name: c.type for c in table.columns}
    return tuple(Column(new, types[name]) for name, new in shown_columns(element, [c.name for c in table.columns]))


def snapshot_rows(snapshot: Snapshot, tables: Mapping[str, Table], root: Path) -> dict[str, VertexRows | EdgeRows]:
    """Map the name of each element of a snapshot to its rows.

    Args:
        snapshot: The snapshot.
        tables: The tables at the snapshot's version, by case-folded name.
        root: The database directory.
    """
    vertices = {
        v.name: VertexRows(v, tables[v.table.lower()], root, _filters(snapshot, v.name), snapshot.window)
        for v in snapshot.graph.vertices
    }
    edges = {
        e.name: EdgeRows(
            e,
            tables[e.table.lower()],
            root,
            vertices[e.source],
            vertices[e.destination],
            snapshot.window,
            _filters(snapshot, e.name),
        )
        for e in snapshot.graph.edges
    }
    return {**vertices, **edges}


def _filters(snapshot: Snapshot, element: str) -> tuple[Filter, ...]:
    return tuple(f for f in snapshot.filters if f.element == element)


def _end_exists(columns: Sequence[str], vertices: VertexRows) -> str:
    return f"{_row(columns)} IN (SELECT {_row(vertices.element.key)} FROM ({vertices.sql}))"


def _row(columns: Sequence[str]) -> str:
    return f"({quote_all(columns)})" if len(columns) > 1 else quote_all(columns)


def _where(conditions: Sequence[str]) -> str:
    return " WHERE " + " AND ".join(f"({c})" for c in conditions) if conditions else ""


def rows_beyond(session: SqlSession, root: Path, one: Table | None, other: Table | None) -> str | None:
    """Return a SELECT of the rows, with their ids, that are in `one` but not in `other`, or None if there are none."""
    if one is None:
        return None
    if other is None or one.id != other.id:  # a different table with the same name
        return table_rows(one, root, row_ids=True)
    parts = [part for part in (_newer(root, one, other), _removed(session, root, one, other)) if part is not None]
    return " UNION ALL ".join(f"({part})" for part in parts) or None


def _newer(root: Path, one: Table, other: Table) -> str | None:
    """Return a SELECT of the rows that were added after `other`, or None."""
    files = tuple(s for s in one.segments if s.first + s.rows > other.next_row)
    if one.next_row <= other.next_row or not files:
        return None
    rows = table_rows(replace(one, segments=files), root, row_ids=True)
    return f"SELECT * FROM ({rows}) WHERE {_ID} >= {other.next_row}"


def deleted_beyond(session: SqlSession, root: Path, one: Table, other: Table) -> Int64s:
    """Return the ids, in any order, of the rows of `one` that are deleted in `other`, another version of the table."""
    ids = _deleted(root, one, other)
    return np.empty(0, np.int64) if ids is None else session.table(ids).column(0).to_numpy()


def _deleted(root: Path, one: Table, other: Table) -> str | None:
    """Return a SELECT of the row_id of the rows that are deleted only in `other`, or None."""
    theirs = [s for s in other.deletes if s not in one.deletes]
    if not theirs:
        return None
    ids = f"SELECT row_id FROM ({deleted_rows(theirs, root)}) WHERE row_id < {one.next_row}"
    if mine := [s for s in one.deletes if s not in other.deletes]:
        ids += f" EXCEPT ({deleted_rows(mine, root)})"
    return ids


def _removed(session: SqlSession, root: Path, one: Table, other: Table) -> str | None:
    """Return a SELECT of the rows that are deleted only in `other`. It reads only the files that contain such rows."""
    ids = _deleted(root, one, other)
    if ids is None:
        return None
    removed = session.table(ids).column(0).to_numpy()
    firsts = np.array([s.first for s in one.segments], np.int64)
    # Row ids are consecutive within a file, so a binary search finds the files of deleted rows.
    hit = np.unique(np.searchsorted(firsts, removed, side="right") - 1)
    if not hit.size:
        return None
    rows = table_rows(replace(one, segments=tuple(one.segments[i] for i in hit), deletes=()), root, row_ids=True)
    return f"SELECT * FROM ({rows}) WHERE {_ID} IN ({ids})"

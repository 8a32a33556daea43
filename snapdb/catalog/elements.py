"""The SELECTs that read a graph's vertices and edges: what SQL sees of a snapshot, and what topologies come from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from snapdb.relational import ROW_ID, quote, quote_all, table_rows
from snapdb.types import ALL_TIME, Column, EdgeElement, Filter, Snapshot, Table, VertexElement, Window

__all__ = ["EdgeRows", "VertexRows", "snapshot_views", "time_expression"]

_ID = quote(ROW_ID)


def time_expression(column: Column, prefix: str = "") -> str:
    """A time column as BIGINT: microseconds since 1970 UTC, or the user's integer. Infinite times give NULL."""
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

    @property
    def sql(self) -> str:
        """SELECT of the table's columns: filtered, and one row a key where the graph says which one counts."""
        columns = quote_all(c.name for c in self.table.columns)
        plain = not self.filters and self.element.on_duplicate == "ERROR"
        source = table_rows(self.table, self.root, row_ids=not plain)
        if plain:
            return source
        where = _where([f.condition for f in self.filters])
        chosen = ""
        if self.element.on_duplicate != "ERROR":
            order = "" if self.element.on_duplicate == "FIRST" else " DESC"
            keys = quote_all(self.element.key)
            chosen = f" QUALIFY row_number() OVER (PARTITION BY {keys} ORDER BY {_ID}{order}) = 1"
        # The choice among duplicates comes first: a filter may then drop the row that was chosen.
        inner = f"SELECT * FROM ({source}){chosen}"
        return f"SELECT {columns} FROM ({inner}) AS {quote(self.element.name)}{where}"


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

    @property
    def sql(self) -> str:
        """SELECT of the table's columns and e_id: within the window, filtered, both ends in the snapshot."""
        columns = f"{quote_all(c.name for c in self.table.columns)}, e_id"
        conditions = [*self._within(), *(f.condition for f in self.filters)]
        if self.source.filters or self.element.on_dangling == "SKIP":
            conditions.append(_end_exists(self.element.source_key, self.source))
        if self.destination.filters or self.element.on_dangling == "SKIP":
            conditions.append(_end_exists(self.element.destination_key, self.destination))
        rows = table_rows(self.table, self.root, row_ids=True)
        source = f"SELECT * EXCLUDE ({_ID}), {_ID} AS e_id FROM ({rows})"
        return f"SELECT {columns} FROM ({source}) AS {quote(self.element.name)}{_where(conditions)}"

    @property
    def whole(self) -> EdgeRows:
        """The same without window and filters."""
        source, destination = replace(self.source, filters=()), replace(self.destination, filters=())
        return replace(self, window=ALL_TIME, filters=(), source=source, destination=destination)

    @property
    def time(self) -> Column | None:
        """The event-time column."""
        return self.table.column(self.element.event_time) if self.element.event_time else None

    def _within(self) -> list[str]:
        if self.time is None:
            return []
        time = time_expression(self.time)
        bounds = (("<=", self.window.start), (">", self.window.stop))
        return [f"{bound} {sign} {time}" for sign, bound in bounds if bound is not None]


def snapshot_views(snapshot: Snapshot, tables: Mapping[str, Table], root: Path) -> dict[str, str]:
    """Element name → SELECT, for every element of a snapshot.

    Args:
        tables: The tables at the snapshot's version, by case-folded name.
    """
    vertices = {
        v.name: VertexRows(v, tables[v.table.lower()], root, _filters(snapshot, v.name))
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
    views = {name: rows.sql for name, rows in vertices.items()}
    return views | {name: rows.sql for name, rows in edges.items()}


def _filters(snapshot: Snapshot, element: str) -> tuple[Filter, ...]:
    return tuple(f for f in snapshot.filters if f.element == element)


def _end_exists(columns: Sequence[str], vertices: VertexRows) -> str:
    return f"{_row(columns)} IN (SELECT {_row(vertices.element.key)} FROM ({vertices.sql}))"


def _row(columns: Sequence[str]) -> str:
    return f"({quote_all(columns)})" if len(columns) > 1 else quote_all(columns)


def _where(conditions: Sequence[str]) -> str:
    return " WHERE " + " AND ".join(f"({c})" for c in conditions) if conditions else ""

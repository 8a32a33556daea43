"""The same elements at an earlier (or later) version of their tables, to find what is other since."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from snapdb.catalog import tables_at
from snapdb.execute.graph_data import EdgeData, VertexData
from snapdb.execute.operator import Engine
from snapdb.types import Table


def vertices_at(engine: Engine, data: VertexData, version: int) -> VertexData | None:
    """The vertex type as its table was at a version; None when the table was not there."""
    return _vertices(data, _tables(engine, version))


def edges_at(engine: Engine, data: EdgeData, version: int) -> EdgeData | None:
    """The edge type as its tables were at a version; None when one was not there."""
    tables = _tables(engine, version)
    source, destination = _vertices(data.source, tables), _vertices(data.destination, tables)
    table = tables.get(data.rows.table.id)
    if source is None or destination is None or table is None:
        return None
    rows = replace(data.rows, table=table, source=source.rows, destination=destination.rows)
    return replace(data, rows=rows, source=source, destination=destination)


def vertex_facts(data: VertexData, *, state: bool) -> list[Any]:
    """What decides which rows, with which dense ids, a vertex type has; without `state` at any version."""
    table, element = data.rows.table, data.rows.element
    facts = [table.id, data.id_map.id, element.on_duplicate, fields(table, element.key)]
    return [*facts, table.state] if state else facts


def edge_facts(data: EdgeData, *, state: bool) -> list[Any]:
    """The same of an edge type."""
    table, element = data.rows.table, data.rows.element
    keys = [fields(table, element.source_key), fields(table, element.destination_key)]
    facts = [vertex_facts(end, state=state) for end in (data.source, data.destination)]
    return [table.id, element.on_dangling, keys, facts, table.state if state else None]


def fields(table: Table, names: Sequence[str | None]) -> list[int | None]:
    """What stays of columns when they are renamed."""
    found = [None if name is None else table.column(name) for name in names]
    return [None if column is None else column.field for column in found]


def newest(*elements: VertexData | EdgeData) -> int:
    """The last version that changed one of the tables."""
    return max(e.rows.table.state for e in elements)


def _tables(engine: Engine, version: int) -> dict[int, Table]:
    return {table.id: table for table in tables_at(engine.home, engine.ledger, version).values()}


def _vertices(data: VertexData, tables: dict[int, Table]) -> VertexData | None:
    table = tables.get(data.rows.table.id)
    return None if table is None else replace(data, rows=replace(data.rows, table=table))

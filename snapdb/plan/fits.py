"""Which column types can be keys, times, weights, features and targets, and whether tables still fit a graph."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from snapdb.storage.features import is_feature_type
from snapdb.types import Column, EdgeElement, PropertyGraph, Table, VertexElement

__all__ = ["is_event_time", "is_key", "is_target", "is_weight", "key_family", "misfits"]

_INTEGERS = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT")
_KEYS = ("integer", "TIMESTAMP", "VARCHAR", "UUID", "DATE", "BOOLEAN", "BLOB")
_NUMBERS = (*_INTEGERS, *(f"U{t}" for t in _INTEGERS), "FLOAT", "DOUBLE")


def key_family(type_: str) -> str:
    """Types whose keys can be compared have the same family.

    >>> key_family("INTEGER") == key_family("UBIGINT"), key_family("VARCHAR")
    (True, 'VARCHAR')
    """
    plain = type_.removeprefix("U") if type_ != "UUID" else type_
    if "[" in type_:
        return type_
    if plain in _INTEGERS:
        return "integer"
    if type_.startswith("ENUM"):
        return "VARCHAR"
    return "TIMESTAMP" if type_.startswith("TIMESTAMP") else type_


def is_key(type_: str) -> bool:
    """Integers, strings, UUIDs, dates, timestamps, booleans, blobs and decimals."""
    return key_family(type_) in _KEYS or (type_.startswith("DECIMAL") and "[" not in type_)


def is_event_time(type_: str) -> bool:
    """Timestamps of any zone, dates and integers; nanoseconds and floats would lose bits."""
    family = key_family(type_)
    return family in ("integer", "DATE") or (family == "TIMESTAMP" and type_ != "TIMESTAMP_NS")


def is_weight(type_: str) -> bool:
    """Numbers."""
    return type_ in _NUMBERS or (type_.startswith("DECIMAL") and "[" not in type_)


def is_target(type_: str) -> bool:
    """Numbers, booleans and strings."""
    return is_weight(type_) or key_family(type_) in ("VARCHAR", "BOOLEAN")


def misfits(graph: PropertyGraph, tables: Mapping[str, Table]) -> Iterator[str]:
    """What keeps these tables (by lower-case name) from being the graph's, each as a clause."""
    for element in graph.elements:
        table = tables.get(element.table.lower())
        if table is None:
            yield f'there is no table "{element.table}"'
            continue
        columns = {name: table.column(name) for name in element.columns}
        missing = [name for name, column in columns.items() if column is None]
        yield from (f'table {table.name} has no column "{name}"' for name in missing)
        if not missing:
            found = {name: column for name, column in columns.items() if column is not None}
            yield from _wrong_types(graph, element, table, found, tables)


def _wrong_types(
    graph: PropertyGraph,
    element: VertexElement | EdgeElement,
    table: Table,
    columns: Mapping[str, Column],
    tables: Mapping[str, Table],
) -> Iterator[str]:
    roles = [(name, "a feature", is_feature_type) for spec in element.features for name in spec.columns]
    if isinstance(element, VertexElement):
        roles += [(name, "a key", is_key) for name in element.key]
        roles += [(element.target, "a target", is_target)] if element.target else []
    else:
        if table.column("e_id") is not None:
            yield f"edge table {table.name} has a column e_id, a name that snapshots need"
        roles += [(element.event_time, "an event time", is_event_time)] if element.event_time else []
        roles += [(element.weight, "a weight", is_weight)] if element.weight else []
        for key, end in ((element.source_key, element.source), (element.destination_key, element.destination)):
            yield from _wrong_keys(graph, table, key, end, tables)
    for name, role, fits in roles:
        if not fits(columns[name].type):
            yield f'column "{name}" of table {table.name} has type {columns[name].type}, which cannot be {role}'


def _wrong_keys(
    graph: PropertyGraph, table: Table, key: tuple[str, ...], end: str, tables: Mapping[str, Table]
) -> Iterator[str]:
    vertex = graph.vertex(end)
    assert vertex is not None
    vertices = tables.get(vertex.table.lower())
    for name, referred in zip(key, vertex.key, strict=True):
        here, there = table.column(name), vertices.column(referred) if vertices else None
        if here is not None and there is not None and key_family(here.type) != key_family(there.type):
            yield f"{table.name}.{name} is {here.type}, but {there.name} of {vertex.name} is {there.type}"

"""The keys of a graph: of vertices, said or told by the edges, and of the two ends of every edge."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from snapdb.errors import BindError
from snapdb.plan.fits import is_key, key_family
from snapdb.plan.names import find_column
from snapdb.plan.scope import Context
from snapdb.relational import quote_odd
from snapdb.sql.ast import ColumnList, CreateGraph, EdgeClause, Name, VertexClause
from snapdb.types import Column, PropertyGraph, Table
from snapdb.types.text import did_you_mean


def vertex_key(statement: CreateGraph, clause: VertexClause) -> ColumnList:
    """The columns of a vertex's KEY; where it has none those that the edges refer to, all alike."""
    if clause.key:
        return clause.key
    name = clause.alias or clause.table
    said = [columns for columns in _referred(statement, name.text) if columns]
    written = quote_odd(name.text)
    if not said:
        raise BindError(
            f"{name} has no KEY, and no edge says REFERENCES {written} (columns); write {written} KEY (columns)",
            span=name.span,
            code="missing-key",
        )
    for other in said[1:]:
        if _folded(other) != _folded(said[0]):
            ways = f"({_listed(said[0])}) and by ({_listed(other)})"
            raise BindError(
                f"the edges refer to {name} by {ways}; write which is its KEY, and refer to that",
                span=other[0].span,
                code="key-mismatch",
            )
    return said[0]


def _referred(statement: CreateGraph, vertex: str) -> Iterator[ColumnList]:
    """The columns after REFERENCES of every end of an edge at a vertex."""
    for edge in statement.edges:
        for name, columns in ((edge.source, edge.source_columns), (edge.destination, edge.destination_columns)):
            if name.text.lower() == vertex.lower():
                yield columns


def _folded(names: Sequence[Name]) -> list[str]:
    return sorted(name.text.lower() for name in names)


def _listed(names: Sequence[Name]) -> str:
    return ", ".join(map(str, names))


def check_ends(clause: EdgeClause) -> None:
    """Nothing when the two ends of an edge are told apart."""
    said = clause.source_key or clause.destination_key
    if not said and clause.source.text.lower() == clause.destination.text.lower():
        vertex = quote_odd(clause.source.text)
        raise BindError(
            f"{clause.table} would go from each {clause.source} to itself; say which columns are which "
            f"end: SOURCE KEY (columns) REFERENCES {vertex} DESTINATION KEY (columns) REFERENCES {vertex}",
            span=clause.source.span,
            code="missing-key",
        )


def bind_end(
    context: Context, graph: PropertyGraph, table: Table, key: Sequence[Name], name: Name, named: Sequence[Name]
) -> tuple[str, tuple[str, ...]]:
    """One end of an edge: the vertex type's name, and the edge table's columns in the order of its key."""
    vertex = graph.vertex(name.text)
    if vertex is None:
        known = [v.name for v in graph.vertices]
        hint = did_you_mean(name.text, known) or f"; the graph has {', '.join(known)}"
        raise BindError(
            f'no vertex type "{name}" in graph {graph.name}{hint}', span=name.span, code="unknown-vertex-type"
        )
    key = key or [_same_name(table, column, name) for column in vertex.key]
    vertices = context.catalog.table(vertex.table)
    columns = [key_column(table, column) for column in key]
    wanted = [find_column(vertices, n).name for n in named] or list(vertex.key)
    if sorted(wanted) != sorted(vertex.key) or len(columns) != len(wanted):
        keys = ", ".join(vertex.key)
        raise BindError(
            f"{vertex.name} has KEY ({keys}); {table.name} must refer to just these columns",
            span=(named or key)[0].span,
            code="key-mismatch",
        )
    pairs = dict(zip(wanted, columns, strict=True))
    for (referred, column), place in zip(pairs.items(), key, strict=True):
        there = vertices.column(referred)
        assert there is not None
        if key_family(there.type) != key_family(column.type):
            differ = f"{table.name}.{column.name} is {column.type}, but {vertices.name}.{referred} is {there.type}"
            raise BindError(f"{differ}; cast one of them when loading", span=place.span, code="key-mismatch")
    return vertex.name, tuple(pairs[k].name for k in vertex.key)


def _same_name(table: Table, column: str, vertex: Name) -> Name:
    """The edge table's column that is called as one of the vertex's key, at the vertex's place."""
    if table.column(column) is None:
        raise BindError(
            f'table {table.name} has no column "{column}", the key of {vertex}; write KEY (columns) '
            f"REFERENCES {quote_odd(vertex.text)}",
            span=vertex.span,
            code="unknown-column",
        )
    return Name(column, vertex.span)


def key_column(table: Table, name: Name) -> Column:
    """The column of that name when it can be a key, or BindError at its place."""
    column = find_column(table, name)
    if not is_key(column.type):
        raise BindError(
            f'column "{column.name}" of type {column.type} cannot be a key; '
            "keys are integers, strings, UUIDs, dates, timestamps or decimals",
            span=name.span,
            code="column-type",
        )
    return column

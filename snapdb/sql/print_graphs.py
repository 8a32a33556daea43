"""CREATE PROPERTY GRAPH as text: the clauses of each element in one order, labels last."""

from __future__ import annotations

from collections.abc import Sequence

from snapdb.sql.ast import (
    ClassesClause,
    ColumnList,
    CreateGraph,
    EdgeClause,
    EventTime,
    FeatureClause,
    LabelClause,
    Name,
    PropertiesClause,
    VertexClause,
)
from snapdb.sql.print_parts import WIDTH, clauses, creation, listed, name, named, number, statement, string


def print_create_graph(tree: CreateGraph) -> str:
    """CREATE PROPERTY GRAPH."""
    return statement(
        creation("PROPERTY GRAPH", tree.name, or_replace=tree.or_replace, if_not_exists=tree.if_not_exists),
        _tables("VERTEX TABLES", [_vertex(vertex) for vertex in tree.vertices]),
        bool(tree.edges) and _tables("EDGE TABLES", [_edge(edge) for edge in tree.edges]),
    )


def _tables(keyword: str, elements: Sequence[str]) -> str:
    """Elements in parentheses, one a line where all of them do not fit on one."""
    line = f"{keyword} ({', '.join(elements)})"
    return line if len(line) <= WIDTH else f"{keyword} (\n    " + ",\n    ".join(elements) + ")"


def _vertex(vertex: VertexClause) -> str:
    return clauses(
        name(vertex.table),
        named("AS", vertex.alias),
        bool(vertex.key) and f"KEY {listed(vertex.key)}",
        _event_time(vertex.event_time),
        _features(vertex.features),
        vertex.target and f"TARGET ({clauses(name(vertex.target), _classes(vertex.classes), 'AS y')})",
        vertex.on_duplicate != "ERROR" and f"ON DUPLICATE KEY {vertex.on_duplicate}",
        *_told(vertex.properties, vertex.labels),
    )


def _classes(classes: ClassesClause | None) -> str | None:
    return None if classes is None else f"CLASSES ({', '.join(map(string, classes.values))})"


def _edge(edge: EdgeClause) -> str:
    return clauses(
        name(edge.table),
        named("AS", edge.alias),
        bool(edge.key) and f"KEY {listed(edge.key)}",
        _end("SOURCE", edge.source_key, edge.source, edge.source_columns),
        _end("DESTINATION", edge.destination_key, edge.destination, edge.destination_columns),
        _event_time(edge.event_time),
        edge.weight and f"WEIGHT ({name(edge.weight)})",
        _features(edge.features),
        edge.on_dangling != "ERROR" and f"ON DANGLING {edge.on_dangling}",
        *_told(edge.properties, edge.labels),
    )


def _end(keyword: str, key: ColumnList, vertex: Name, columns: ColumnList) -> str:
    said = f"{keyword} KEY {listed(key)} REFERENCES" if key else keyword
    return clauses(said, name(vertex), bool(columns) and listed(columns))


def _event_time(time: EventTime | None) -> str | None:
    return None if time is None else clauses(f"EVENT TIME {listed(time.columns)}", time.nulls_static and "NULLS STATIC")


def _features(features: Sequence[FeatureClause]) -> str | None:
    return f"FEATURES ({', '.join(map(_feature, features))})" if features else None


def _feature(feature: FeatureClause) -> str:
    """A feature; one column in parentheses says the same as without them, but only under a name."""
    sparse, history = feature.sparse, feature.history
    width = "" if sparse is None or sparse.width is None else f" [{sparse.width}]"
    return clauses(
        name(feature.columns[0]) if len(feature.columns) == 1 else listed(feature.columns),
        named("AS", feature.name),
        named("TYPE", feature.dtype),
        sparse and f"SPARSE{width}",
        history and f"FROM {name(history.table)} KEY {listed(history.key)} EVENT TIME ({name(history.event_time)})",
        feature.default is not None and f"DEFAULT {number(feature.default)}",
    )


def _told(properties: PropertiesClause | None, labels: Sequence[LabelClause]) -> list[str | None]:
    """The element's own properties, then each label with its own."""
    return [_properties(properties), *map(_label, labels)]


def _label(label: LabelClause) -> str:
    return clauses(
        "DEFAULT LABEL" if label.name is None else f"LABEL {name(label.name)}", _properties(label.properties)
    )


def _properties(properties: PropertiesClause | None) -> str | None:
    if properties is None:
        return None
    if properties.all:
        excepted = properties.excepted
        return clauses("PROPERTIES ARE ALL COLUMNS", bool(excepted) and f"EXCEPT {listed(excepted)}")
    items = (clauses(name(item.column), named("AS", item.name)) for item in properties.columns)
    return f"PROPERTIES ({', '.join(items)})" if properties.columns else "NO PROPERTIES"

"""Trees of graph.lark as CREATE PROPERTY GRAPH; those of ALTER PROPERTY GRAPH go to their own builder."""

from __future__ import annotations

from typing import NamedTuple

from snapdb.errors import ParseError
from snapdb.sql.ast import (
    ClassesClause,
    ColumnList,
    CreateGraph,
    EdgeClause,
    EventTime,
    FeatureClause,
    HistoryClause,
    Name,
    SparseClause,
    Statement,
    VertexClause,
)
from snapdb.sql.build import (
    Place,
    Tree,
    columns,
    first_tree,
    has,
    integer,
    leaves,
    name,
    number,
    once,
    span_of,
    string,
    trees,
)
from snapdb.sql.build_labels import build_labels
from snapdb.sql.build_retention import build_retention
from snapdb.types import by_word
from snapdb.types.graph import OnDuplicate

_DUPLICATES: dict[str, OnDuplicate] = by_word(OnDuplicate)


def build_graph(tree: Tree, place: Place) -> Statement:
    """CREATE PROPERTY GRAPH, or ALTER PROPERTY GRAPH … SET or DROP RETENTION."""
    (statement,) = trees(tree)
    return _create(statement, place) if statement.data == "create" else build_retention(statement, place)


def _create(tree: Tree, place: Place) -> CreateGraph:
    vertices, edges = first_tree(tree, "vertices"), first_tree(tree, "edges")
    return CreateGraph(
        *place,
        name=name(leaves(tree)[0]),
        vertices=() if vertices is None else tuple(_vertex(vertex) for vertex in trees(vertices)),
        edges=() if edges is None else tuple(_edge(edge) for edge in trees(edges)),
        or_replace=has(tree, "replace"),
        if_not_exists=has(tree, "guard"),
    )


def _vertex(tree: Tree) -> VertexClause:
    clauses = _clauses(tree)
    labels = build_labels(trees(tree))
    duplicate = clauses.get("on_duplicate")
    return VertexClause(
        table=name(leaves(tree)[0]),
        alias=_alias(tree),
        key=_key(clauses),
        features=_features(clauses.get("features")),
        event_time=_event_time(clauses.get("event_time"), 1, "a vertex is born once"),
        target=_target(clauses.get("target")),
        classes=_classes(clauses.get("target")),
        on_duplicate="ERROR" if duplicate is None else _DUPLICATES[leaves(duplicate)[0].type],
        labels=labels.labels,
        properties=labels.properties,
    )


def _edge(tree: Tree) -> EdgeClause:
    clauses = _clauses(tree)
    labels = build_labels(trees(tree))
    source, destination = _end(clauses["source"]), _end(clauses["destination"])
    weight, dangling = clauses.get("weight"), clauses.get("on_dangling")
    skips = dangling is not None and leaves(dangling)[0].type == "SKIP"
    return EdgeClause(
        table=name(leaves(tree)[0]),
        alias=_alias(tree),
        key=_key(clauses),
        source_key=source.key,
        source=source.vertex,
        source_columns=source.columns,
        destination_key=destination.key,
        destination=destination.vertex,
        destination_columns=destination.columns,
        event_time=_event_time(clauses.get("event_time"), 2, "when an edge begins, and when it ends"),
        weight=None if weight is None else name(leaves(weight)[0]),
        features=_features(clauses.get("features")),
        on_dangling="SKIP" if skips else "ERROR",
        labels=labels.labels,
        properties=labels.properties,
    )


def _clauses(tree: Tree) -> dict[str, Tree]:
    """The clauses of an element that stand at most once, by rule: all but labels and properties."""
    return once(clause for clause in trees(tree) if clause.data not in ("label", "properties"))


def _key(clauses: dict[str, Tree]) -> ColumnList:
    return columns(first_tree(clauses["key"], "columns")) if "key" in clauses else ()


class _End(NamedTuple):
    """SOURCE or DESTINATION [KEY (…) REFERENCES] vertex [(…)]."""

    key: ColumnList
    vertex: Name
    columns: ColumnList


def _end(tree: Tree) -> _End:
    key, referenced, *_ = (*trees(tree, "columns"), None, None)
    return _End(columns(key), name(leaves(tree)[0]), columns(referenced))


def _alias(tree: Tree) -> Name | None:
    alias = first_tree(tree, "alias")
    return None if alias is None else name(leaves(alias)[0])


def _event_time(tree: Tree | None, most: int, why: str) -> EventTime | None:
    if tree is None:
        return None
    found, nulls = columns(first_tree(tree, "columns")), first_tree(tree, "nulls")
    if len(found) > most:
        takes = "one column" if most == 1 else "one column or two"
        raise ParseError(
            f"EVENT TIME takes {takes} here: {why}; leave {found[most]} out",
            span=found[most].span,
            code="event-time-columns",
        )
    return EventTime(found, nulls is not None and leaves(nulls)[0].type == "STATIC")


def _target(tree: Tree | None) -> Name | None:
    """TARGET's column; a batch delivers it as y, so that no other alias can stand."""
    if tree is None:
        return None
    alias = _alias(tree)
    if alias is not None and alias.text.lower() != "y":
        raise ParseError(
            f"a target is delivered as y, not as {alias.text}; write AS y", span=alias.span, code="target-name"
        )
    return name(leaves(tree)[0])


def _classes(tree: Tree | None) -> ClassesClause | None:
    """The classes that TARGET declares."""
    clause = None if tree is None else first_tree(tree, "classes")
    return None if clause is None else ClassesClause(tuple(map(string, leaves(clause))), span_of(clause))


def _features(tree: Tree | None) -> tuple[FeatureClause, ...]:
    return () if tree is None else tuple(_feature(feature) for feature in trees(tree))


def _feature(tree: Tree) -> FeatureClause:
    """An item of FEATURES; several columns are one feature only under a name."""
    group = first_tree(tree, "columns")
    parts = once(part for part in trees(tree) if part is not group)
    default, dtype = parts.get("default"), parts.get("type")
    if group is not None and "alias" not in parts:
        raise ParseError(
            f"expected AS and a name for the feature after {_written(group)}",
            span=span_of(group),
            code="feature-name-missing",
        )
    return FeatureClause(
        columns=(name(leaves(tree)[0]),) if group is None else columns(group),
        name=_alias(tree),
        default=None if default is None else number(trees(default)[0]),
        default_span=None if default is None else span_of(default),
        dtype=None if dtype is None else name(leaves(dtype)[0]),
        sparse=_sparse(parts.get("sparse")),
        history=_history(parts.get("history")),
    )


def _written(group: Tree) -> str:
    return f"({', '.join(map(str, columns(group)))})"


def _sparse(tree: Tree | None) -> SparseClause | None:
    if tree is None:
        return None
    said = first_tree(tree, "number")
    width = None if said is None else integer(said, "SPARSE")
    if width is not None and not 1 <= width < 2**31:
        raise ParseError(
            f"SPARSE takes a width from 1 to 2147483647, found {width}", span=span_of(said or tree), code="bad-number"
        )
    return SparseClause(width, span_of(tree))


def _history(tree: Tree | None) -> HistoryClause | None:
    """Where a feature's values in time are: the first list is the key, the second the event time."""
    if tree is None:
        return None
    key, time = (columns(found) for found in trees(tree, "columns"))
    if len(time) > 1:
        message = "a history has one EVENT TIME, since when a row's values hold; leave the other column out"
        raise ParseError(message, span=time[1].span, code="event-time-columns")
    return HistoryClause(name(leaves(tree)[0]), key, time[0], span_of(tree))

"""Property graphs: CREATE PROPERTY GRAPH with elements, features and labels (SQL/PGQ with extensions)."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from snapdb.errors import ParseError, Span
from snapdb.sql.lexer import qualified_names
from snapdb.sql.printer import (
    WIDTH,
    join_clauses,
    print_columns,
    print_creation,
    print_name,
    print_named,
    print_number,
    print_statement,
    print_string,
)
from snapdb.sql.syntax import (
    ColumnList,
    Family,
    Name,
    Place,
    Spanned,
    Statement,
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
from snapdb.sql.unsupported import refuse_parameters, unsupported
from snapdb.types import by_word
from snapdb.types.graph import OnDuplicate


@dataclass(frozen=True, slots=True)
class EventTime:
    """EVENT TIME (column [, column]) [NULLS STATIC | NULLS ERROR]."""

    columns: ColumnList
    """The event time column, optionally followed by the end time column."""
    nulls_static: bool


@dataclass(frozen=True, slots=True)
class HistoryClause:
    """A feature's FROM table KEY (columns) EVENT TIME (column)."""

    table: Name
    key: ColumnList
    event_time: Name
    span: Span = field(compare=False)


@dataclass(frozen=True, slots=True)
class FeatureClause:
    """An item of FEATURES: column or (column, …), followed by clauses in any order.

    The clauses are AS name, TYPE t, STORED t, SPARSE, FROM … and DEFAULT n.
    """

    columns: ColumnList
    name: Name | None
    default: float | None
    default_span: Span | None = field(compare=False)
    dtype: Name | None
    stored: Name | None
    sparse: Spanned[int | None] | None
    """SPARSE with its optional width."""
    history: HistoryClause | None


@dataclass(frozen=True, slots=True)
class PropertiesClause:
    """PROPERTIES (column [AS name], …) | PROPERTIES [ARE] ALL COLUMNS [EXCEPT (column, …)] | NO PROPERTIES."""

    all: bool
    columns: tuple[tuple[Name, Name | None], ...]
    """The columns in PROPERTIES (…), each with the name after AS."""
    excepted: ColumnList
    """The columns in ALL COLUMNS EXCEPT (…)."""
    span: Span = field(compare=False)


@dataclass(frozen=True, slots=True)
class LabelClause:
    """LABEL name [properties] | DEFAULT LABEL [properties]."""

    name: Name | None
    """The name, or None for DEFAULT LABEL, which uses the element's name."""
    properties: PropertiesClause | None
    span: Span = field(compare=False)


@dataclass(frozen=True, slots=True)
class VertexClause:
    """table [AS alias] [KEY (…)] [EVENT TIME (…)] [FEATURES (…)] [TARGET (…)] [ON DUPLICATE KEY …] [LABEL …] …"""

    table: Name
    alias: Name | None
    key: ColumnList
    """The KEY columns, or empty for the columns that the edges reference."""
    features: tuple[FeatureClause, ...]
    event_time: EventTime | None
    """EVENT TIME, with one column."""
    target: Name | None
    on_duplicate: OnDuplicate
    labels: tuple[LabelClause, ...]
    properties: PropertiesClause | None
    """The properties before the first label."""
    classes: Spanned[tuple[str, ...]] | None
    """CLASSES ('text', …) of TARGET. A class's code is its position in the list."""


@dataclass(frozen=True, slots=True)
class EdgeClause:
    """table [AS alias] [KEY (…)] SOURCE [KEY (…) REFERENCES] v [(…)] DESTINATION … [EVENT TIME (…)] …"""

    table: Name
    alias: Name | None
    key: ColumnList
    """The edge's KEY columns. SQL/PGQ allows a KEY, but snapdb ignores it because e_id identifies edges."""
    source_key: ColumnList
    """The source columns, or empty if they have the same names as the vertex table's key columns."""
    source: Name
    source_columns: ColumnList
    """The columns after REFERENCES, or empty for the vertex table's key."""
    destination_key: ColumnList
    destination: Name
    destination_columns: ColumnList
    event_time: EventTime | None
    weight: Name | None
    features: tuple[FeatureClause, ...]
    on_dangling: Literal["ERROR", "SKIP"]
    labels: tuple[LabelClause, ...]
    properties: PropertiesClause | None
    """The properties before the first label."""


@dataclass(frozen=True, slots=True)
class CreateGraph(Statement):
    """CREATE [OR REPLACE] PROPERTY GRAPH [IF NOT EXISTS] name VERTEX TABLES (…) [EDGE TABLES (…)]
    [VALIDATE ON WRITE].
    """

    name: Name
    vertices: tuple[VertexClause, ...]
    edges: tuple[EdgeClause, ...]
    or_replace: bool
    if_not_exists: bool
    validates: bool = False
    """Whether the statement has VALIDATE ON WRITE."""

    def to_sql(self) -> str:
        return print_statement(
            print_creation("PROPERTY GRAPH", self.name, or_replace=self.or_replace, if_not_exists=self.if_not_exists),
            _print_tables("VERTEX TABLES", [_print_vertex(vertex) for vertex in self.vertices]),
            bool(self.edges) and _print_tables("EDGE TABLES", [_print_edge(edge) for edge in self.edges]),
            self.validates and "VALIDATE ON WRITE",
        )


_DUPLICATES: dict[str, OnDuplicate] = by_word(OnDuplicate)


def _create(tree: Tree, place: Place) -> CreateGraph:
    vertices, edges = first_tree(tree, "vertices"), first_tree(tree, "edges")
    return CreateGraph(
        *place,
        name=name(leaves(tree)[0]),
        vertices=() if vertices is None else tuple(_vertex(vertex) for vertex in trees(vertices)),
        edges=() if edges is None else tuple(_edge(edge) for edge in trees(edges)),
        or_replace=has(tree, "replace"),
        if_not_exists=has(tree, "guard"),
        validates=has(tree, "validate"),
    )


def _vertex(tree: Tree) -> VertexClause:
    clauses = _clauses(tree)
    labels, properties = _labels(trees(tree))
    duplicate = clauses.get("on_duplicate")
    return VertexClause(
        table=name(leaves(tree)[0]),
        alias=_alias(tree),
        key=_key(clauses),
        features=_features(clauses.get("features")),
        event_time=_event_time(clauses.get("event_time"), 1, "a vertex has a start and no end"),
        target=_target(clauses.get("target")),
        classes=_classes(clauses.get("target")),
        on_duplicate="ERROR" if duplicate is None else _DUPLICATES[leaves(duplicate)[0].type],
        labels=labels,
        properties=properties,
    )


def _edge(tree: Tree) -> EdgeClause:
    clauses = _clauses(tree)
    labels, properties = _labels(trees(tree))
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
        event_time=_event_time(clauses.get("event_time"), 2, "an edge has a start and an end"),
        weight=None if weight is None else name(leaves(weight)[0]),
        features=_features(clauses.get("features")),
        on_dangling="SKIP" if skips else "ERROR",
        labels=labels,
        properties=properties,
    )


def _clauses(tree: Tree) -> dict[str, Tree]:
    """Return the clauses that an element has at most once, by rule. Labels and properties are not included."""
    return once(clause for clause in trees(tree) if clause.data not in ("label", "properties"))


def _key(clauses: dict[str, Tree]) -> ColumnList:
    return columns(first_tree(clauses["key"], "columns")) if "key" in clauses else ()


class _End(NamedTuple):
    """SOURCE or DESTINATION [KEY (…) REFERENCES] vertex [(…)]."""

    key: ColumnList
    vertex: Name
    columns: ColumnList


def _end(tree: Tree) -> _End:
    # The first list follows KEY. Padding with None covers ends without lists.
    key, referenced, *_ = (*trees(tree, "columns"), None, None)
    return _End(columns(key), name(leaves(tree)[0]), columns(referenced))


def _alias(tree: Tree) -> Name | None:
    alias = first_tree(tree, "alias")
    return None if alias is None else name(leaves(alias)[0])


def _event_time(tree: Tree | None, most: int, why: str) -> EventTime | None:
    if tree is None:
        return None
    names, nulls = columns(first_tree(tree, "columns")), first_tree(tree, "nulls")
    if len(names) > most:
        takes = "one column" if most == 1 else "one or two columns"
        raise ParseError(
            f"EVENT TIME must have {takes} here: {why}; leave {names[most]} out",
            span=names[most].span,
            code="event-time-columns",
        )
    return EventTime(names, nulls is not None and leaves(nulls)[0].type == "STATIC")


def _target(tree: Tree | None) -> Name | None:
    """Return the TARGET column. Batches deliver it as y, so no other alias is allowed."""
    if tree is None:
        return None
    alias = _alias(tree)
    if alias is not None and alias.text.lower() != "y":
        raise ParseError(
            f"the target of a batch is named y, not {alias.text}; write AS y", span=alias.span, code="target-name"
        )
    return name(leaves(tree)[0])


def _classes(tree: Tree | None) -> Spanned[tuple[str, ...]] | None:
    clause = None if tree is None else first_tree(tree, "classes")
    return None if clause is None else Spanned(tuple(map(string, leaves(clause))), span_of(clause))


def _features(tree: Tree | None) -> tuple[FeatureClause, ...]:
    return () if tree is None else tuple(_feature(feature) for feature in trees(tree))


def _feature(tree: Tree) -> FeatureClause:
    """Build an item of FEATURES. Several columns require a name."""
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
        stored=name(leaves(parts["stored"])[0]) if "stored" in parts else None,
        sparse=_sparse(parts.get("sparse")),
        history=_history(parts.get("history")),
    )


def _written(group: Tree) -> str:
    return f"({', '.join(map(str, columns(group)))})"


def _sparse(tree: Tree | None) -> Spanned[int | None] | None:
    if tree is None:
        return None
    number_tree = first_tree(tree, "number")
    width = None if number_tree is None else integer(number_tree, "SPARSE")
    if width is not None and not 1 <= width < 2**31:
        raise ParseError(
            f"the width of SPARSE must be from 1 to 2147483647, found {width}",
            span=span_of(number_tree or tree),
            code="bad-number",
        )
    return Spanned(width, span_of(tree))


def _history(tree: Tree | None) -> HistoryClause | None:
    """Build FROM … KEY … EVENT TIME. The first list is the key, and the second is the event time."""
    if tree is None:
        return None
    key, time = (columns(clause) for clause in trees(tree, "columns"))
    if len(time) > 1:
        message = (
            "EVENT TIME of a history must have one column, the start of a row's validity; leave the other column out"
        )
        raise ParseError(message, span=time[1].span, code="event-time-columns")
    return HistoryClause(name(leaves(tree)[0]), key, time[0], span_of(tree))


def _labels(clauses: Iterable[Tree]) -> tuple[tuple[LabelClause, ...], PropertiesClause | None]:
    """Return an element's labels and its own properties. Properties after a label belong to that label."""
    own: PropertiesClause | None = None
    labels: list[LabelClause] = []
    for clause in clauses:
        if clause.data == "label":
            label = _label(clause)
            # Names are case-insensitive, so labels that differ only in case are duplicates.
            if any(_folded(label) == _folded(before) for before in labels):
                raise ParseError(
                    f"LABEL {label.name or 'of the same name'} is specified twice; keep one",
                    span=label.span,
                    code="duplicate-clause",
                )
            labels.append(label)
        elif clause.data == "properties":
            properties = _properties(clause)
            # Properties apply to the last label before them, or to the element itself, as in SQL/PGQ.
            if (labels[-1].properties if labels else own) is not None:
                raise ParseError(
                    "PROPERTIES is specified twice; keep one", span=properties.span, code="duplicate-clause"
                )
            if labels:
                labels[-1] = LabelClause(labels[-1].name, properties, labels[-1].span)
            else:
                own = properties
    return tuple(labels), own


def _label(tree: Tree) -> LabelClause:
    inherited = first_tree(tree, "inherited")
    if inherited is not None:
        reason = "a label applies to all rows of a table"
        way = "create a table for each kind of row, and list each table as an element"
        raise unsupported("LABEL … IN", reason, way, span_of(inherited))
    words = leaves(tree)
    return LabelClause(name(words[0]) if words else None, None, span_of(tree))


def _folded(label: LabelClause) -> str | None:
    return None if label.name is None else label.name.text.lower()


def _properties(tree: Tree) -> PropertiesClause:
    """Build PROPERTIES (…), PROPERTIES ARE ALL COLUMNS or NO PROPERTIES."""
    listed, all_ = trees(tree, "property"), first_tree(tree, "all_columns")
    return PropertiesClause(
        all=all_ is not None,
        columns=tuple((name(leaves(item)[0]), _alias(item)) for item in listed),
        excepted=() if all_ is None else _excepted(all_),
        span=span_of(tree),
    )


def _excepted(tree: Tree) -> ColumnList:
    except_ = first_tree(tree, "except")
    return () if except_ is None else columns(first_tree(except_, "columns"))


def _print_tables(keyword: str, elements: Sequence[str]) -> str:
    """Print elements in parentheses, on one line if they fit, otherwise one per line."""
    line = f"{keyword} ({', '.join(elements)})"
    return line if len(line) <= WIDTH else f"{keyword} (\n    " + ",\n    ".join(elements) + ")"


def _print_vertex(vertex: VertexClause) -> str:
    return join_clauses(
        print_name(vertex.table),
        print_named("AS", vertex.alias),
        bool(vertex.key) and f"KEY {print_columns(vertex.key)}",
        _print_event_time(vertex.event_time),
        _print_features(vertex.features),
        vertex.target and f"TARGET ({join_clauses(print_name(vertex.target), _print_classes(vertex.classes), 'AS y')})",
        vertex.on_duplicate != "ERROR" and f"ON DUPLICATE KEY {vertex.on_duplicate}",
        *_print_shown(vertex.properties, vertex.labels),
    )


def _print_classes(classes: Spanned[tuple[str, ...]] | None) -> str | None:
    return None if classes is None else f"CLASSES ({', '.join(map(print_string, classes.value))})"


def _print_edge(edge: EdgeClause) -> str:
    return join_clauses(
        print_name(edge.table),
        print_named("AS", edge.alias),
        bool(edge.key) and f"KEY {print_columns(edge.key)}",
        _print_end("SOURCE", edge.source_key, edge.source, edge.source_columns),
        _print_end("DESTINATION", edge.destination_key, edge.destination, edge.destination_columns),
        _print_event_time(edge.event_time),
        edge.weight and f"WEIGHT ({print_name(edge.weight)})",
        _print_features(edge.features),
        edge.on_dangling != "ERROR" and f"ON DANGLING {edge.on_dangling}",
        *_print_shown(edge.properties, edge.labels),
    )


def _print_end(keyword: str, key: ColumnList, vertex: Name, columns: ColumnList) -> str:
    head = f"{keyword} KEY {print_columns(key)} REFERENCES" if key else keyword
    return join_clauses(head, print_name(vertex), bool(columns) and print_columns(columns))


def _print_event_time(time: EventTime | None) -> str | None:
    return (
        None
        if time is None
        else join_clauses(f"EVENT TIME {print_columns(time.columns)}", time.nulls_static and "NULLS STATIC")
    )


def _print_features(features: Sequence[FeatureClause]) -> str | None:
    return f"FEATURES ({', '.join(map(_print_feature, features))})" if features else None


def _print_feature(feature: FeatureClause) -> str:
    """Print a feature. Parentheses around a single column are only valid with a name."""
    sparse = feature.sparse
    width = "" if sparse is None or sparse.value is None else f" [{sparse.value}]"
    return join_clauses(
        print_name(feature.columns[0]) if len(feature.columns) == 1 else print_columns(feature.columns),
        print_named("AS", feature.name),
        print_named("TYPE", feature.dtype),
        print_named("STORED", feature.stored),
        sparse and f"SPARSE{width}",
        _print_history(feature.history),
        feature.default is not None and f"DEFAULT {print_number(feature.default)}",
    )


def _print_history(history: HistoryClause | None) -> str | None:
    if history is None:
        return None
    key, time = print_columns(history.key), print_name(history.event_time)
    return f"FROM {print_name(history.table)} KEY {key} EVENT TIME ({time})"


def _print_shown(properties: PropertiesClause | None, labels: Sequence[LabelClause]) -> list[str | None]:
    """Print the element's own properties, followed by each label with its properties."""
    return [_print_properties(properties), *map(_print_label, labels)]


def _print_label(label: LabelClause) -> str:
    return join_clauses(
        "DEFAULT LABEL" if label.name is None else f"LABEL {print_name(label.name)}",
        _print_properties(label.properties),
    )


def _print_properties(properties: PropertiesClause | None) -> str | None:
    if properties is None:
        return None
    if properties.all:
        excepted = properties.excepted
        return join_clauses("PROPERTIES ARE ALL COLUMNS", bool(excepted) and f"EXCEPT {print_columns(excepted)}")
    items = (join_clauses(print_name(column), print_named("AS", alias)) for column, alias in properties.columns)
    return f"PROPERTIES ({', '.join(items)})" if properties.columns else "NO PROPERTIES"


FAMILY = Family(
    grammar="graphs",
    builders={"create": _create},
    check=lambda tokens: refuse_parameters(tokens, "a property graph"),
    names=qualified_names,
)

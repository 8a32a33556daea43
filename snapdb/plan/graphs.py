"""Property graphs: CREATE PROPERTY GRAPH over the columns of tables."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from snapdb.errors import BindError
from snapdb.plan.constraints import primary_key
from snapdb.plan.fits import SqlType, graph_times
from snapdb.plan.names import check_new, find_column, find_event_time
from snapdb.plan.plan import NothingPlan, Plan, PlanFamily, PlanNode
from snapdb.plan.scope import BindContext
from snapdb.plan.view_rows import find_rows, over_views
from snapdb.sql.graphs import (
    CreateGraph,
    EdgeClause,
    EventTime,
    FeatureClause,
    HistoryClause,
    LabelClause,
    PropertiesClause,
    VertexClause,
)
from snapdb.sql.syntax import ColumnList, Name, Spanned
from snapdb.sql_engine import quote_odd
from snapdb.types import (
    STORED_TYPES,
    Column,
    EdgeElement,
    FeatureHistory,
    FeatureSpec,
    Properties,
    Property,
    PropertyGraph,
    Table,
    VertexElement,
)
from snapdb.types.sampling import BATCH_NAMES
from snapdb.types.text import did_you_mean

_LONGEST = 100
"""The maximum length of a feature's name, which is also a file name."""
_DTYPES = {
    "float16": "float16",
    "half": "float16",
    "fp16": "float16",
    "float32": "float32",
    "float": "float32",
    "float64": "float64",
    "double": "float64",
    "int8": "int8",
    "int16": "int16",
    "int32": "int32",
    "int64": "int64",
    "uint8": "uint8",
    "bool": "bool",
}
"""Maps the values of TYPE to NumPy dtype names."""
_RANGES: dict[str, tuple[float, float]] = {
    "bool": (0, 1),
    "uint8": (0, 255),
    **{f"int{bits}": (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) for bits in (8, 16, 32, 64)},
    "float16": (-65504.0, 65504.0),
    "float32": (-3.4028234663852886e38, 3.4028234663852886e38),
}
"""The minimum and maximum value of each dtype."""


@dataclass(frozen=True, slots=True)
class CreateGraphPlan(Plan):
    """CREATE PROPERTY GRAPH: define a graph over existing tables and columns. The statement also checks the data."""

    graph: PropertyGraph
    replaces: bool

    def describe(self) -> PlanNode:
        return PlanNode("CreateGraph", self.graph.name)


def _bind_create_graph(statement: CreateGraph, context: BindContext) -> Plan:
    """Bind a definition. Every name must exist, and every type must be valid for its role."""
    replacing = ("graph",) if statement.or_replace or statement.if_not_exists else ()
    exists = check_new(context.catalog, statement.name, replacing) is not None
    if exists and statement.if_not_exists:
        return NothingPlan(f'graph "{statement.name}" already exists')
    vertices = tuple(_vertex(context, clause, _vertex_key(context, statement, clause)) for clause in statement.vertices)
    # Edges refer to vertex types, so they are bound against a graph that contains only the vertex types.
    graph = PropertyGraph(statement.name.text, vertices, ())
    edges = tuple(_edge(context, graph, clause) for clause in statement.edges)
    aliases = [v.alias or v.table for v in statement.vertices] + [e.alias or e.table for e in statement.edges]
    _check_unique(aliases, "two elements of the graph have the name {}; rename one with AS")
    graph = PropertyGraph(statement.name.text, vertices, edges, statement.validates or None)
    _check_histories(context, statement, graph)
    return CreateGraphPlan(graph, replaces=exists)


def _vertex(context: BindContext, clause: VertexClause, key_names: Sequence[Name]) -> VertexElement:
    table = find_rows(context, clause.table)
    key = [_key_column(table, name) for name in key_names]
    _check_unique(key_names, "column {} is specified twice")
    target = _target(table, clause.target)
    element = VertexElement(
        name=str(clause.alias or clause.table.last),
        table=table.name,
        key=tuple(c.name for c in key),
        features=_bind_features(context, table, clause.features, "x", key),
        target=target,
        on_duplicate=clause.on_duplicate,
        event_time=time[0] if (time := _event_time(table, clause.event_time)) else None,
        nulls_static=clause.event_time is not None and clause.event_time.nulls_static,
        labels=_bind_labels(clause),
        properties=_bind_properties(table, clause),
        classes=_classes(table, target, clause.classes),
    )
    _check_shown(element, table, clause)
    return element


def _edge(context: BindContext, graph: PropertyGraph, clause: EdgeClause) -> EdgeElement:
    table = find_rows(context, clause.table)
    if taken := table.column("e_id"):
        raise BindError(
            f'edge table {table.name} has a column "{taken.name}", a name that is reserved in snapshots; rename it',
            span=clause.table.span,
            code="reserved-name",
        )
    for name in clause.key:
        find_column(table, name)
    _check_ends(clause)
    source, source_key = _bind_end(context, graph, table, clause.source_key, clause.source, clause.source_columns)
    destination, destination_key = _bind_end(
        context, graph, table, clause.destination_key, clause.destination, clause.destination_columns
    )
    start, end = (*_event_time(table, clause.event_time), None, None)[:2]
    element = EdgeElement(
        name=str(clause.alias or clause.table.last),
        table=table.name,
        source_key=source_key,
        source=source,
        destination_key=destination_key,
        destination=destination,
        event_time=start,
        weight=_weight(table, clause.weight),
        features=_bind_features(context, table, clause.features, "edge_attr", None),
        on_dangling=clause.on_dangling,
        event_end=end,
        nulls_static=clause.event_time is not None and clause.event_time.nulls_static,
        labels=_bind_labels(clause),
        properties=_bind_properties(table, clause),
    )
    _check_shown(element, table, clause)
    return element


def _target(table: Table, name: Name | None) -> str | None:
    if name is None:
        return None
    column = find_column(table, name)
    if not SqlType(column.type).is_target():
        raise BindError(
            f'column "{column.name}" of type {column.type} cannot be TARGET, which must be a number or a string',
            span=name.span,
            code="column-type",
        )
    return column.name


def _classes(table: Table, target: str | None, clause: Spanned[tuple[str, ...]] | None) -> tuple[str, ...] | None:
    """Return the declared classes of a text target, which must be distinct, or None if none are declared."""
    if clause is None or target is None:
        return None
    column = table.column(target)
    if column is not None and not SqlType(column.type).is_text():
        raise BindError(
            f'CLASSES requires a text column, but column "{column.name}" is {column.type}: a number '
            "is its own code; leave CLASSES out",
            span=clause.span,
            code="column-type",
        )
    if twice := next((value for i, value in enumerate(clause.value) if value in clause.value[:i]), None):
        raise BindError(
            f"class {twice!r} is specified twice in CLASSES; keep one", span=clause.span, code="duplicate-name"
        )
    return clause.value


def _event_time(table: Table, clause: EventTime | None) -> tuple[str, ...]:
    """Return the event-time and end-time columns, which must have the same unit."""
    if clause is None:
        return ()
    columns = [find_event_time(table, name) for name in clause.columns]
    if len(columns) == 2:
        start, end = columns
        place = clause.columns[1].span
        if start == end:
            raise BindError(
                f'column "{end.name}" is specified twice: the end of an edge must be a different column from its start',
                span=place,
                code="duplicate-name",
            )
        if SqlType(start.type).time_unit() != SqlType(end.type).time_unit():
            raise BindError(
                f'"{start.name}" is {start.type}, but "{end.name}" is {end.type}: the start and the end of an edge '
                "must be of the same kind; cast one of them when loading",
                span=place,
                code="mixed-times",
            )
    return tuple(column.name for column in columns)


def _check_histories(context: BindContext, statement: CreateGraph, graph: PropertyGraph) -> None:
    """Raise an error unless history times have the same unit as the graph's event times."""
    known = {unit: name for name, _, unit in graph_times(graph, context.catalog.tables, histories=False)}
    for vertex in statement.vertices:
        for history in (clause.history for clause in vertex.features if clause.history is not None):
            table = find_rows(context, history.table)
            unit = SqlType(find_event_time(table, history.event_time).type).time_unit()
            if known and unit not in known:
                other, owner = next(iter(known.items()))
                raise BindError(
                    f"event times must be of the same kind: {owner} has {other}s, the history {history.table} has "
                    f"{unit}s; cast one of them when loading",
                    span=history.event_time.span,
                    code="mixed-times",
                )
            known.setdefault(unit, history.table.text)


def _weight(table: Table, name: Name | None) -> str | None:
    if name is None:
        return None
    column = find_column(table, name)
    if not SqlType(column.type).is_weight():
        raise BindError(
            f'column "{column.name}" of type {column.type} cannot be WEIGHT, which must be a number',
            span=name.span,
            code="column-type",
        )
    return column.name


def _check_unique(names: Sequence[Name], complaint: str) -> None:
    seen: set[str] = set()
    for name in names:
        if name.text.lower() in seen:
            raise BindError(complaint.format(f'"{name}"'), span=name.span, code="duplicate-name")
        seen.add(name.text.lower())


def _bind_features(
    context: BindContext, table: Table, clauses: Sequence[FeatureClause], standard: str, key: Sequence[Column] | None
) -> tuple[FeatureSpec, ...]:
    """Bind the features in order. Columns with the same name (`standard` by default) are concatenated.

    Args:
        context: The context of the statement.
        table: The element's table.
        clauses: The items of FEATURES.
        standard: The default feature name.
        key: The key of the vertex type, which histories reference, or None for an edge type.
    """
    features: dict[str, FeatureSpec] = {}
    for clause in clauses:
        spec = _spec(context, table, clause, standard, key)
        before = features.get(spec.name.lower())
        features[spec.name.lower()] = spec if before is None else _joined(before, spec, clause)
    return tuple(features.values())


def _spec(
    context: BindContext, table: Table, clause: FeatureClause, standard: str, key: Sequence[Column] | None
) -> FeatureSpec:
    """Bind one item of FEATURES."""
    name = standard if clause.name is None else _name(clause.name)
    dtype = "float32" if clause.dtype is None else _dtype(clause.dtype)
    history = None
    if clause.history is not None:
        table, history = _history(context, table, clause.history, key)
    if clause.sparse is not None:
        columns = _sparse_columns(table, clause, name, dense=key is None or history is not None)
    else:
        columns = tuple(_column(table, column) for column in clause.columns)
    _check_default(clause, name, dtype)
    width = None if clause.sparse is None else clause.sparse.value
    stored = None if clause.stored is None else _stored(clause, clause.stored, dtype)
    return FeatureSpec(name, columns, clause.default, dtype, clause.sparse is not None, width, history, stored)


def _joined(before: FeatureSpec, spec: FeatureSpec, clause: FeatureClause) -> FeatureSpec:
    """Combine two items with the same name into one feature."""
    place = clause.columns[0].span
    # The names can differ only in case here, but feature names are case-sensitive as batch attributes.
    if before.name != spec.name:
        raise BindError(
            f'features "{before.name}" and "{spec.name}" differ only in case; write them the same way, or rename one',
            span=place,
            code="duplicate-name",
        )
    if before.sparse or spec.sparse:
        raise BindError(
            f'sparse feature "{spec.name}" is specified twice; rename one', span=place, code="duplicate-name"
        )
    for what, here, there in (
        ("DEFAULTs", before.default, spec.default),
        ("TYPEs", before.dtype, spec.dtype),
        ("STORED types", before.stored, spec.stored),
        ("histories", before.history, spec.history),
    ):
        if here != there:
            raise BindError(
                f'feature "{spec.name}" has columns with different {what}; specify the same ones for all columns',
                span=place,
                code="feature-mix",
            )
    return replace(before, columns=before.columns + spec.columns)


def _name(name: Name) -> str:
    if not re.fullmatch(r"[A-Za-z_]\w*", name.text, re.ASCII):
        raise BindError(
            f'the name of a feature must consist of letters, digits and _, found "{name}"',
            span=name.span,
            code="bad-name",
        )
    if len(name.text) > _LONGEST:
        raise BindError(
            f"the name of a feature must have at most {_LONGEST} characters, found {len(name.text)}",
            span=name.span,
            code="bad-name",
        )
    if name.text in BATCH_NAMES:
        raise BindError(
            f'"{name}" is already the name of a batch attribute; choose another name for the feature',
            span=name.span,
            code="reserved-name",
        )
    return name.text


def _dtype(name: Name) -> str:
    if (dtype := _DTYPES.get(name.text.lower())) is None:
        hint = did_you_mean(name.text, _DTYPES) or f"; the types are {', '.join(_DTYPES)}"
        raise BindError(f'unknown feature type "{name}"{hint}', span=name.span, code="unknown-feature-type")
    return dtype


def _stored(clause: FeatureClause, named: Name, dtype: str) -> str:
    """Return the type in which a feature is stored, which must be able to represent its values approximately."""
    stored = named.text.lower()
    if stored not in STORED_TYPES:
        hint = did_you_mean(named.text, STORED_TYPES) or f"; the types are {', '.join(STORED_TYPES)}"
        raise BindError(f'unknown type "{named}" in STORED{hint}', span=named.span, code="unknown-feature-type")
    if clause.sparse is not None or dtype != "float32":
        what = "sparse features" if clause.sparse is not None else f"TYPE {dtype}"
        raise BindError(
            f"STORED is not supported for {what}; it applies to dense float32 features",
            span=named.span,
            code="feature-mix",
        )
    return stored


def _column(table: Table, name: Name) -> str:
    column = find_column(table, name)
    if not SqlType(column.type).is_feature():
        raise BindError(
            f'column "{column.name}" of type {column.type} cannot be a feature, which must be a number or a '
            "list of numbers; encode it when loading",
            span=name.span,
            code="column-type",
        )
    return column.name


def _sparse_columns(table: Table, clause: FeatureClause, name: str, *, dense: bool) -> tuple[str, ...]:
    """Return the column of indices and, unless all values are 1, the column of values."""
    assert clause.sparse is not None
    if dense:
        raise BindError(
            "SPARSE is supported only for features of vertices without a history; leave SPARSE out, "
            "or store the feature in the vertex table",
            span=clause.sparse.span,
            code="not-supported",
        )
    if clause.default is not None:
        raise BindError(
            f'DEFAULT is not supported for sparse feature "{name}", whose missing values are 0; leave DEFAULT out',
            span=clause.default_span,
            code="feature-default",
        )
    if len(clause.columns) > 2:
        raise BindError(
            f"SPARSE must have a column of indices, and may have a column of values: (idx, val) AS {name} SPARSE",
            span=clause.sparse.span,
            code="sparse-columns",
        )
    for column_name, fits, wanted in zip(
        clause.columns,
        (SqlType.is_indices, SqlType.is_values),
        ("indices, which must be a list of integers", "values, which must be a list of numbers"),
        strict=False,
    ):
        column = find_column(table, column_name)
        if not fits(SqlType(column.type)):
            raise BindError(
                f'column "{column.name}" of type {column.type} cannot be {wanted}',
                span=column_name.span,
                code="column-type",
            )
    return tuple(find_column(table, n).name for n in clause.columns)


def _check_default(clause: FeatureClause, name: str, dtype: str) -> None:
    """Raise an error unless the DEFAULT is a value of the type."""
    value = clause.default
    if value is None or dtype == "float64":
        return
    low, high = _RANGES[dtype]
    if not dtype.startswith("float") and value != int(value):
        raise BindError(
            f'feature "{name}" is {dtype}: its DEFAULT must be an integer, found {value:g}',
            span=clause.default_span,
            code="feature-default",
        )
    if not low <= value <= high:
        raise BindError(
            f'feature "{name}" is {dtype}: its DEFAULT must be from {low:g} to {high:g}, found {value:g}',
            span=clause.default_span,
            code="feature-default",
        )


def _history(
    context: BindContext, own: Table, clause: HistoryClause, key: Sequence[Column] | None
) -> tuple[Table, FeatureHistory]:
    """Return a feature's history and its table, after binding the columns that reference the vertices."""
    if key is None:
        raise BindError(
            "FROM is supported only for features of vertices; store features of an edge in its own row",
            span=clause.span,
            code="not-supported",
        )
    table = find_rows(context, clause.table)
    columns = [find_column(table, name) for name in clause.key]
    if len(columns) != len(key):
        keys = ", ".join(column.name for column in key)
        raise BindError(
            f"{own.name} has KEY ({keys}); its history must have the same number of columns, in that order",
            span=clause.key[0].span,
            code="key-mismatch",
        )
    for name, column, referred in zip(clause.key, columns, key, strict=True):
        if columns.count(column) > 1:
            raise BindError(f'column "{column.name}" is specified twice', span=name.span, code="duplicate-name")
        if SqlType(column.type).key_family() != SqlType(referred.type).key_family():
            differ = f"{table.name}.{column.name} is {column.type}, but {own.name}.{referred.name} is {referred.type}"
            raise BindError(f"{differ}; cast one of them when loading", span=name.span, code="key-mismatch")
    time = find_event_time(table, clause.event_time)
    return table, FeatureHistory(table.name, tuple(column.name for column in columns), time.name)


def _vertex_key(context: BindContext, statement: CreateGraph, clause: VertexClause) -> ColumnList:
    """Return a vertex type's KEY columns. Without KEY, return those that all edges reference, or the primary key."""
    if clause.key:
        return clause.key
    name = clause.alias or clause.table
    referred = [columns for columns in _referred(statement, name.text) if columns]
    written = quote_odd(name.text)
    if not referred:
        table = find_rows(context, clause.table)
        if (primary := primary_key(table)) is not None:
            return tuple(Name(column, clause.table.span) for column in table.names_of(primary))
        raise BindError(
            f"{name} has no KEY, and no edge specifies REFERENCES {written} (columns); write {written} KEY (columns)",
            span=name.span,
            code="missing-key",
        )
    for other in referred[1:]:
        if _folded(other) != _folded(referred[0]):
            ways = f"({_listed(referred[0])}) and by ({_listed(other)})"
            raise BindError(
                f"the edges refer to {name} by {ways}; specify one of them as its KEY, and refer to that",
                span=other[0].span,
                code="key-mismatch",
            )
    return referred[0]


def _referred(statement: CreateGraph, vertex: str) -> Iterator[ColumnList]:
    """Yield the columns after REFERENCES for every edge end that refers to a vertex type."""
    for edge in statement.edges:
        for name, columns in ((edge.source, edge.source_columns), (edge.destination, edge.destination_columns)):
            if name.text.lower() == vertex.lower():
                yield columns


def _folded(names: Sequence[Name]) -> list[str]:
    return sorted(name.text.lower() for name in names)


def _listed(names: Sequence[Name]) -> str:
    return ", ".join(map(str, names))


def _check_ends(clause: EdgeClause) -> None:
    """Raise an error if both ends of an edge would have the same columns."""
    keys = clause.source_key or clause.destination_key
    if not keys and clause.source.text.lower() == clause.destination.text.lower():
        vertex = quote_odd(clause.source.text)
        raise BindError(
            f"{clause.table} would connect each {clause.source} to itself; specify the columns of each "
            f"end: SOURCE KEY (columns) REFERENCES {vertex} DESTINATION KEY (columns) REFERENCES {vertex}",
            span=clause.source.span,
            code="missing-key",
        )


def _bind_end(
    context: BindContext, graph: PropertyGraph, table: Table, key: Sequence[Name], name: Name, named: Sequence[Name]
) -> tuple[str, tuple[str, ...]]:
    """Bind one end of an edge: the name of the vertex type, and the edge table's columns in the order of its key."""
    vertex = graph.vertex(name.text)
    if vertex is None:
        known = [v.name for v in graph.vertices]
        hint = did_you_mean(name.text, known) or f"; the graph has {', '.join(known)}"
        raise BindError(
            f'vertex type "{name}" does not exist in graph {graph.name}{hint}',
            span=name.span,
            code="unknown-vertex-type",
        )
    key = key or [_same_name(table, column, name) for column in vertex.key]
    vertices = find_rows(context, Name(vertex.table, name.span))
    columns = [_key_column(table, column) for column in key]
    wanted = [find_column(vertices, n).name for n in named] or list(vertex.key)
    # REFERENCES may list the key in another order, so the columns are paired by name and then put in key order.
    if sorted(wanted) != sorted(vertex.key) or len(columns) != len(wanted):
        keys = ", ".join(vertex.key)
        raise BindError(
            f"{vertex.name} has KEY ({keys}); {table.name} must refer to exactly these columns",
            span=(named or key)[0].span,
            code="key-mismatch",
        )
    pairs = dict(zip(wanted, columns, strict=True))
    for (referred, column), place in zip(pairs.items(), key, strict=True):
        there = vertices.column(referred)
        assert there is not None
        if SqlType(there.type).key_family() != SqlType(column.type).key_family():
            differ = f"{table.name}.{column.name} is {column.type}, but {vertices.name}.{referred} is {there.type}"
            raise BindError(f"{differ}; cast one of them when loading", span=place.span, code="key-mismatch")
    return vertex.name, tuple(pairs[k].name for k in vertex.key)


def _same_name(table: Table, column: str, vertex: Name) -> Name:
    """Return the edge table's column with the same name as a key column. Its span is that of the vertex."""
    if table.column(column) is None:
        raise BindError(
            f'column "{column}", the key of {vertex}, does not exist in table {table.name}; write KEY (columns) '
            f"REFERENCES {quote_odd(vertex.text)}",
            span=vertex.span,
            code="unknown-column",
        )
    return Name(column, vertex.span)


def _key_column(table: Table, name: Name) -> Column:
    """Return the column with that name. Raises BindError if it cannot be a key."""
    column = find_column(table, name)
    if not SqlType(column.type).is_key():
        raise BindError(
            f'column "{column.name}" of type {column.type} cannot be a key; '
            "keys must be integers, strings, UUIDs, dates, timestamps or decimals",
            span=name.span,
            code="column-type",
        )
    return column


def _bind_labels(clause: VertexClause | EdgeClause) -> tuple[str, ...]:
    """Return an element's labels, or an empty tuple if its own name is its only label."""
    own = clause.alias or clause.table
    labels: list[str] = []
    for label in clause.labels:
        name = (label.name or own).text
        if name.lower() in {before.lower() for before in labels}:
            raise BindError(
                f'label "{name}" is specified twice in {own}; keep one', span=label.span, code="duplicate-name"
            )
        labels.append(name)
    return tuple(labels)


def _bind_properties(table: Table, clause: VertexClause | EdgeClause) -> Properties | None:
    """Return the union of the properties that an element and its labels list, or None for all columns."""
    clauses = [p for p in (clause.properties, *(label.properties for label in clause.labels)) if p is not None]
    if not clauses:
        return None
    named = _named(table, clauses, edge=isinstance(clause, EdgeClause))
    excepted = [{find_column(table, name).name for name in p.excepted} for p in clauses if p.all]
    if clause.properties is None and _silent(clause.labels):
        excepted.append(set())  # a label without PROPERTIES includes all columns
    if not excepted:
        return Properties(named)
    # The properties are a union, so a column is hidden only if every clause excludes it.
    hidden = set.intersection(*excepted)
    if not hidden and not named:
        return None
    return Properties(named, tuple(c.name for c in table.columns if c.name in hidden))


def _silent(labels: Sequence[LabelClause]) -> bool:
    return any(label.properties is None for label in labels)


def _named(table: Table, clauses: Sequence[PropertiesClause], *, edge: bool) -> tuple[Property, ...]:
    """Return the listed columns without duplicates. Raises BindError if two of them have the same name."""
    by_name: dict[str, Property] = {}
    for listed, alias in (item for properties in clauses for item in properties.columns):
        column, name = find_column(table, listed).name, alias or listed
        if edge and name.text.lower() == "e_id":
            raise BindError(
                "e_id is reserved in snapshots, and cannot be the name of a property; rename it with AS",
                span=name.span,
                code="reserved-name",
            )
        before = by_name.setdefault(name.text.lower(), Property(column, column if alias is None else name.text))
        if before.column != column:
            raise _taken(name, before.column, column)
    return tuple(by_name.values())


def _check_shown(element: VertexElement | EdgeElement, table: Table, clause: VertexClause | EdgeClause) -> None:
    """Raise an error if two properties have the same name."""
    if element.properties is None:
        return
    # Key columns and the columns of ALL COLUMNS keep their names, so another column's alias must not be one of them.
    columns, plain = [c.name for c in table.columns], replace(element.properties, named=())
    owners = {name.lower(): column for column, name in plain.shown(columns, element.needed)}
    clauses = [p for p in (clause.properties, *(label.properties for label in clause.labels)) if p is not None]
    for listed, alias in (item for properties in clauses for item in properties.columns):
        column, name = find_column(table, listed).name, alias or listed
        if owners.get(name.text.lower(), column) != column:
            raise _taken(name, owners[name.text.lower()], column)


def _taken(name: Name, before: str, column: str) -> BindError:
    message = f'two properties have the name "{name}": {before} and {column}; rename one with AS'
    return BindError(message, span=name.span, code="duplicate-name")


def _views_of(statement: CreateGraph, context: BindContext) -> tuple[list[str], None]:
    """Return the names of the tables and views of the elements and their histories."""
    features = (each for vertex in statement.vertices for each in vertex.features)
    vertices = [clause.table.text for clause in statement.vertices]
    edges = [clause.table.text for clause in statement.edges]
    return [*vertices, *edges, *(each.history.table.text for each in features if each.history is not None)], None


FAMILY = PlanFamily(
    binders={CreateGraph: over_views(_bind_create_graph, _views_of)},
    operators={CreateGraphPlan: "snapdb.execute.graphs:create_graph"},
)

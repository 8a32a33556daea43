"""Lookups of tables, columns and free names. Errors have the span of the name and suggest the nearest match."""

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar
from unicodedata import category

from snapdb.catalog import Catalog
from snapdb.catalog.state import VersionHistory
from snapdb.catalog.system_tables import SCHEMA
from snapdb.errors import BindError, SnapdbError
from snapdb.plan.fits import SqlType
from snapdb.plan.scope import BindContext
from snapdb.sql.caches import CreateCache
from snapdb.sql.samples import CreateSampler
from snapdb.sql.syntax import Name
from snapdb.sql.tasks import CreateTask
from snapdb.sql_engine import quote_odd
from snapdb.types import Cache, Column, EdgeElement, PropertyGraph, Sampler, Snapshot, Table, Tag, Task, VertexElement
from snapdb.types.text import did_you_mean

_T = TypeVar("_T")

_RESERVED = frozenset(("main", "temp", "system", "memory", "snapdb", "information_schema", "pg_catalog"))


def find_named(look_up: Callable[[str], _T], name: Name) -> _T:
    """Look up a name in the catalog. Errors get the span of the name."""
    try:
        return look_up(name.text)
    except SnapdbError as error:
        error.span = name.span
        raise


def find_vertex_type(snapshot: Snapshot, name: Name) -> VertexElement:
    """Return the snapshot's vertex type with that name. If it does not exist, BindError suggests the nearest name."""
    if (vertex := snapshot.graph.vertex(name.text)) is None:
        known = [v.name for v in snapshot.graph.vertices]
        hint = did_you_mean(name.text, known) or f"; the snapshot has {', '.join(known)}"
        if snapshot.graph.edge(name.text) is not None:
            hint = f"; {name} is an edge type: write SEEDS EDGES {quote_odd(name.text)} (SELECT e_id FROM …)"
        raise BindError(
            f'vertex type "{name}" does not exist in snapshot {snapshot.name}{hint}',
            span=name.span,
            code="unknown-vertex-type",
        )
    return vertex


def find_edge_type(context: BindContext, snapshot: Snapshot, name: Name) -> EdgeElement:
    """Return the snapshot's edge type with that name. If it does not exist, BindError suggests the nearest name."""
    if (edge := snapshot.graph.edge(name.text)) is None:
        raise BindError(_no_edge(name.text, snapshot, context), span=name.span, code="unknown-edge-type")
    return edge


def _no_edge(name: str, snapshot: Snapshot, context: BindContext) -> str:
    # ELEMENTS may have reduced the snapshot, or the graph may have gained the edge type later.
    graph = context.catalog.graphs.get(snapshot.graph.name.lower())
    if graph is not None and graph.edge(name) is not None:
        return (
            f'snapshot {snapshot.name} does not contain edge type "{name}" of graph {graph.name}; '
            "sample another snapshot"
        )
    known = [e.name for e in snapshot.graph.edges]
    hint = did_you_mean(name, known) or (
        f"; the graph has {', '.join(known)}" if known else "; the graph has no edge types"
    )
    return f'edge type "{name}" does not exist in graph {snapshot.graph.name}{hint}'


def find_column(table: Table, name: Name) -> Column:
    """Return the column with that name. If it does not exist, BindError suggests the nearest name."""
    if (column := table.column(name.text)) is None:
        known = [c.name for c in table.columns]
        hint = did_you_mean(name.text, known) or f"; the table has {', '.join(known)}"
        raise BindError(
            f'column "{name}" does not exist in table {table.name}{hint}', span=name.span, code="unknown-column"
        )
    return column


def find_written(table: Table, name: Name) -> Column:
    """Return the column with that name. Raises BindError if its values are generated."""
    column = find_column(table, name)
    if column.generated is not None:
        raise BindError(
            f'column "{column.name}" of {table.name} is generated as {column.generated}; leave it out',
            span=name.span,
            code="generated-column",
        )
    return column


def find_event_time(table: Table, name: Name) -> Column:
    """Return the column with that name. Raises BindError if its type cannot be an event time."""
    column = find_column(table, name)
    if not SqlType(column.type).is_event_time():
        # A floating-point time is usually Unix time, which a cast to TIMESTAMP would not convert.
        wanted = f"CAST({column.name} AS TIMESTAMP)"
        if column.type in ("DOUBLE", "FLOAT"):
            wanted = f"to_timestamp({column.name})"
        raise BindError(
            f'column "{column.name}" of type {column.type} cannot be EVENT TIME, which must be a timestamp, '
            f"a date or an integer; load it as {wanted}",
            span=name.span,
            code="column-type",
        )
    return column


def tables_of(graph: PropertyGraph) -> dict[str, set[str]]:
    """Map each table that a graph reads, including histories, to the columns that the graph names, all case-folded."""
    kinds: dict[str, set[str]] = {}
    for element in graph.elements:
        kinds.setdefault(element.table.lower(), set()).update(name.lower() for name in element.columns)
        for spec in element.features:
            if (history := spec.history) is not None:
                named = (*history.key, history.event_time, *spec.columns)
                kinds.setdefault(history.table.lower(), set()).update(name.lower() for name in named)
    return kinds


def check_name(name: Name) -> None:
    """Raise BindError unless the name is short and printable."""
    if not name.text or len(name.text) > 200 or any(category(c) == "Cc" for c in name.text):
        raise BindError(
            "a name must have 1 to 200 characters and no control characters", span=name.span, code="bad-name"
        )


def check_not_reserved(name: Name) -> None:
    """Raise BindError if SQL uses the name for another object."""
    if name.text.lower() in _RESERVED:
        raise BindError(f'"{name}" is a reserved name; choose another name', span=name.span, code="reserved-name")


def check_schema(context: BindContext, name: Name) -> None:
    """Raise BindError if a name is qualified by a schema that does not exist, or is one of snapdb's own."""
    if not name.schema:
        return
    folded = name.schema.lower()
    if ("schema", folded) in context.catalog.definitions:
        return
    if folded in context.catalog.snapshots:
        raise BindError(
            f"{name} is an element of a snapshot, which is read-only; write {name.last} for its table, then REFRESH "
            f"SNAPSHOT {name.schema}",
            span=name.span,
            code="read-only-schema",
        )
    if folded == SCHEMA:
        message = "system tables are read-only; use the statement that changes the object"
        raise BindError(message, span=name.span, code="read-only-schema")
    schemas = context.schemas()
    hint = did_you_mean(name.schema, schemas) or f"; write CREATE SCHEMA {quote_odd(name.schema)}"
    raise BindError(f'schema "{name.schema}" does not exist{hint}', span=name.span, code="unknown-schema")


def find_table(context: BindContext, name: Name) -> Table:
    """Return the table with a name, which can be qualified by a schema. Errors have the span of the name."""
    check_schema(context, name)
    return find_named(context.catalog.table, name)


def check_new(catalog: Catalog, name: Name, replacing: Iterable[str] = ()) -> str | None:
    """Return the kind of the existing object with this name if it may be replaced, or None if the name is free.

    Raises:
        BindError: The name is reserved, not valid as a file name, or taken by another object.
    """
    check_not_reserved(name)
    check_name(name)
    kind = catalog.kind_of(name.text)
    if kind is not None and kind not in replacing:
        raise BindError(
            f'{kind} "{name}" already exists; choose another name, or drop it', span=name.span, code="exists"
        )
    return kind


def check_own(
    statement: CreateSampler | CreateCache | CreateTask, kind: str, owner: Sampler | Cache | Task | None
) -> str | None:
    """Return why IF NOT EXISTS does nothing if the object already exists, otherwise None.

    Samplers, caches and tasks each have a separate namespace.

    Raises:
        BindError: The name is not printable, or it is taken and may not be replaced.
    """
    name = statement.name
    check_name(name)
    if owner is None or (statement.or_replace and not statement.if_not_exists):
        return None
    there = f'{kind} "{owner.name}" already exists'
    if statement.if_not_exists:
        return there
    raise BindError(
        f"{there}; choose another name, or write CREATE OR REPLACE {kind.upper()}", span=name.span, code="exists"
    )


def named_columns(table: Table, names: Sequence[Name]) -> tuple[str, ...]:
    """Return the listed columns, or all columns if the list is empty. Raises BindError if one is listed twice."""
    if not names:
        return tuple(c.name for c in table.columns if c.generated is None)
    columns = [find_written(table, name).name for name in names]
    for column, name in zip(columns, names, strict=True):
        if columns.count(column) > 1:
            raise BindError(f'column "{column}" is specified twice', span=name.span, code="duplicate-name")
    return tuple(columns)


def find_tag(context: BindContext, name: Name) -> Tag:
    """Return the tag with that name. Raises BindError if it does not exist."""
    known = VersionHistory(context.store.catalog_db).tags()
    match = next((tag for tag in known if tag.name.lower() == name.text.lower()), None)
    if match is None:
        near = did_you_mean(name.text, [tag.name for tag in known])
        raise BindError(f'tag "{name}" does not exist{near}', span=name.span, code="unknown-tag")
    return match

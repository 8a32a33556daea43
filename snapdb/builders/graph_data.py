"""The rows of a graph at a version, as SQL with dense ids, and the checks that the rows must pass."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from snapdb.arrays import Bools
from snapdb.builders.context import BuildContext
from snapdb.catalog import EdgeRows, VertexRows, tables_at
from snapdb.catalog.elements import time_expression
from snapdb.errors import CommitConflict, DataError
from snapdb.sql_engine import ROW_ID, SqlSession, quote, quote_all, table_rows, text_literal
from snapdb.storage.array_files import STATIC
from snapdb.storage.arrays.feature_history import FOREVER
from snapdb.storage.arrays.feature_types import FeatureSource, check_features
from snapdb.storage.tables.id_maps import IdMap, IdMaps
from snapdb.storage.tables.segments import check_files, check_table
from snapdb.types import Column, EdgeElement, FeatureSpec, PropertyGraph, Table, VertexElement
from snapdb.types.text import counted

_TRIES = 20
"""The maximum number of attempts to assign ids while other writers append."""


class VertexData(NamedTuple):
    """The rows and the id map of one vertex type."""

    rows: VertexRows
    """The rows at the version."""
    id_map: IdMap
    """The id map of the key."""
    known: str
    """A SELECT of k0, k1, …, dense for every key in any version of the table."""

    @property
    def key(self) -> tuple[str, ...]:
        return self.rows.element.key

    @property
    def keyed(self) -> str:
        """A SELECT of the rows' columns, with their dense ids as ROW_ID."""
        return self.numbered(self.rows.sql)

    @property
    def dense(self) -> str:
        """A SELECT of k0, k1, …, dense for the keys of these rows only."""
        keys = ", ".join(f"m.k{i}" for i in range(len(self.key)))
        return f"SELECT {keys}, m.dense FROM ({self.rows.sql}) v JOIN ({self.known}) m ON {self.same}"

    @property
    def features(self) -> FeatureSource:
        """The feature source for these rows, with row ids as ROW_ID. To write features, set its `dense`."""
        return self.features_of(self.rows.numbered)

    def features_of(self, rows: str) -> FeatureSource:
        """Return the feature source for `rows`, a SELECT of the columns with the dense ids as ROW_ID."""
        table, element = self.rows.table, self.rows.element
        return FeatureSource(element.name, rows, table.columns, self.id_map.limit, element.key)

    @property
    def complete(self) -> bool:
        """Whether every dense id is a vertex at this version. `check_vertices` must have checked the keys."""
        # If there are as many rows as ids, and the keys are distinct, every id has a row. No keys have to be read.
        plain = not self.rows.selective and self.rows.element.on_duplicate == "ERROR"
        return plain and self.rows.table.rows == self.id_map.limit

    def numbered(self, rows: str) -> str:
        """Return a SELECT of the given rows' columns, with their dense ids as ROW_ID."""
        return f"SELECT v.*, m.dense AS {quote(ROW_ID)} FROM ({rows}) v JOIN ({self.known}) m ON {self.same}"

    def alive(self, session: SqlSession) -> Bools | None:
        """Return, as [dense ids] bool, whether each dense id is a vertex, or None if all of them are."""
        if self.complete:
            return None
        alive = np.zeros(self.id_map.limit, np.bool_)
        for batch in session.reader(f"SELECT {quote(ROW_ID)} FROM ({self.keyed})"):
            alive[batch.column(0).to_numpy()] = True
        return None if alive.all() else alive

    @property
    def same(self) -> str:
        """The condition that a row v has the key of a row m of `known`."""
        return " AND ".join(f"v.{quote(name)} = m.k{i}" for i, name in enumerate(self.key))

    def facts(self, *, state: bool) -> list[object]:
        """Return values that identify a vertex type's rows and dense ids, at any version unless `state` is True."""
        table, element = self.rows.table, self.rows.element
        facts: list[object] = [table.id, self.id_map.id, element.on_duplicate, fields(table, element.key)]
        return [*facts, table.state] if state else facts


class EdgeData(NamedTuple):
    """The rows of one edge type between two vertex types. They include dangling edges."""

    rows: EdgeRows
    """The rows at the version."""
    source: VertexData
    """The vertex type of the sources."""
    destination: VertexData
    """The vertex type of the destinations."""

    @property
    def features(self) -> FeatureSource:
        return self.features_of(table_rows(self.rows.table, self.rows.root, row_ids=True, ordered=False))

    def features_of(self, rows: str) -> FeatureSource:
        """Return the feature source for `rows`, a SELECT of the columns with the edge ids as ROW_ID."""
        table = self.rows.table
        return FeatureSource(self.rows.element.name, rows, table.columns, table.next_row, (ROW_ID,))

    def facts(self, *, state: bool) -> list[object]:
        """Return values that identify an edge type's rows and dense ends, at any version unless `state` is True."""
        table, element = self.rows.table, self.rows.element
        keys = [fields(table, element.source_key), fields(table, element.destination_key)]
        facts = [end.facts(state=state) for end in (self.source, self.destination)]
        return [table.id, element.on_dangling, keys, facts, table.state if state else None]


class GraphData(NamedTuple):
    """All elements of a graph at one version, without a window and filters."""

    vertices: Mapping[str, VertexData]
    """Vertex type → its rows."""
    edges: Mapping[str, EdgeData]
    """Edge type → its rows."""


def graph_data(
    context: BuildContext, session: SqlSession, graph: PropertyGraph, tables: Mapping[str, Table]
) -> GraphData:
    """Return the rows of a graph's elements. Assigns dense ids to keys that no graph has used before."""
    root = context.store.db_dir.path
    vertices = {}
    for vertex in graph.vertices:
        table = tables[vertex.table.lower()]
        check_table(context.store.db_dir, table)
        context.report(f"assigning ids to the keys of {vertex.name}", None)
        id_map = _ensure(context, session, table, vertex.key)
        check_files(context.store.db_dir, f"the id map of {vertex.name}", id_map.segments)
        vertices[vertex.name] = VertexData(VertexRows(vertex, table, root), id_map, id_map.sql(context.store.db_dir))
    edges = {}
    for edge in graph.edges:
        source, destination = vertices[edge.source], vertices[edge.destination]
        table = tables[edge.table.lower()]
        check_table(context.store.db_dir, table)
        rows = EdgeRows(edge, table, root, source.rows, destination.rows)
        edges[edge.name] = EdgeData(rows, source, destination)
    return GraphData(vertices, edges)


def check_vertices(session: SqlSession, data: VertexData, new: str | None = None) -> None:
    """Check that keys are unique and not NULL, that times exist, and that features are complete.

    Args:
        session: The session that reads the rows.
        data: The vertex type.
        new: A SELECT of the rows to check, if all other rows have been checked already.

    Raises:
        DataError: Some rows violate a rule. The message contains their number and three examples.
    """
    element, rows = data.rows.element, new or data.rows.sql
    missing = " OR ".join(f"{quote(name)} IS NULL" for name in element.key)
    (nulls,) = session.rows(f"SELECT count(*) FROM ({rows}) WHERE {missing}")[0]
    if nulls:
        raise DataError(
            f"{_having(nulls, 'row', element)} a NULL key ({', '.join(element.key)}); "
            f"delete them: DELETE FROM {element.table} WHERE {element.key[0]} IS NULL",
            code="null-key",
        )
    if element.on_duplicate == "ERROR":
        _check_unique(session, data, new)
    if data.rows.time is not None:
        _check_times(session, data.rows, rows)
    if element.classes is not None and element.target is not None:
        _check_classes(session, element, element.target, element.classes, rows)
    check_features(session, data.features if new is None else data.features_of(data.numbered(new)), _own(element))


def _own(element: VertexElement) -> tuple[FeatureSpec, ...]:
    """Return the features that are stored in the element's own table."""
    return tuple(spec for spec in element.features if spec.history is None)


def _check_classes(session: SqlSession, element: VertexElement, target: str, classes: Sequence[str], rows: str) -> None:
    """Raise DataError if the target of a row is neither NULL nor a declared class."""
    text, known = f"CAST({quote(target)} AS VARCHAR)", ", ".join(map(text_literal, classes))
    others = f"SELECT {text} AS c, count(*) AS n FROM ({rows}) WHERE {text} NOT IN ({known}) GROUP BY c"
    count, distinct = session.rows(f"SELECT coalesce(sum(n), 0)::BIGINT, count(*) FROM ({others})")[0]
    if count:
        shown = session.rows(f"SELECT c FROM ({others}) ORDER BY c LIMIT 3")
        named = ", ".join(text_literal(value) for (value,) in shown) + (", …" if distinct > 3 else "")
        raise DataError(
            f"{_having(count, 'row', element)} {counted(distinct, 'class', 'classes')} in {target} that the graph does "
            f"not declare ({named}); change them, or add them to CLASSES",
            code="undeclared-class",
        )


def _check_unique(session: SqlSession, data: VertexData, new: str | None) -> None:
    """Raise DataError if a key occurs twice, either among the `new` rows or in a new row and another row."""
    element, rows = data.rows.element, data.rows.sql
    keys = quote_all(element.key)
    if new is not None:
        # Only the keys of new rows can be duplicates, because the other rows were checked at an earlier version.
        rows = f"SELECT {keys} FROM ({rows}) SEMI JOIN (SELECT {keys} FROM ({new})) USING ({keys})"
    twice = f"SELECT {keys} FROM ({rows}) GROUP BY {keys} HAVING count(*) > 1"
    (count,) = session.rows(f"SELECT count(*) FROM ({twice})")[0]
    if count:
        shown = _shown(session, element.key, f"FROM ({twice}) ORDER BY {keys} LIMIT 3")
        raise DataError(
            f"{_having(count, 'key', element)} more than one row ({shown}); make them unique, or write "
            "ON DUPLICATE KEY FIRST or LAST in the graph",
            code="duplicate-key",
        )


def check_edges(session: SqlSession, data: EdgeData, rows: str) -> None:
    """Check that both ends of every edge are vertices, and that times and weights exist.

    Args:
        session: The session that reads the rows.
        data: The edge type.
        rows: A SELECT of the edges to check.

    Raises:
        DataError: Some edges violate a rule. The message contains their number and three examples.
    """
    element = data.rows.element
    if element.on_dangling == "ERROR":
        for side, key, vertices in (
            ("source", element.source_key, data.source),
            ("destination", element.destination_key, data.destination),
        ):
            _check_ends(session, data, rows, side, key, vertices)
    if data.rows.time is not None:
        _check_times(session, data.rows, rows)
    if element.weight is not None:
        weight = f"CAST({quote(element.weight)} AS DOUBLE)"
        (nulls,) = session.rows(f"SELECT count(*) FROM ({rows}) WHERE {weight} IS NULL OR isnan({weight})")[0]
        if nulls:
            raise DataError(
                f"{_having(nulls, 'row', element)} a NULL or NaN weight ({element.weight}); "
                "delete them, or set a weight",
                code="bad-weight",
            )


def _check_times(session: SqlSession, rows: VertexRows | EdgeRows, query: str) -> None:
    """Raise DataError if an event time is missing, or if an edge ends before it starts."""
    column, element = rows.time, rows.element
    assert column is not None
    time = time_expression(column)  # infinite times also become NULL
    static = f" AND {quote(column.name)} IS NOT NULL" if element.nulls_static else ""
    (nulls,) = session.rows(f"SELECT count(*) FROM ({query}) WHERE {time} IS NULL{static}")[0]
    if nulls:
        what = "an infinite" if element.nulls_static else "a NULL or infinite"
        more = "" if element.nulls_static else ", or write NULLS STATIC in the graph"
        raise DataError(
            f"{_having(nulls, 'row', element)} {what} event time ({column.name}); delete them, or set a time{more}",
            code="no-event-time",
        )
    end = rows.end if isinstance(rows, EdgeRows) else None
    if end is not None:
        until = end_expression(end)
        before = f"{until} = {STATIC} OR {until} < {time}"
        (wrong,) = session.rows(f"SELECT count(*) FROM ({query}) WHERE {before}")[0]
        if wrong:
            raise DataError(
                f"{_having(wrong, 'row', element)} an end time before the start time ({end.name} < {column.name}); "
                "swap the times, or delete them",
                code="ends-before-it-begins",
            )


def _having(count: int, noun: str, element: VertexElement | EdgeElement) -> str:
    """Return the start of a message, such as "3 rows of person have"."""
    return f"{counted(count, noun)} of {element.name} {'has' if count == 1 else 'have'}"


def end_expression(column: Column, prefix: str = "") -> str:
    """Return SQL for the end of an edge as BIGINT: FOREVER for NULL or infinity, STATIC for -infinity."""
    name, until = prefix + quote(column.name), f"coalesce({time_expression(column, prefix)}, {FOREVER})"
    if not column.type.startswith(("TIMESTAMP", "DATE")):
        return until
    return f"CASE WHEN {name} = CAST('-infinity' AS {column.type}) THEN {STATIC} ELSE {until} END"


def _check_ends(
    session: SqlSession, data: EdgeData, rows: str, side: str, key: Sequence[str], vertices: VertexData
) -> None:
    """Raise DataError if an edge has an end that is not a vertex."""
    element = data.rows.element
    same = " AND ".join(f"e.{quote(k)} = v.{quote(there)}" for k, there in zip(key, vertices.key, strict=True))
    dangling = f"FROM ({rows}) e ANTI JOIN ({vertices.rows.sql}) v ON {same}"
    (count,) = session.rows(f"SELECT count(*) {dangling}")[0]
    if count:
        shown = _shown(session, key, f"FROM (SELECT DISTINCT {quote_all(key)} {dangling} ORDER BY ALL LIMIT 3)")
        raise DataError(
            f"{_having(count, 'edge', element)} a {side} that does not exist in {vertices.rows.element.name} "
            f"({shown}); add the vertices, or write ON DANGLING SKIP in the graph",
            code="dangling-edges",
        )


def _ensure(context: BuildContext, session: SqlSession, table: Table, key: Sequence[str]) -> IdMap:
    """Return the id map of a key. Retries while other writers append."""
    # Another writer may append after the keys are read and before the map is recorded, so each attempt reads the newest
    # rows.
    for attempt in range(_TRIES):
        try:
            return IdMaps(context.store.catalog_db).ensure(session, table, key)
        except CommitConflict:
            if attempt == _TRIES - 1:
                raise
    raise AssertionError("unreachable: the last try returns or raises")


def _shown(session: SqlSession, key: Sequence[str], rows: str) -> str:
    """Return the keys of the given rows as text."""
    texts = ", ".join(f"CAST({quote(name)} AS VARCHAR)" for name in key)
    rows_ = session.rows(f"SELECT {texts} {rows}")
    return ", ".join(str(row[0]) if len(row) == 1 else f"({', '.join(map(str, row))})" for row in rows_)


# The same elements at another version of their tables, which is used to find the changes since then.


def vertices_at(context: BuildContext, data: VertexData, version: int) -> VertexData | None:
    """Return the vertex type with its table at a version, or None if the table did not exist."""
    return _vertices_of(data, _tables(context, version))


def edges_at(context: BuildContext, data: EdgeData, version: int) -> EdgeData | None:
    """Return the edge type with its tables at a version, or None if one of them did not exist."""
    tables = _tables(context, version)
    source, destination = _vertices_of(data.source, tables), _vertices_of(data.destination, tables)
    table = tables.get(data.rows.table.id)
    if source is None or destination is None or table is None:
        return None
    rows = replace(data.rows, table=table, source=source.rows, destination=destination.rows)
    return data._replace(rows=rows, source=source, destination=destination)


def fields(table: Table, names: Sequence[str | None]) -> list[int | None]:
    """Return the field ids of columns, which do not change when columns are renamed."""
    columns = [None if name is None else table.column(name) for name in names]
    return [None if column is None else column.field for column in columns]


def newest(*elements: VertexData | EdgeData) -> int:
    """Return the last version that changed one of the tables."""
    return max(e.rows.table.state for e in elements)


def _tables(context: BuildContext, version: int) -> dict[int, Table]:
    """Return the tables at a version, by table id."""
    return {table.id: table for table in tables_at(context.store.catalog_db, version).values()}


def _vertices_of(data: VertexData, tables: dict[int, Table]) -> VertexData | None:
    """Return the vertex type with its table at another version."""
    table = tables.get(data.rows.table.id)
    return None if table is None else data._replace(rows=replace(data.rows, table=table))

"""A graph's rows at a version as SQL with dense ids, and the checks that they must pass."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from snapdb.catalog import EdgeRows, VertexRows
from snapdb.catalog.elements import time_expression
from snapdb.errors import CommitConflict, DataError
from snapdb.execute.operator import Engine
from snapdb.relational import ROW_ID, Session, quote, quote_all
from snapdb.storage.features import FeatureSource, check_features
from snapdb.storage.ids import IdMap, ensure_map
from snapdb.storage.segments import check_files, check_table
from snapdb.types import PropertyGraph, Table

__all__ = ["EdgeData", "GraphData", "VertexData", "check_edges", "check_vertices", "graph_data"]

_TRIES = 20


@dataclass(frozen=True, slots=True)
class VertexData:
    """One vertex type: its rows and its id map."""

    rows: VertexRows
    id_map: IdMap
    known: str
    """SELECT k0, k1, …, dense: every key that any version of the table has had."""

    @property
    def key(self) -> tuple[str, ...]:
        return self.rows.element.key

    @property
    def keyed(self) -> str:
        """SELECT of the rows' columns and their dense id, called ROW_ID."""
        return f"SELECT v.*, m.dense AS {quote(ROW_ID)} FROM ({self.rows.sql}) v JOIN ({self.known}) m ON {self._same}"

    @property
    def dense(self) -> str:
        """SELECT k0, k1, …, dense: the keys of these rows only."""
        keys = ", ".join(f"m.k{i}" for i in range(len(self.key)))
        return f"SELECT {keys}, m.dense FROM ({self.rows.sql}) v JOIN ({self.known}) m ON {self._same}"

    @property
    def features(self) -> FeatureSource:
        table, element = self.rows.table, self.rows.element
        return FeatureSource(element.name, self.keyed, table.columns, self.id_map.limit, element.key)

    @property
    def _same(self) -> str:
        return " AND ".join(f"v.{quote(name)} = m.k{i}" for i, name in enumerate(self.key))


@dataclass(frozen=True, slots=True)
class EdgeData:
    """One edge type: its rows between two vertex types."""

    rows: EdgeRows
    source: VertexData
    destination: VertexData

    @property
    def dense(self) -> str:
        """SELECT source, destination (dense ids), e_id, and time and weight where there are."""
        element = self.rows.element
        more = f", {time_expression(self.rows.time, 'e.')} AS time" if self.rows.time else ""
        if element.weight:
            more += f", CAST(e.{quote(element.weight)} AS DOUBLE) AS weight"
        source = _join("s", self.source.dense, element.source_key)
        destination = _join("d", self.destination.dense, element.destination_key)
        return (f"SELECT s.dense AS source, d.dense AS destination, e.e_id{more} "
                f"FROM ({self.rows.sql}) e JOIN {source} JOIN {destination}")  # fmt: skip

    @property
    def features(self) -> FeatureSource:
        rows = f"SELECT * EXCLUDE (e_id), e_id AS {quote(ROW_ID)} FROM ({self.rows.sql})"
        table = self.rows.table
        return FeatureSource(self.rows.element.name, rows, table.columns, table.next_row, (ROW_ID,))


@dataclass(frozen=True, slots=True)
class GraphData:
    """Every element of a graph at one version, without window and filters."""

    vertices: Mapping[str, VertexData]
    edges: Mapping[str, EdgeData]


def graph_data(engine: Engine, session: Session, graph: PropertyGraph, tables: Mapping[str, Table]) -> GraphData:
    """The rows of a graph's elements. Keys that no graph has named before get their dense ids here."""
    root = engine.home.path
    vertices = {}
    for vertex in graph.vertices:
        table = tables[vertex.table.lower()]
        check_table(engine.home, table)
        engine.report(f"numbering the keys of {vertex.name}", None)
        id_map = _ensure(engine, session, table, vertex.key)
        check_files(engine.home, f"the ids of {vertex.name}", id_map.segments)
        vertices[vertex.name] = VertexData(VertexRows(vertex, table, root), id_map, id_map.sql(engine.home))
    edges = {}
    for edge in graph.edges:
        source, destination = vertices[edge.source], vertices[edge.destination]
        table = tables[edge.table.lower()]
        check_table(engine.home, table)
        rows = EdgeRows(edge, table, root, source.rows, destination.rows)
        edges[edge.name] = EdgeData(rows, source, destination)
    return GraphData(vertices, edges)


def check_vertices(session: Session, data: VertexData) -> None:
    """Nothing when keys are there and unique, and features complete.

    Raises:
        DataError: it counts the rows that break the rule and shows three.
    """
    element, rows = data.rows.element, data.rows.sql
    keys = quote_all(element.key)
    missing = " OR ".join(f"{quote(name)} IS NULL" for name in element.key)
    (nulls,) = session.rows(f"SELECT count(*) FROM ({rows}) WHERE {missing}")[0]
    if nulls:
        raise DataError(f"{nulls} rows of {element.name} have NULL as key ({', '.join(element.key)}); "
                        f"delete them: DELETE FROM {element.table} WHERE {element.key[0]} IS NULL")  # fmt: skip
    if element.on_duplicate == "ERROR":
        twice = f"SELECT {keys} FROM ({rows}) GROUP BY {keys} HAVING count(*) > 1"
        (count,) = session.rows(f"SELECT count(*) FROM ({twice})")[0]
        if count:
            shown = _shown(session, element.key, f"FROM ({twice}) ORDER BY {keys} LIMIT 3")
            raise DataError(f"{count} keys of {element.name} occur more than once ({shown}); make them unique, or say "
                            "ON DUPLICATE KEY FIRST or LAST in the graph")  # fmt: skip
    check_features(session, data.features, element.features)


def check_edges(session: Session, data: EdgeData) -> None:
    """Nothing when both ends of every edge are vertices, times are there, and features complete.

    Raises:
        DataError: it counts the edges that break the rule and shows three.
    """
    element, rows = data.rows.element, data.rows.sql
    if element.on_dangling == "ERROR":
        for side, key, vertices in (
            ("source", element.source_key, data.source),
            ("destination", element.destination_key, data.destination),
        ):
            _check_ends(session, data, side, key, vertices)
    if data.rows.time is not None:
        time = time_expression(data.rows.time)  # infinite times have no number either
        (nulls,) = session.rows(f"SELECT count(*) FROM ({rows}) WHERE {time} IS NULL")[0]
        if nulls:
            raise DataError(f"{nulls} rows of {element.name} have NULL or infinity as event time "
                            f"({data.rows.time.name}); delete them or give them a time")  # fmt: skip
    if element.weight is not None:
        weight = f"CAST({quote(element.weight)} AS DOUBLE)"
        (nulls,) = session.rows(f"SELECT count(*) FROM ({rows}) WHERE {weight} IS NULL OR isnan({weight})")[0]
        if nulls:
            raise DataError(f"{nulls} rows of {element.name} have NULL or NaN as weight ({element.weight}); "
                            "delete them or give them a weight")  # fmt: skip
    check_features(session, data.features, element.features)


def _check_ends(session: Session, data: EdgeData, side: str, key: Sequence[str], vertices: VertexData) -> None:
    element = data.rows.element
    same = " AND ".join(f"e.{quote(k)} = v.{quote(there)}" for k, there in zip(key, vertices.key, strict=True))
    dangling = f"FROM ({data.rows.sql}) e ANTI JOIN ({vertices.rows.sql}) v ON {same}"
    (count,) = session.rows(f"SELECT count(*) {dangling}")[0]
    if count:
        shown = _shown(session, key, f"FROM (SELECT DISTINCT {quote_all(key)} {dangling} ORDER BY ALL LIMIT 3)")
        raise DataError(f"{count} edges of {element.name} have a {side} that is not in {vertices.rows.element.name} "
                        f"({shown}); add the vertices, or say ON DANGLING SKIP in the graph")  # fmt: skip


def _ensure(engine: Engine, session: Session, table: Table, key: Sequence[str]) -> IdMap:
    """The id map of a key, tried again while other writers append."""
    for attempt in range(_TRIES):
        try:
            return ensure_map(engine.home, engine.ledger, session, table, key)
        except CommitConflict:
            if attempt == _TRIES - 1:
                raise
    raise AssertionError("unreachable: the last try returns or raises")


def _join(alias: str, rows: str, key: Sequence[str]) -> str:
    same = " AND ".join(f"e.{quote(name)} = {alias}.k{i}" for i, name in enumerate(key))
    return f"({rows}) {alias} ON {same}"


def _shown(session: Session, key: Sequence[str], rows: str) -> str:
    """The keys of some rows, as text."""
    texts = ", ".join(f"CAST({quote(name)} AS VARCHAR)" for name in key)
    found = session.rows(f"SELECT {texts} {rows}")
    return ", ".join(str(row[0]) if len(row) == 1 else f"({', '.join(map(str, row))})" for row in found)

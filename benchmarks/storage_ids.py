"""Mapping keys to dense ids with the engine's own SQL: assigning ids to keys, and mapping an edge table's ends."""

from __future__ import annotations

import time

import snapdb
from benchmarks.storage_bench import Figures
from snapdb.builders.edges import DenseEdges, edge_rows
from snapdb.builders.graph_data import EdgeData, graph_data
from snapdb.sql_engine import SqlSession, quote
from snapdb.storage.catalog_db.locks import TablesLock
from snapdb.storage.tables.id_maps import IdMaps


def allot_keys(database: str, table: str, key: str) -> Figures:
    """Time the first assignment of ids to keys, as in CREATE PROPERTY GRAPH but without the graph's checks."""
    with snapdb.connect(database) as db:
        engine = db._session._context(None, TablesLock(db._session.store.db_dir))
        with engine.store.sql_engine.session() as session:
            found = engine.bind_context.catalog.table(table)
            started = time.perf_counter()
            id_map = IdMaps(engine.store.catalog_db).ensure(session, found, [key])
            return {"seconds": time.perf_counter() - started, "rows": id_map.limit}


def map_keys(database: str, graph: str, edge: str, way: str | None) -> Figures:
    """Time mapping an edge table's ends to dense ids. The result is their sum, so that no rows are fetched.

    Args:
        database: The path of the database.
        graph: The name of the graph.
        edge: The name of the edge table.
        way: 'known' joins the sources with every key that was ever assigned an id, 'dense' with the keys of the vertex
            table's rows, and 'both' is the stream from which topologies are built. None maps nothing and only returns
            the paths of the files.
    """
    with snapdb.connect(database) as db:
        engine = db._session._context(None, TablesLock(db._session.store.db_dir))
        with engine.store.sql_engine.session() as session:
            tables = engine.bind_context.catalog.tables
            data = graph_data(engine, session, engine.bind_context.catalog.graph(graph), tables).edges[edge]
            (key,) = data.rows.element.source_key
            joined = f"SELECT sum(m.dense) FROM ({data.rows.sql}) e JOIN ({{}}) m ON e.{quote(key)} = m.k0"
            queries = {
                "known": joined.format(data.source.known),
                "dense": joined.format(data.source.dense),
                None: "SELECT 0",
            }
            started = time.perf_counter()
            row = _both(session, data) if way == "both" else session.rows(queries[way])[0]
            return {
                "seconds": time.perf_counter() - started,
                "result": str([row]),
                "files": [str(db.path / segment.path) for segment in data.rows.table.segments],
                "keys": [data.source.known, data.destination.known],
            }


def _both(session: SqlSession, data: EdgeData) -> tuple[int, int]:
    """Return the sums of sources and of destinations."""
    source = destination = 0
    for batch in DenseEdges(session, data, edge_rows(data)):
        source += int(batch["source"].to_numpy().sum())
        destination += int(batch["destination"].to_numpy().sum())
    return source, destination

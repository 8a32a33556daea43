"""COPY SNAPSHOT … TO as Apache GraphAr (gar/v1): YAML files, and chunks of vertices and edges in Parquet.

Each edge type has two adjacency lists with offsets: one ordered by source (CSR), and one ordered by destination (CSC).
Specification: https://graphar.apache.org/docs/specification/format
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from snapdb.catalog import EdgeRows, VertexRows
from snapdb.catalog.elements import shown_columns
from snapdb.errors import BindError, CorruptError
from snapdb.execute.exports.arrays import ArrayCursor, Numbering, edge_arrays, numbering_of
from snapdb.execute.exports.elements import Export, Written
from snapdb.execute.exports.graphar_chunks import EDGE_CHUNK, VERTEX_CHUNK, AdjacencyChunks, ChunkFiles, chunks_of
from snapdb.execute.exports.yaml_text import Yaml, to_yaml
from snapdb.sql_engine import Names, quote
from snapdb.storage.manifests import file_name
from snapdb.types import EdgeElement, VertexElement

_VERSION = "gar/v1"
_PROPERTIES = "properties/"
"""The prefix of the only property group of each type."""
_TOPOLOGY = "snapdb topology"
"""The name under which the query of an adjacency list reads the arrays of an edge type."""
_ROWS = 1 << 16
_TYPES = {
    "BOOLEAN": ("bool", "BOOLEAN"),
    "TINYINT": ("int32", "INTEGER"),
    "SMALLINT": ("int32", "INTEGER"),
    "INTEGER": ("int32", "INTEGER"),
    "UTINYINT": ("int32", "INTEGER"),
    "USMALLINT": ("int32", "INTEGER"),
    "UINTEGER": ("int64", "BIGINT"),
    "BIGINT": ("int64", "BIGINT"),
    "FLOAT": ("float", "FLOAT"),
    "DOUBLE": ("double", "DOUBLE"),
    "DATE": ("date", "DATE"),
    "TIMESTAMP": ("timestamp", "TIMESTAMP_MS"),
    "VARCHAR": ("string", "VARCHAR"),
}
"""The types of columns → the types of GraphAr, and DuckDB's types that represent them. Other types become texts."""
_LISTED = ("int32", "int64", "float", "double", "string")
"""The types of GraphAr that lists can have."""


class _Property(NamedTuple):
    """A column as a property."""

    name: str
    type: str
    """The type of GraphAr."""
    sql: str
    """The expression of its values."""
    primary: bool = False


def write_graphar(export: Export) -> list[Written]:
    """Write every element with the columns of the snapshot's views, and the graph's information file."""
    graph, view = export.plan.snapshot.graph, export.reading.view
    _check_triplets(export)
    numbered = {vertex.name: numbering_of(view, vertex.name) for vertex in graph.vertices}
    vertices = [_write_vertices(export, vertex, numbered[vertex.name]) for vertex in graph.vertices]
    edges = [_write_edges(export, edge, numbered) for edge in graph.edges]
    file = f"{file_name(graph.name)}.graph.yml"
    information: dict[str, Yaml] = {
        "name": graph.name,
        "vertices": [each.files[0] for each in vertices],
        "edges": [each.files[0] for each in edges],
        "version": _VERSION,
    }
    export.folder.file(file).write_text(to_yaml(information), "utf-8")
    return [vertices[0]._replace(files=(*vertices[0].files, file)), *vertices[1:], *edges]


def _check_triplets(export: Export) -> None:
    """Raise BindError if two edge types have the same directory, because underscores also separate the names."""
    triplets = Counter(_triplet(edge) for edge in export.plan.snapshot.graph.edges)
    twice = [triplet for triplet, count in triplets.items() if count > 1]
    if twice:
        raise BindError(
            f"FORMAT graphar has the same name for two edge types: {twice[0]}; create the graph with other names after "
            "AS, without underscores",
            span=export.plan.span,
            code="duplicate-name",
        )


def _triplet(edge: EdgeElement) -> str:
    return "_".join(file_name(name) for name in edge.type)


def _write_vertices(export: Export, vertex: VertexElement, numbering: Numbering) -> Written:
    """Write the chunks of a vertex type. A row's position is its number, so no chunk needs a column of keys."""
    context, rows = export.context, export.reading.rows[vertex.name]
    assert isinstance(rows, VertexRows)
    properties = _properties(rows, vertex.key)
    prefix = f"vertex/{file_name(vertex.name)}/"
    count = 0
    query = export.reading.sorted_rows(rows, ", ".join(each.sql for each in properties))
    with (
        ChunkFiles(export.folder, prefix) as files,
        context.store.sql_engine.session() as session,
        context.watching(session, f"writing {vertex.name}"),
    ):
        for batch in session.reader(query, rows=_ROWS):
            context.check_stopped()
            for chunk, part in chunks_of(batch, count, VERTEX_CHUNK):
                index = pa.array(np.arange(count, count + part.num_rows))
                files.append(f"{_PROPERTIES}chunk{chunk}", {"_graphArVertexIndex": index} | _columns(part))
                count += part.num_rows
    if count != numbering.count:
        raise CorruptError(
            f"snapshot {export.plan.snapshot.name} is damaged: {vertex.name} has {count} rows instead of "
            f"{numbering.count}; create it again",
            code="damaged-snapshot",
        )
    files.write_number("vertex_count", count)
    information: dict[str, Yaml] = {
        "type": vertex.name,
        "chunk_size": VERTEX_CHUNK,
        "prefix": prefix,
        "property_groups": [_group(properties)],
        "version": _VERSION,
    }
    file = f"{file_name(vertex.name)}.vertex.yml"
    export.folder.file(file).write_text(to_yaml(information), "utf-8")
    return Written(vertex, count, (file, *files.names), {each.name: each.type for each in properties})


def _write_edges(export: Export, edge: EdgeElement, numbered: Mapping[str, Numbering]) -> Written:
    """Write both adjacency lists of an edge type."""
    rows, ends = export.reading.rows[edge.name], (numbered[edge.source], numbered[edge.destination])
    assert isinstance(rows, EdgeRows)
    properties = _properties(rows, ())
    triplet = _triplet(edge)
    prefix = f"edge/{triplet}/"
    files, count = list[str](), 0
    for side, numbering in zip(("source", "destination"), ends, strict=True):
        ordered = "ordered_by_source" if side == "source" else "ordered_by_dest"
        with ChunkFiles(export.folder, f"{prefix}{ordered}/") as written:
            chunks = AdjacencyChunks(written, side, numbering.count, _PROPERTIES)
            for batch in _adjacency(export, edge, ends, rows, properties, side):
                chunks.append(batch)
            count = chunks.finish()
        files += written.names
    information: dict[str, Yaml] = {
        "src_type": edge.source,
        "edge_type": edge.name,
        "dst_type": edge.destination,
        "chunk_size": EDGE_CHUNK,
        "src_chunk_size": VERTEX_CHUNK,
        "dst_chunk_size": VERTEX_CHUNK,
        "directed": True,
        "prefix": prefix,
        "adj_lists": [{"ordered": True, "aligned_by": side, "file_type": "parquet"} for side in ("src", "dst")],
        "property_groups": [_group(properties)],
        "version": _VERSION,
    }
    file = f"{triplet}.edge.yml"
    export.folder.file(file).write_text(to_yaml(information), "utf-8")
    return Written(edge, count, (file, *files), {each.name: each.type for each in properties})


def _adjacency(
    export: Export,
    edge: EdgeElement,
    ends: tuple[Numbering, Numbering],
    rows: EdgeRows,
    properties: list[_Property],
    side: str,
) -> Iterator[pa.RecordBatch]:
    """Yield `source`, `destination` and the properties of an edge type's edges, sorted by the vertices of a side."""
    context = export.context
    topology = _topology(export, edge, ends)
    columns = ", ".join(each.sql for each in properties)
    query = (
        f"SELECT t.source, t.destination, {columns} FROM {quote(_TOPOLOGY)} t JOIN ({rows.sql}) v ON v.e_id = t.edge "
        f"ORDER BY t.{side}, t.place"
    )
    names = Names(sources={_TOPOLOGY: topology})
    with context.store.sql_engine.session(names) as session, context.watching(session, f"writing {edge.name}"):
        for batch in session.reader(query, rows=_ROWS):
            context.check_stopped()
            yield batch


def _topology(export: Export, edge: EdgeElement, ends: tuple[Numbering, Numbering]) -> pa.RecordBatchReader:
    """Return the numbers of both ends, the id and the place of each edge, sorted by destination."""
    arrays = {array.name: array for array in edge_arrays(export.reading.view, edge, *ends)}
    source, destination = arrays["edge_index"].rows
    cursors = {
        "source": ArrayCursor(source),
        "destination": ArrayCursor(destination),
        "edge": ArrayCursor(arrays["e_id"]),
    }
    schema = pa.schema(dict.fromkeys((*cursors, "place"), pa.int64()))
    count = source.shape[0]

    def batches() -> Iterator[pa.RecordBatch]:
        for start in range(0, count, _ROWS):
            stop = min(start + _ROWS, count)
            values = [cursor.take(stop - start).astype(np.int64) for cursor in cursors.values()]
            yield pa.RecordBatch.from_arrays([*map(pa.array, values), pa.array(np.arange(start, stop))], schema=schema)

    return pa.RecordBatchReader.from_batches(schema, batches())


def _properties(rows: VertexRows | EdgeRows, key: tuple[str, ...]) -> list[_Property]:
    """Return the columns that the snapshot's view of an element shows, as properties."""
    types = {column.name: column.type for column in rows.table.columns} | {"e_id": "BIGINT"}
    properties = []
    for column, name in shown_columns(rows.element, [column.name for column in rows.table.columns]):
        kind, stored = _type(types[column])
        sql = f"CAST(v.{quote(column)} AS {stored}) AS {quote(name)}"
        properties.append(_Property(name, kind, sql, column in key))
    return properties


def _type(sql_type: str) -> tuple[str, str]:
    """Return the GraphAr type for a column, and the DuckDB type whose values have it.

    >>> _type("UTINYINT"), _type("FLOAT[2]"), _type("DECIMAL(9,2)")
    (('int32', 'INTEGER'), ('list<float>', 'FLOAT[]'), ('string', 'VARCHAR'))
    """
    if sql_type in _TYPES:
        return _TYPES[sql_type]
    element, bracket, _ = sql_type.rpartition("[")
    kind, stored = _TYPES.get(element, ("", ""))
    return (f"list<{kind}>", f"{stored}[]") if bracket and kind in _LISTED else ("string", "VARCHAR")


def _group(properties: list[_Property]) -> Yaml:
    listed: list[Yaml] = [
        {"name": each.name, "data_type": each.type, "is_primary": each.primary, "is_nullable": not each.primary}
        for each in properties
    ]
    return {"prefix": _PROPERTIES, "file_type": "parquet", "properties": listed}


def _columns(batch: pa.RecordBatch) -> dict[str, pa.Array]:
    return dict(zip(batch.schema.names, batch.columns, strict=True))

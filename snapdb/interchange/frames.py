"""Data frames of edges, and named frames of vertices and edges."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from snapdb.errors import BindError, InputError
from snapdb.interchange.tables import KEY, EdgeTable, GraphTables, VertexTable
from snapdb.sql_engine.sources import as_arrow
from snapdb.types.text import did_you_mean

Ends = tuple[str, str, str, str]
"""The column of the source, its table, the column of the destination, and its table."""


class EdgeColumns(NamedTuple):
    """The columns of an edge list that the user named."""

    source: str | None = None
    destination: str | None = None
    time: str | None = None
    weight: str | None = None


def read_edges(frame: Any, columns: EdgeColumns) -> GraphTables:
    """Return the tables of a frame of edges. The vertices are the distinct values of both columns."""
    rows = as_arrow(frame)
    if rows.num_columns < 2:
        raise InputError(f"a frame of edges needs two columns, found {rows.column_names}", code="not-a-table")
    near, far = (_column(rows, given, at) for given, at in ((columns.source, 0), (columns.destination, 1)))
    ends = [_plain(rows.column(name)) for name in (near, far)]
    if ends[0].type != ends[1].type:
        raise InputError(
            f"the columns {near} ({ends[0].type}) and {far} ({ends[1].type}) must have the same type, because they "
            "refer to the same vertices; cast one, or pass frames of vertices too",
            code="not-a-table",
        )
    keys = pc.drop_null(pa.chunked_array(ends).unique())
    vertices = VertexTable("node", pa.table({KEY: keys.take(pc.sort_indices(keys))}))
    times = [None if name is None else _column(rows, name, 0) for name in (columns.time, columns.weight)]
    return GraphTables(
        [vertices], [EdgeTable("edge", rows, ("node", "node"), near, far, time=times[0], weight=times[1])]
    )


def _plain(column: pa.ChunkedArray) -> pa.Array:
    """Return a column as one array. Arrow cannot sort views of strings."""
    whole = column.combine_chunks()
    texts = pa.types.is_string_view(whole.type) or pa.types.is_large_string(whole.type)
    return whole.cast(pa.string()) if texts else whole


def read_frames(frames: Mapping[str, Any], keys: Mapping[str, str], edges: Mapping[str, Ends]) -> GraphTables:
    """Return the tables of named frames.

    Args:
        frames: The frames by the names of their tables.
        keys: The key column of each frame of vertices. Frames that `edges` refers to have the key `id` by default.
        edges: The ends of each frame of edges.

    Raises:
        BindError: A name or a column does not exist.
    """
    tables = {name: as_arrow(frame) for name, frame in frames.items()}
    for name in (*keys, *edges, *(end for _, near, _, far in edges.values() for end in (near, far))):
        if name not in tables:
            raise BindError(
                f"there is no frame {name!r}{did_you_mean(name, tables) or f'; there are {sorted(tables)}'}",
                code="unknown-table",
            )
    vertices = []
    for name in (each for each in tables if each not in edges):
        key = _column(tables[name], keys.get(name, KEY), 0)
        vertices.append(VertexTable(name, tables[name], key))
    rows = [
        EdgeTable(name, tables[name], (near, far), _column(tables[name], a, 0), _column(tables[name], b, 0))
        for name, (a, near, b, far) in edges.items()
    ]
    return GraphTables(vertices, rows)


def _column(rows: pa.Table, name: str | None, place: int) -> str:
    """Return the name of a column as the frame has it, or the column at a place if no name is given."""
    if name is None:
        return str(rows.column_names[place])
    known: Sequence[str] = rows.column_names
    column = next((each for each in known if each.lower() == name.lower()), None)
    if column is None:
        raise BindError(
            f"column {name!r} does not exist{did_you_mean(name, known) or f'; the columns are {list(known)}'}",
            code="unknown-column",
        )
    return str(column)

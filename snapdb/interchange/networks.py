"""Graphs of networkx and igraph, and sparse matrices of scipy."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from snapdb.errors import InputError
from snapdb.interchange.tables import DESTINATION, KEY, SOURCE, EdgeTable, GraphTables, VertexTable, column_of, numbered

_NODE, _EDGE = "node", "edge"
_WEIGHT = "weight"
_ONCE = (
    "the graph is undirected: each edge is stored once; follow it in both directions, as in FANOUT (edge BOTH => [10])"
)


def read_networkx(graph: Any) -> GraphTables:
    """Return the tables of a networkx graph. Its nodes are the keys."""
    notes = [] if graph.is_directed() else [_ONCE]
    keys = _keys(list(graph.nodes), notes)
    texts = keys.type == pa.string()
    ends = [(str(u), str(v)) if texts else (u, v) for u, v in graph.edges()]
    vertices = _with(pa.table({KEY: keys}), [graph.nodes[node] for node in graph.nodes], notes)
    rows = _with(_ends(ends, keys.type), [values for *_, values in graph.edges(data=True)], notes)
    return _one(vertices, rows, notes)


def read_igraph(graph: Any) -> GraphTables:
    """Return the tables of an igraph graph. The attribute `name` is the key, or the number of the vertex."""
    notes = [] if graph.is_directed() else [_ONCE]
    named = "name" in graph.vs.attributes()
    keys = _keys(graph.vs["name"] if named else list(range(graph.vcount())), notes)
    known = keys.to_pylist()
    ends = [(known[u], known[v]) for u, v in graph.get_edgelist()]
    attributes = [{n: v for n, v in vertex.attributes().items() if n != "name"} for vertex in graph.vs]
    vertices = _with(pa.table({KEY: keys}), attributes, notes)
    return _one(vertices, _with(_ends(ends, keys.type), [edge.attributes() for edge in graph.es], notes), notes)


def read_matrix(matrix: Any) -> GraphTables:
    """Return the tables of a sparse adjacency matrix: an edge from i to j for each stored value in row i, column j."""
    entries = matrix.tocoo()
    notes: list[str] = []
    columns = {SOURCE: pa.array(entries.row.astype(np.int64)), DESTINATION: pa.array(entries.col.astype(np.int64))}
    values = entries.data
    weighted = values.size > 0 and values.dtype.kind in "iuf" and not bool((values == 1).all())
    if weighted:
        columns[_WEIGHT] = column_of(_WEIGHT, values, notes)
    rows, (near, far) = pa.table(columns), entries.shape
    if near == far:
        return _one(pa.table({KEY: numbered(near)}), rows, notes)
    vertices = [VertexTable(name, pa.table({KEY: numbered(n)})) for name, n in (("row", near), ("column", far))]
    edges = EdgeTable(_EDGE, rows, ("row", "column"), weight=_WEIGHT if weighted else None)
    return GraphTables(vertices, [edges], notes)


def _one(vertices: pa.Table, rows: pa.Table, notes: list[str]) -> GraphTables:
    """Return a graph with one type of vertices and edges."""
    weight = _WEIGHT if _WEIGHT in rows.column_names and _is_number(rows.schema.field(_WEIGHT).type) else None
    if weight is not None and rows.column(weight).null_count:
        place = rows.column_names.index(weight)
        rows = rows.set_column(place, weight, pc.fill_null(rows.column(weight), 1))
        notes.append("edges without a weight have weight 1, as in networkx")
    return GraphTables([VertexTable(_NODE, vertices)], [EdgeTable(_EDGE, rows, (_NODE, _NODE), weight=weight)], notes)


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))


def _keys(nodes: Sequence[Any], notes: list[str]) -> pa.Array:
    """Return the keys of nodes, as texts if they have several types."""
    if all(isinstance(node, int | np.integer) and not isinstance(node, bool) for node in nodes):
        return pa.array(nodes, pa.int64())
    if not all(isinstance(node, str) for node in nodes):
        notes.append("the nodes are not all integers or all texts, so their keys are their texts")
    keys = pa.array([str(node) for node in nodes], pa.string())
    if len(keys.unique()) != len(keys):
        raise InputError("two nodes have the same text, so texts cannot be their keys; rename them", code="not-a-table")
    return keys


def _ends(ends: Sequence[tuple[Any, Any]], kind: pa.DataType) -> pa.Table:
    return pa.table({SOURCE: pa.array([u for u, _ in ends], kind), DESTINATION: pa.array([v for _, v in ends], kind)})


def _with(table: pa.Table, attributes: Sequence[Mapping[str, Any]], notes: list[str]) -> pa.Table:
    """Return the table with a column per attribute, NULL where a row lacks it."""
    for name in dict.fromkeys(name for row in attributes for name in row):
        values = [row.get(name) for row in attributes]
        if str(name).lower() in {column.lower() for column in table.column_names}:
            notes.append(f"the attribute {name} is not stored: a column of keys has its name")
            continue
        try:
            table = table.append_column(str(name), pa.array(_plain(values)))
        except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError):
            notes.append(f"the attribute {name} is not stored: its values have no common SQL type")
    return table


def _plain(values: Iterable[Any]) -> list[Any]:
    return [value.tolist() if isinstance(value, np.ndarray | np.generic) else value for value in values]

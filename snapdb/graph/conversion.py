"""A snapshot as objects of networkx, scipy and igraph, in memory."""

from __future__ import annotations

from importlib import import_module
from typing import Any, NamedTuple

import numpy as np

from snapdb.arrays import Array, Int64s
from snapdb.errors import BindError, InputError
from snapdb.graph.view import GraphView
from snapdb.types import EdgeType, Relation
from snapdb.types.text import did_you_mean


class _Vertices(NamedTuple):
    """The vertices of one type that are in the snapshot."""

    ids: Int64s
    """Their dense ids."""
    keys: list[Any]
    """Their keys: Python values, tuples for composite keys."""


class _Edges(NamedTuple):
    """The edges of one type in the order of their table."""

    source: Int64s
    """[edges] dense ids."""
    destination: Int64s
    columns: dict[str, Array]
    """The times and weights, by their names in the other libraries."""


def to_networkx(view: GraphView) -> Any:
    """Return a networkx MultiDiGraph. Its nodes are the keys, or (vertex type, key) if there are several types."""
    graph = _package("networkx").MultiDiGraph()
    several = len(view.node_counts) > 1
    nodes = {}
    for kind in view.node_counts:
        ids, keys = _vertices(view, kind)
        nodes[kind] = dict(zip(ids.tolist(), [(kind, key) for key in keys] if several else keys, strict=True))
        graph.add_nodes_from(nodes[kind].values())
    for edge in view.edge_types:
        source, destination, columns = _edges(view, edge)
        rows = zip(*(column.tolist() for column in columns.values()), strict=True)
        values = [dict(zip(columns, row, strict=True)) for row in rows]
        typed = {"type": edge.edge} if len(view.edge_types) > 1 else {}
        near, far = nodes[edge.source], nodes[edge.destination]
        graph.add_edges_from(
            (near[a], far[b], typed | (values[i] if values else {}))
            for i, (a, b) in enumerate(zip(source.tolist(), destination.tolist(), strict=True))
        )
    return graph


def to_igraph(view: GraphView) -> Any:
    """Return a directed igraph Graph. The attribute `name` of vertices is the key."""
    graph, numbers = _package("igraph").Graph(directed=True), {}
    for kind, count in view.node_counts.items():
        ids, keys = _vertices(view, kind)
        numbers[kind] = np.full(count, -1)
        numbers[kind][ids] = graph.vcount() + np.arange(ids.size)
        graph.add_vertices(ids.size, {"name": keys} | _typed(kind, ids.size, len(view.node_counts)))
    for edge in view.edge_types:
        source, destination, columns = _edges(view, edge)
        ends = np.stack([numbers[edge.source][source], numbers[edge.destination][destination]], axis=1)
        values = {name: column.tolist() for name, column in columns.items()}
        graph.add_edges(ends.tolist(), _typed(edge.edge, source.size, len(view.edge_types)) | values)
    return graph


def to_scipy(view: GraphView, edge: str | None) -> Any:
    """Return the adjacency matrix of one edge type as CSR, over dense ids. Parallel edges add up.

    Raises:
        BindError: The edge type does not exist, or must be named.
    """
    edge_types = [each for each in view.edge_types if edge in (None, each.edge)]
    if len(edge_types) != 1:
        known = [each.edge for each in view.edge_types]
        hint = did_you_mean(edge, known) if edge else ""
        raise BindError(
            f"a matrix has one edge type, found {edge!r}{hint or f'; name one of {known}'}", code="unknown-element"
        )
    source, destination, columns = _edges(view, edge_types[0])
    weights = columns.get("weight", np.ones(source.size))
    shape = (view.node_counts[edge_types[0].source], view.node_counts[edge_types[0].destination])
    return _package("scipy.sparse").coo_matrix((weights, (source, destination)), shape).tocsr()


def _typed(kind: str, count: int, kinds: int) -> dict[str, list[str]]:
    """Return the column of types, if there are several."""
    return {"type": [kind] * count} if kinds > 1 else {}


def _vertices(view: GraphView, kind: str) -> _Vertices:
    alive = view.alive[kind]
    ids = np.arange(view.node_counts[kind]) if alive is None else np.flatnonzero(alive)
    keys = view.keys[kind].read(ids).to_pylist()
    return _Vertices(ids, [tuple(key.values()) if isinstance(key, dict) else key for key in keys])


def _edges(view: GraphView, edge: EdgeType) -> _Edges:
    rows = view.adjacency(Relation(edge, "IN")).flat()
    order = np.argsort(rows.edge_id, kind="stable")
    ends = np.repeat(np.arange(rows.indptr.size - 1), np.diff(rows.indptr))[order]
    columns = {"time": rows.time, "weight": rows.weight}
    return _Edges(
        rows.indices[order].astype(np.int64), ends, {name: c[order] for name, c in columns.items() if c is not None}
    )


def _package(name: str) -> Any:
    """Import another library.

    Raises:
        InputError: It is not installed.
    """
    try:
        return import_module(name)
    except ModuleNotFoundError:
        package = name.partition(".")[0]
        raise InputError(
            f"this needs {package}, which is not installed: pip install {package}", code="package-missing"
        ) from None

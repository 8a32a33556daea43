"""Graphs of PyG and DGL: nodes numbered by position, with tensors per node and edge type."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import pyarrow as pa

from snapdb.errors import BindError
from snapdb.interchange.tables import (
    DESTINATION,
    EDGE_FEATURES,
    FEATURES,
    KEY,
    SOURCE,
    TARGET,
    TIME,
    WEIGHT,
    EdgeTable,
    GraphTables,
    VertexTable,
    column_of,
    free_name,
    is_matrix,
    numbered,
)

_MEANT = {
    "feat": FEATURES,
    "label": TARGET,
    "efeat": EDGE_FEATURES,
    "w": WEIGHT,
    "weight": WEIGHT,
    "t": TIME,
    "time": TIME,
    "edge_timestamp": TIME,
}
"""Other usual names of tensors → the names that batches have for them."""
_SKIPPED = {"num_nodes", "edge_index", "batch", "ptr", "n_id", "e_id", "input_id", "batch_size", "adj_t"}
_NODE, _EDGE = "node", "edge"


class _Part(NamedTuple):
    """The tensors of one type."""

    rows: int
    tensors: Mapping[str, Any]


def read_pyg(data: Any) -> GraphTables:
    """Return the tables of PyG's Data, HeteroData or TemporalData."""
    if type(data).__name__ == "TemporalData":
        return _read_events(data)
    notes: list[str] = []
    if hasattr(data, "node_types"):
        nodes = {name: _pyg_part(data[name], data[name].num_nodes, notes) for name in data.node_types}
        stores = {key: data[key] for key in data.edge_types}
        edges = {key: (each.edge_index, _pyg_part(each, each.num_edges, notes)) for key, each in stores.items()}
        notes += [f"{name} of the whole graph is not stored" for name in data._global_store]
        return _tables(nodes, edges, notes)
    read_edges = {name for name, value in _tensors(data) if data.is_edge_attr(name)}
    both = _pyg_part(data, None, notes)
    near = {name: value for name, value in both.tensors.items() if name not in read_edges}
    far = {name: value for name, value in both.tensors.items() if name in read_edges}
    whole = {name: value for name, value in near.items() if value.shape[:1] != (data.num_nodes,)}
    notes += [f"{name} of the whole graph is not stored" for name in whole]
    near = {name: value for name, value in near.items() if name not in whole}
    key = (_NODE, _EDGE, _NODE)
    edges = {key: (data.edge_index, _Part(data.num_edges, far))} if data.edge_index is not None else {}
    return _tables({_NODE: _Part(int(data.num_nodes), near)}, edges, notes)


def read_dgl(graph: Any) -> GraphTables:
    """Return the tables of a DGLGraph."""
    nodes = {name: _Part(graph.num_nodes(name), dict(graph.nodes[name].data)) for name in graph.ntypes}
    edges = {}
    for key in graph.canonical_etypes:
        source, destination = graph.edges(etype=key)
        edges[tuple(key)] = ((source, destination), _Part(len(source), dict(graph.edges[key].data)))
    return _tables(nodes, edges, [])


def _tensors(store: Any) -> Iterator[tuple[str, Any]]:
    for name, value in store.items():
        if name not in _SKIPPED and hasattr(value, "shape"):
            yield name, value


def _pyg_part(store: Any, count: int | None, notes: list[str]) -> _Part:
    for name, value in store.items():
        if name not in _SKIPPED and not hasattr(value, "shape"):
            notes.append(f"{name}, a {type(value).__name__}, is not stored: it has no value per row")
    return _Part(int(count or 0), dict(_tensors(store)))


def _tables(
    nodes: Mapping[str, _Part], edges: Mapping[tuple[str, str, str], tuple[Any, _Part]], notes: list[str]
) -> GraphTables:
    taken: set[str] = set()
    names = {kind: free_name(kind, taken) for kind in nodes}
    vertices = [_vertices(names[kind], part, notes) for kind, part in nodes.items()]
    rows = []
    for (source, relation, destination), (ends, part) in edges.items():
        known = relation.lower() in taken
        name = free_name(f"{source}_{relation}_{destination}" if known else relation, taken)
        rows.append(_edges(name, (names[source], names[destination]), ends, part, notes))
    return GraphTables(vertices, rows, notes)


def _vertices(name: str, part: _Part, notes: list[str]) -> VertexTable:
    columns, features, target = {KEY: numbered(part.rows)}, {}, None
    for label, values in part.tensors.items():
        column, meant = column_of(f"{name}.{label}", values, notes), _MEANT.get(label, label)
        columns[_column_name(label, columns)] = column
        if meant == TARGET and not is_matrix(column):
            target = label
        elif is_matrix(column):
            features[meant if meant == FEATURES else label] = label
    return VertexTable(name, pa.table(columns), features=features, target=target)


def _edges(name: str, types: tuple[str, str], ends: Any, part: _Part, notes: list[str]) -> EdgeTable:
    source, destination = (column_of(f"{name} ends", each, notes) for each in (ends[0], ends[1]))
    columns, features = {SOURCE: source, DESTINATION: destination}, {}
    special: dict[str, str | None] = {TIME: None, WEIGHT: None}
    for label, values in part.tensors.items():
        if values.shape[:1] != (len(source),):
            notes.append(f"{name}.{label} is not stored: it has {list(values.shape)} values for {len(source)} edges")
            continue
        column, meant = column_of(f"{name}.{label}", values, notes), _MEANT.get(label, label)
        columns[_column_name(label, columns)] = column
        if meant in special and not is_matrix(column):
            special[meant] = label
        elif is_matrix(column):
            features[meant if meant == EDGE_FEATURES else label] = label
    return EdgeTable(name, pa.table(columns), types, features=features, time=special[TIME], weight=special[WEIGHT])


def _column_name(label: str, columns: Mapping[str, Any]) -> str:
    if label.lower() in {name.lower() for name in columns}:
        raise BindError(
            f"the tensor {label} has the name of the keys, or of another tensor; rename it", code="duplicate-name"
        )
    return label


def _read_events(data: Any) -> GraphTables:
    """Return the tables of a TemporalData. As in PyG, sources and destinations share one numbering."""
    notes: list[str] = []
    count = int(max(data.src.max(), data.dst.max())) + 1 if data.num_events else 0
    tensors = {name: value for name, value in _tensors(data) if name not in ("src", "dst")}
    if "msg" in tensors:
        tensors[EDGE_FEATURES] = tensors.pop("msg")
    part = _Part(data.num_events, tensors)
    edges = {(_NODE, "event", _NODE): ((data.src, data.dst), part)}
    return _tables({_NODE: _Part(count, {})}, edges, notes)

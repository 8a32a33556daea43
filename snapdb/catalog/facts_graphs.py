"""Graphs, their elements and features as rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from snapdb.catalog.state import Catalog
from snapdb.types import EdgeElement, FeatureSpec, Properties, VertexElement

_TEXT, _TEXTS, _COUNT = pa.string(), pa.list_(pa.string()), pa.int64()

GRAPHS = (("name", _TEXT), ("vertex_types", _TEXTS), ("edge_types", _TEXTS), ("retention", _TEXT))
ELEMENTS = (
    ("graph", _TEXT),
    ("element", _TEXT),
    ("kind", _TEXT),
    ("table", _TEXT),
    ("key", _TEXTS),
    ("source", _TEXT),
    ("source_key", _TEXTS),
    ("destination", _TEXT),
    ("destination_key", _TEXTS),
    ("event_time", _TEXT),
    ("event_end", _TEXT),
    ("weight", _TEXT),
    ("target", _TEXT),
    ("classes", _TEXTS),
    ("features", _TEXTS),
    ("labels", _TEXTS),
    ("properties", _TEXT),
)
FEATURES = (
    ("graph", _TEXT),
    ("element", _TEXT),
    ("kind", _TEXT),
    ("feature", _TEXT),
    ("columns", _TEXTS),
    ("type", _TEXT),
    ("sparse", pa.bool_()),
    ("width", _COUNT),
    ("default_value", pa.float64()),
    ("history", _TEXT),
    ("history_key", _TEXTS),
    ("history_time", _TEXT),
)

Rows = Iterator[Sequence[Any]]


def graph_rows(catalog: Catalog) -> Rows:
    """A row a graph."""
    for g in catalog.graphs.values():
        retention = catalog.retentions.get(g.name.lower())
        types = [v.name for v in g.vertices], [e.name for e in g.edges]
        yield g.name, *types, None if retention is None else str(retention)


def element_rows(catalog: Catalog) -> Rows:
    """A row an element of a graph: its vertex types, then its edge types."""
    for graph in catalog.graphs.values():
        for element in graph.elements:
            features, labels = [spec.name for spec in element.features], element.labels or (element.name,)
            shown = str(element.properties or Properties(excepted=()))
            yield graph.name, element.name, *_element(element), features, labels, shown


def _element(element: VertexElement | EdgeElement) -> Sequence[Any]:
    match element:
        case VertexElement():
            ends = (None, None, None, None)
            return (
                "vertex",
                element.table,
                element.key,
                *ends,
                element.event_time,
                None,
                None,
                element.target,
                element.classes,
            )
        case EdgeElement() as e:
            ends_ = (e.source, e.source_key, e.destination, e.destination_key)
            return ("edge", e.table, None, *ends_, e.event_time, e.event_end, e.weight, None, None)


def feature_rows(catalog: Catalog) -> Rows:
    """A row a feature of an element."""
    for graph in catalog.graphs.values():
        for element in graph.elements:
            kind = "vertex" if isinstance(element, VertexElement) else "edge"
            for spec in element.features:
                yield graph.name, element.name, kind, *_feature(spec)


def _feature(spec: FeatureSpec) -> Sequence[Any]:
    history = spec.history
    since = (None, None, None) if history is None else (history.table, history.key, history.event_time)
    return (spec.name, spec.columns, spec.dtype, spec.sparse, spec.width, spec.default, *since)

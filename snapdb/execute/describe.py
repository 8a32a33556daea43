"""DESCRIBE: what a table, graph, snapshot, sampler, cache or task is made of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from snapdb.catalog.listing import listing
from snapdb.catalog.windows import window_text
from snapdb.execute.describe_cache import describe_cache
from snapdb.execute.describe_sampler import describe_sampler
from snapdb.execute.describe_task import describe_task
from snapdb.execute.operator import Engine, Outcome, Rows
from snapdb.graph.open import unless_moved
from snapdb.plan.show import DescribePlan
from snapdb.relational import text_literal
from snapdb.storage.disk import read_manifest
from snapdb.types import (
    Cache,
    EdgeElement,
    FeatureSpec,
    Properties,
    PropertyGraph,
    Sampler,
    Snapshot,
    Table,
    Task,
    VertexElement,
)

_TEXT = pa.string()

_DIRECTORIES = {"vertex": (("features", "patch"),), "edge": (("topology", "patch"), ("features", "feature_patch"))}
"""Which directories a kind of element is read from: each with a patch, which follows it."""


@dataclass(frozen=True, slots=True)
class Describe:
    """Describes one thing."""

    plan: DescribePlan

    def run(self, engine: Engine) -> Rows:
        match self.plan.target:
            case Table() as table:
                yield _table(table)
            case PropertyGraph() as graph:
                yield _graph(graph)
                retention = engine.context.catalog.retentions.get(graph.name.lower())
                return None if retention is None else Outcome(f"of its snapshots it keeps {retention}")
            case Snapshot() as snapshot:
                yield _snapshot(engine, snapshot)
            case Sampler() as sampler:
                yield describe_sampler(sampler)
            case Cache() as cache:
                yield describe_cache(engine, cache)
            case Task() as task:
                yield describe_task(engine, task)
        return None


def _table(table: Table) -> pa.RecordBatch:
    fields = [("column", _TEXT), ("type", _TEXT), ("nullable", pa.bool_()), ("default", _TEXT)]
    return listing(fields, [(c.name, c.type, c.nullable, c.default) for c in table.columns])


def _graph(graph: PropertyGraph) -> pa.RecordBatch:
    names = (
        "element",
        "kind",
        "table",
        "key",
        "connects",
        "event_time",
        "weight",
        "features",
        "target",
        "labels",
        "properties",
    )
    vertices = [
        (
            v.name,
            "vertex",
            v.table,
            ", ".join(v.key),
            None,
            _event_time(v),
            None,
            _features(v.features),
            _target(v),
            *_labels(v),
        )
        for v in graph.vertices
    ]
    edges = [
        (
            e.name,
            "edge",
            e.table,
            f"{', '.join(e.source_key)} → {', '.join(e.destination_key)}",
            f"{e.source} → {e.destination}",
            _event_time(e),
            e.weight,
            _features(e.features),
            None,
            *_labels(e),
        )
        for e in graph.edges
    ]
    return listing([(name, _TEXT) for name in names], [*vertices, *edges])


def _labels(element: VertexElement | EdgeElement) -> tuple[str, str]:
    """What an element is called, and what a snapshot shows of it beside its keys and times."""
    labels = ", ".join(element.labels or (element.name,))
    return labels, str(element.properties or Properties(excepted=()))


def _target(vertex: VertexElement) -> str | None:
    """The target as its graph says it, with the classes that are declared."""
    if vertex.target is None or vertex.classes is None:
        return vertex.target
    return f"{vertex.target} CLASSES ({', '.join(map(text_literal, vertex.classes))})"


def _event_time(element: VertexElement | EdgeElement) -> str | None:
    if element.event_time is None:
        return None
    end = element.event_end if isinstance(element, EdgeElement) else None
    columns = element.event_time if end is None else f"{element.event_time} → {end}"
    return f"{columns}, nulls static" if element.nulls_static else columns


def _features(specs: tuple[FeatureSpec, ...]) -> str | None:
    return "; ".join(map(_feature, specs)) or None


def _feature(spec: FeatureSpec) -> str:
    """A feature as its graph says it: what differs from float32 numbers of the element's own table."""
    parts = [f"{spec.name} = {', '.join(spec.columns)}"]
    if spec.history is not None:
        parts.append(f"from {spec.history.table} ({', '.join(spec.history.key)}; since {spec.history.event_time})")
    if spec.sparse:
        parts.append("sparse" if spec.width is None else f"sparse [{spec.width}]")
    if spec.dtype != "float32":
        parts.append(spec.dtype)
    return " ".join(parts)


def _snapshot(engine: Engine, snapshot: Snapshot) -> pa.RecordBatch:
    """The snapshot in its first row, then its elements."""
    names = (
        "name",
        "kind",
        "count",
        "form",
        "version",
        "event_time",
        "filter",
        "bytes",
        "reason",
        "features",
        "stored",
    )
    types = (_TEXT, _TEXT, pa.int64(), _TEXT, pa.int64(), _TEXT, _TEXT, pa.int64(), _TEXT, _TEXT, _TEXT)
    with unless_moved(engine.ledger, snapshot):
        layout = read_manifest(engine.home.inside(snapshot.path))["layout"]
    head = (snapshot.name, f"snapshot of {snapshot.graph.name}", snapshot.nodes, snapshot.form, snapshot.version)
    rows: list[tuple[Any, ...]] = [(*head, window_text(snapshot), None, snapshot.bytes, None, None, None)]
    specs = {element.name: element.features for element in snapshot.graph.elements}
    for kind, elements, count in (("vertex", layout["vertices"], "nodes"), ("edge", layout["edges"], "edges")):
        for e in elements:
            how = (e.get("bytes"), e.get("reason") or None, _features(specs.get(e["name"], ())), _stored(kind, e))
            rows.append((e["name"], kind, e[count], e.get("form"), None, None, _filter(snapshot, e["name"]), *how))
    return listing(list(zip(names, types, strict=True)), rows)


def _stored(kind: str, layout: Mapping[str, Any]) -> str | None:
    """The shared directories that an element is read from."""
    parts = [" + ".join(layout[name] for name in names if layout.get(name)) for names in _DIRECTORIES[kind]]
    return "; ".join([part for part in parts if part] + list(layout.get("history") or ())) or None


def _filter(snapshot: Snapshot, element: str) -> str | None:
    return " AND ".join(f.condition for f in snapshot.filters if f.element == element) or None

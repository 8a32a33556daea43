"""DESCRIBE: what a table, graph or snapshot is made of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from snapdb.execute.listing import listing
from snapdb.execute.operator import Engine, Rows
from snapdb.execute.show import window_text
from snapdb.plan.logical import DescribePlan
from snapdb.storage.disk import read_manifest
from snapdb.types import FeatureSpec, PropertyGraph, Snapshot, Table

__all__ = ["Describe"]

_TEXT = pa.string()


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
            case Snapshot() as snapshot:
                yield _snapshot(engine, snapshot)
        return None


def _table(table: Table) -> pa.RecordBatch:
    fields = [("column", _TEXT), ("type", _TEXT), ("nullable", pa.bool_()), ("default", _TEXT)]
    return listing(fields, [(c.name, c.type, c.nullable, c.default) for c in table.columns])


def _graph(graph: PropertyGraph) -> pa.RecordBatch:
    names = ("element", "kind", "table", "key", "connects", "event_time", "weight", "features", "target")
    vertices = [
        (v.name, "vertex", v.table, ", ".join(v.key), None, None, None, _features(v.features), v.target)
        for v in graph.vertices
    ]
    edges = [
        (e.name, "edge", e.table, f"{', '.join(e.source_key)} → {', '.join(e.destination_key)}",
         f"{e.source} → {e.destination}", e.event_time, e.weight, _features(e.features), None)
        for e in graph.edges
    ]  # fmt: skip
    return listing([(name, _TEXT) for name in names], [*vertices, *edges])


def _features(specs: tuple[FeatureSpec, ...]) -> str | None:
    return "; ".join(f"{spec.name} = {', '.join(spec.columns)}" for spec in specs) or None


def _snapshot(engine: Engine, snapshot: Snapshot) -> pa.RecordBatch:
    """The snapshot in its first row, then its elements."""
    names = ("name", "kind", "count", "form", "version", "event_time", "filter")
    types = (_TEXT, _TEXT, pa.int64(), _TEXT, pa.int64(), _TEXT, _TEXT)
    layout = read_manifest(engine.home.inside(snapshot.path))["layout"]
    head = (snapshot.name, f"snapshot of {snapshot.graph.name}", snapshot.nodes, snapshot.form, snapshot.version)
    rows: list[tuple[Any, ...]] = [(*head, window_text(snapshot), None)]
    for kind, elements, count in (("vertex", layout["vertices"], "nodes"), ("edge", layout["edges"], "edges")):
        for e in elements:
            rows.append((e["name"], kind, e[count], e.get("form"), None, None, _filter(snapshot, e["name"])))
    return listing(list(zip(names, types, strict=True)), rows)


def _filter(snapshot: Snapshot, element: str) -> str | None:
    return " AND ".join(f.condition for f in snapshot.filters if f.element == element) or None

"""One of the two that are compared: a snapshot, or a whole graph at a version. What is asked of it is read on need."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from functools import cache

import numpy as np
import numpy.typing as npt

from snapdb.catalog import tables_at
from snapdb.catalog.elements import snapshot_rows
from snapdb.execute.diff_drift import Values, values_of
from snapdb.execute.diff_elements import ElementRows, Key
from snapdb.execute.diff_shifts import degree_bins
from snapdb.execute.operator import Engine
from snapdb.graph import OpenSnapshot, open_snapshot
from snapdb.graph.open import unless_moved
from snapdb.storage.disk import read_manifest
from snapdb.types import PropertyGraph, Relation, Snapshot


@dataclass(frozen=True, slots=True)
class Degrees:
    """How many edges end in each vertex of a type."""

    nodes: int
    edges: int
    bins: npt.NDArray[np.int64]
    """How many vertices each bin of `degree_bins` holds."""

    @property
    def mean(self) -> float | None:
        return self.edges / self.nodes if self.nodes else None


@dataclass(frozen=True, slots=True)
class Side:
    """The elements of one side, and how to measure them; each is found by its name, case-folded."""

    graph: PropertyGraph
    rows: Mapping[Key, ElementRows]
    count: Callable[[Key], int]
    """How many rows an element has."""
    degrees: Callable[[str], Degrees]
    """In-degrees of an edge type's destinations."""
    values: Callable[[str], Mapping[str, Values]]
    """The features of a vertex type."""
    origin: Callable[[str], object]
    """What a vertex type's features were read from: where it is equal, vertices that are equal have equal features."""


def keyed(rows: Mapping[str, ElementRows], graph: PropertyGraph) -> dict[Key, ElementRows]:
    """The rows of elements by their keys: vertex types, then edge types."""
    vertices = {Key("vertex", v.name.lower()): rows[v.name] for v in graph.vertices}
    return vertices | {Key("edge", e.name.lower()): rows[e.name] for e in graph.edges}


def snapshot_side(engine: Engine, snapshot: Snapshot, stack: ExitStack) -> Side:
    """A snapshot as a side; its files are held until the stack is left, once they were asked for."""
    graph = snapshot.graph
    engine.context.views(snapshot)  # says what is missing of its tables and their files
    tables = tables_at(engine.home, engine.ledger, snapshot.version)
    rows = keyed(snapshot_rows(snapshot, tables, engine.home.path), graph)
    with unless_moved(engine.ledger, snapshot):
        layout = read_manifest(engine.home.inside(snapshot.path))["layout"]
    counts = {Key("vertex", v["name"].lower()): int(v["nodes"]) for v in layout["vertices"]}
    counts |= {Key("edge", e["name"].lower()): int(e["edges"]) for e in layout["edges"]}

    @cache
    def opened() -> OpenSnapshot:
        engine.report(f"opening {snapshot.name}", None)
        found = open_snapshot(engine.home, engine.ledger, snapshot)
        stack.callback(found.lease.release)
        return found

    def values(name: str) -> dict[str, Values]:
        vertex = graph.vertex(name)
        assert vertex is not None
        view = opened().view
        alive, count = view.alive[vertex.name], view.node_counts[vertex.name]
        ids = np.arange(count) if alive is None else np.flatnonzero(alive)
        return {spec: values_of(feature, ids) for spec, feature in view.node_features[vertex.name].items()}

    def origin(name: str) -> object:
        found = next(v for v in layout["vertices"] if v["name"].lower() == name)
        vertex = graph.vertex(name)
        assert vertex is not None
        specs = [asdict(spec) for spec in vertex.features]
        histories = [found.get("history"), snapshot.window.stop] if any(s.history for s in vertex.features) else None
        return found["features"], found.get("patch"), histories, specs

    return Side(graph, rows, counts.__getitem__, lambda name: _degrees(opened(), graph, name), values, origin)


def _degrees(opened: OpenSnapshot, graph: PropertyGraph, name: str) -> Degrees:
    edge = graph.edge(name)
    assert edge is not None
    view = opened.view
    found = view.adjacency(Relation(edge.type, "IN")).degrees()
    alive, count = view.alive[edge.destination], view.node_counts[edge.destination]
    # Vertices that came after the topology was built, and have no edges, may have no row.
    degrees = np.pad(found[:count], (0, max(0, count - found.size)))
    nodes = degrees if alive is None else degrees[np.flatnonzero(alive)]
    return Degrees(nodes.size, int(nodes.sum()), np.bincount(degree_bins(nodes)))

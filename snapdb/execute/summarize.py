"""SUMMARIZE SNAPSHOT: a row an element, with its count, degrees, times, growth, features and bytes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from snapdb.catalog import EdgeRows, VertexRows
from snapdb.catalog.elements import snapshot_rows, time_expression
from snapdb.catalog.listing import listing
from snapdb.catalog.windows import time_text
from snapdb.execute.charts import bins_of, sparkline
from snapdb.execute.diff.sides import degree_bins
from snapdb.execute.operator import Engine, Rows
from snapdb.execute.summarize_edges import Degrees, Growth, degrees_of_live, edge_facts
from snapdb.execute.summarize_features import FeatureFacts, missing_rows
from snapdb.graph import Feature, GraphView, open_snapshot
from snapdb.graph.layout import EdgeLayout, SnapshotLayout, VertexLayout
from snapdb.graph.open import read_layout, unless_moved
from snapdb.plan.fits import time_unit
from snapdb.plan.show import SummarizePlan
from snapdb.relational import Session
from snapdb.storage.disk import read_manifest
from snapdb.types import EdgeElement, Relation, Snapshot, VertexElement

Int64s = npt.NDArray[np.int64]
ElementRows = VertexRows | EdgeRows

_TEXT, _COUNT, _NUMBER = pa.string(), pa.int64(), pa.float64()
_FIELDS = (
    ("element", _TEXT),
    ("kind", _TEXT),
    ("count", _COUNT),
    ("share", _NUMBER),
    ("chart", _TEXT),
    ("from_time", _TEXT),
    ("to_time", _TEXT),
    ("in_min", _COUNT),
    ("in_median", _NUMBER),
    ("in_mean", _NUMBER),
    ("in_max", _COUNT),
    ("out_min", _COUNT),
    ("out_median", _NUMBER),
    ("out_mean", _NUMBER),
    ("out_max", _COUNT),
    ("isolated", _COUNT),
    ("growth", pa.list_(_COUNT)),
    ("features", _TEXT),
    ("bytes", _COUNT),
)

_IDS = 1 << 22
"""Vertices that are looked at together."""


@dataclass(frozen=True, slots=True)
class Summarize:
    """Describes what a snapshot holds; it is read once or twice, some at a time."""

    plan: SummarizePlan

    def run(self, engine: Engine) -> Rows:
        snapshot = self.plan.snapshot
        with unless_moved(engine.ledger, snapshot):
            layout = read_layout(engine.home, snapshot)
        opened = open_snapshot(engine.home, engine.ledger, snapshot)
        try:
            with engine.relational.session() as session:
                rows = _Summary(engine, session, snapshot, layout, opened.view).rows()
        finally:
            opened.lease.release()
        yield listing(_FIELDS, rows)
        return None


@dataclass(frozen=True, slots=True)
class _Summary:
    """One snapshot on its way into rows."""

    engine: Engine
    session: Session
    snapshot: Snapshot
    layout: SnapshotLayout
    view: GraphView
    incoming: dict[str, Int64s] = field(default_factory=dict)
    """Vertex type → by dense id, how many edges of any type end there."""
    outgoing: dict[str, Int64s] = field(default_factory=dict)

    def rows(self) -> list[tuple[Any, ...]]:
        """Vertex types, then edge types."""
        sources = snapshot_rows(self.snapshot, self.engine.context.tables_under(self.snapshot), self.engine.home.path)
        graph = self.snapshot.graph
        # Edges first: the degrees of vertices are sums over edge types.
        edges = [self._edge(e, lies, sources[e.name]) for e, lies in zip(graph.edges, self.layout.edges, strict=True)]
        vertices = zip(graph.vertices, self.layout.vertices, strict=True)
        return [*(self._vertex(i, v, lies, sources[v.name]) for i, (v, lies) in enumerate(vertices)), *edges]

    def _edge(self, element: EdgeElement, lies: EdgeLayout, rows: ElementRows) -> tuple[Any, ...]:
        view, name = self.view, element.name
        features = self._features(element, rows, view.edge_features)
        adjacency = view.adjacency(Relation(element.type, "IN"))
        step = partial(self.engine.step, f"summarising {name}")
        facts = edge_facts(name, adjacency, view.node_counts[element.source], features, step)
        _add(self.incoming, element.destination, facts.incoming)
        _add(self.outgoing, element.source, facts.outgoing)
        ends = (element.source, element.destination)
        degrees = self._degrees(ends, facts.outgoing, facts.incoming)
        chart = self._degree_chart(element.destination, facts.incoming)
        rows_in = () if lies.form == "materialized" else (lies.topology, lies.patch)
        bytes_ = lies.bytes + self._shared(*rows_in, lies.features, lies.feature_patch)
        return (
            name,
            "edge",
            *_share(facts.count, rows),
            *_times(rows, facts.growth, chart),
            *degrees,
            _counts(facts.growth),
            str(features) or None,
            bytes_,
        )

    def _vertex(self, index: int, element: VertexElement, lies: VertexLayout, rows: ElementRows) -> tuple[Any, ...]:
        name, alive = element.name, self.view.alive[element.name]
        features = self._features(element, rows, self.view.node_features)
        for low in range(0, lies.count, _IDS):
            ids = np.arange(low, min(low + _IDS, lies.count))
            for _ in features.add(ids if alive is None else ids[alive[ids]]):
                self.engine.step(f"summarising {name}", low / lies.count)
        growth = self._births(rows)
        incoming, outgoing = self.incoming.get(name), self.outgoing.get(name)
        touching = [counts for counts in (incoming, outgoing) if counts is not None]
        chart = self._degree_chart(name, sum(touching[1:], touching[0])) if touching else None
        bytes_ = self._shared(lies.features, lies.patch, *lies.history)
        if alive is not None:
            bytes_ += (self.engine.home.inside(self.snapshot.path) / f"alive-{index}.npy").stat().st_size
        return (
            name,
            "vertex",
            *_share(lies.nodes, rows),
            *_times(rows, growth, chart),
            *self._degrees((name, name), outgoing, incoming),
            _counts(growth),
            str(features) or None,
            bytes_,
        )

    def _features(
        self, element: VertexElement | EdgeElement, rows: ElementRows, known: Mapping[str, Mapping[str, Feature]]
    ) -> FeatureFacts:
        """Of an element, with nothing but what is missing."""
        self.engine.report(f"summarising {element.name}", None)
        return FeatureFacts(known.get(element.name, {}), missing_rows(self.session, rows, element.features))

    def _degrees(
        self, ends: tuple[str, str], outgoing: Int64s | None, incoming: Int64s | None
    ) -> tuple[int | float | None, ...]:
        """In-degrees, out-degrees, and how many vertices of the two types, or of the one, no edge touches."""
        source, destination = ends
        there = [(name, counts) for name, counts in ((source, outgoing), (destination, incoming)) if counts is not None]
        if source == destination:
            isolated = self._untouched(source, *(counts for _, counts in there))
        else:
            isolated = sum(self._untouched(name, counts) for name, counts in there)
        return (*self._spread(destination, incoming), *self._spread(source, outgoing), isolated)

    def _spread(self, name: str, degrees: Int64s | None) -> Degrees:
        return Degrees() if degrees is None else degrees_of_live(degrees, self.view.alive[name])

    def _untouched(self, name: str, *counts: Int64s) -> int:
        """How many vertices of a type have none of the edges that were counted."""
        alive = self.view.alive[name]
        there = np.ones(self.view.node_counts[name], np.bool_) if alive is None else np.array(alive)
        for part in counts:
            there &= part == 0
        return int(np.count_nonzero(there))

    def _degree_chart(self, name: str, degrees: Int64s) -> str | None:
        """How many vertices have 0, 1, 2, 3-4, 5-8 … edges; None when there are no vertices."""
        alive = self.view.alive[name]
        live = degrees if alive is None else degrees[alive]
        return sparkline(np.bincount(degree_bins(live)).tolist()) or None

    def _births(self, rows: ElementRows) -> Growth | None:
        """When vertices came, as SQL sees it: no array tells."""
        if rows.time is None:
            return None
        times = f"SELECT {time_expression(rows.time)} AS t FROM ({rows.sql})"
        with self.engine.watching(self.session, f"summarising {rows.element.name}"):
            first, last = self.session.rows(f"SELECT min(t), max(t) FROM ({times})")[0]
            if first is None:
                return None
            bins = bins_of(first, last)
            place = f"(CAST(t AS HUGEINT) - ({bins.first})) // {bins.width}"
            found = self.session.rows(f"SELECT {place}, count(*) FROM ({times}) WHERE t IS NOT NULL GROUP BY 1")
        counts = [0] * bins.size
        for at, count in found:
            counts[int(at)] = count
        return Growth(first, last, counts)

    def _shared(self, *directories: str | None) -> int:
        """The bytes of published directories."""
        paths = [self.engine.home.inside(path) for path in directories if path is not None]
        return sum(int(entry["bytes"]) for path in paths for entry in read_manifest(path)["files"].values())


def _add(sums: dict[str, Int64s], name: str, counts: Int64s) -> None:
    sums[name] = sums[name] + counts if name in sums else counts


def _share(count: int, rows: ElementRows) -> tuple[int, float | None]:
    """How many there are, and which share of the table's rows that is."""
    return count, count / rows.table.rows if rows.table.rows else None


def _times(rows: ElementRows, growth: Growth | None, degrees: str | None) -> tuple[str | None, str | None, str | None]:
    """A chart, of degrees where there are no times, and the first and the last time."""
    if growth is None or rows.time is None:
        return degrees, None, None
    unit = time_unit(rows.time.type)
    return sparkline(growth.counts), time_text(growth.first, unit), time_text(growth.last, unit)


def _counts(growth: Growth | None) -> list[int] | None:
    return None if growth is None else growth.counts

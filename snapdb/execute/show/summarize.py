"""The operator of SUMMARIZE SNAPSHOT: the count, degrees, times, growth, features and size of each element."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from snapdb.arrays import Bools, Float64s, Int64s
from snapdb.catalog import EdgeRows, VertexRows
from snapdb.catalog.elements import snapshot_rows, time_expression
from snapdb.catalog.system_tables import listing, time_text
from snapdb.errors import CorruptError
from snapdb.execute.diff.sides import degree_bins
from snapdb.execute.results import Rows
from snapdb.execute.session import ExecutionContext
from snapdb.graph import Adjacency, Feature, GraphView, open_snapshot
from snapdb.graph.features import HistoryFeature, SparseReader, stored_type
from snapdb.graph.layout import EdgeLayout, SnapshotLayout, VertexLayout, raise_if_snapshot_replaced, read_layout
from snapdb.kernels.adjacency.radix import count_buckets
from snapdb.kernels.adjacency.rows import logical_parts, neighbors_of
from snapdb.plan.fits import SqlType
from snapdb.plan.show import SummarizePlan
from snapdb.sql_engine import ROW_ID, SqlSession
from snapdb.storage.array_files import STATIC
from snapdb.storage.arrays.feature_types import FeatureSource
from snapdb.storage.manifests import read_manifest
from snapdb.types import EdgeElement, FeatureSpec, Relation, Snapshot, VertexElement

_ElementRows = VertexRows | EdgeRows

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
    ("degrees", pa.list_(_COUNT)),
    ("features", _TEXT),
    ("bytes", _COUNT),
)

_IDS = 1 << 22
"""The number of vertices per block."""


def summarize(plan: SummarizePlan, context: ExecutionContext) -> Rows:
    """Run SUMMARIZE SNAPSHOT: return one row per element. The snapshot is read once or twice, in blocks."""
    snapshot = plan.snapshot
    with raise_if_snapshot_replaced(context.store.catalog_db, snapshot):
        layout = read_layout(context.store.db_dir, snapshot)
    opened = open_snapshot(context.store.catalog_db, snapshot)
    try:
        with context.store.sql_engine.session() as session:
            rows = _Summary(context, session, snapshot, layout, opened.view).rows()
    finally:
        opened.lease.release()
    yield listing(_FIELDS, rows)
    return None


@dataclass(frozen=True, slots=True)
class _Summary:
    """The summary of one snapshot."""

    context: ExecutionContext
    session: SqlSession
    snapshot: Snapshot
    layout: SnapshotLayout
    view: GraphView
    incoming: dict[str, Int64s] = field(default_factory=dict)
    """[dense ids] int64 in-degrees over all edge types, by vertex type."""
    outgoing: dict[str, Int64s] = field(default_factory=dict)
    """[dense ids] int64 out-degrees over all edge types, by vertex type."""

    def rows(self) -> list[tuple[Any, ...]]:
        """Return one row per element: vertex types first, then edge types."""
        sources = snapshot_rows(
            self.snapshot, self.context.bind_context.tables_under(self.snapshot), self.context.store.db_dir.path
        )
        graph = self.snapshot.graph
        # Edges are processed first, because vertex degrees are sums over edge types.
        edges = [self._edge(e, lies, sources[e.name]) for e, lies in zip(graph.edges, self.layout.edges, strict=True)]
        vertices = zip(graph.vertices, self.layout.vertices, strict=True)
        return [*(self._vertex(i, v, lies, sources[v.name]) for i, (v, lies) in enumerate(vertices)), *edges]

    def _edge(self, element: EdgeElement, lies: EdgeLayout, rows: _ElementRows) -> tuple[Any, ...]:
        view, name = self.view, element.name
        features = self._features(element, rows, view.edge_features)
        adjacency = view.adjacency(Relation(element.type, "IN"))
        step = partial(self.context.step, f"summarising {name}")
        facts = _edge_facts(name, adjacency, view.node_counts[element.source], features, step)
        _add(self.incoming, element.destination, facts.incoming)
        _add(self.outgoing, element.source, facts.outgoing)
        ends = (element.source, element.destination)
        degrees = self._degrees(ends, facts.outgoing, facts.incoming)
        histogram = self._histogram(element.destination, facts.incoming)
        rows_in = () if lies.form == "materialized" else (lies.topology, lies.patch)
        bytes_ = lies.bytes + self._shared(*rows_in, lies.features, lies.feature_patch)
        return (
            name,
            "edge",
            *_share(facts.count, rows),
            *_times(rows, facts.growth, histogram),
            *degrees,
            _counts(facts.growth),
            histogram,
            str(features) or None,
            bytes_,
        )

    def _vertex(self, index: int, element: VertexElement, lies: VertexLayout, rows: _ElementRows) -> tuple[Any, ...]:
        name, alive = element.name, self.view.alive[element.name]
        features = self._features(element, rows, self.view.node_features)
        for low in range(0, lies.count, _IDS):
            ids = np.arange(low, min(low + _IDS, lies.count))
            for _ in features.add(ids if alive is None else ids[alive[ids]]):
                self.context.step(f"summarising {name}", low / lies.count)
        growth = self._births(rows)
        incoming, outgoing = self.incoming.get(name), self.outgoing.get(name)
        touching = [counts for counts in (incoming, outgoing) if counts is not None]
        histogram = self._histogram(name, sum(touching[1:], touching[0])) if touching else None
        bytes_ = self._shared(lies.features, lies.patch, *lies.history)
        if alive is not None:
            bytes_ += (self.context.store.db_dir.inside(self.snapshot.path) / f"alive-{index}.npy").stat().st_size
        return (
            name,
            "vertex",
            *_share(lies.nodes, rows),
            *_times(rows, growth, histogram),
            *self._degrees((name, name), outgoing, incoming),
            _counts(growth),
            histogram,
            str(features) or None,
            bytes_,
        )

    def _features(
        self, element: VertexElement | EdgeElement, rows: _ElementRows, known: Mapping[str, Mapping[str, Feature]]
    ) -> _FeatureFacts:
        self.context.report(f"summarising {element.name}", None)
        return _FeatureFacts(known.get(element.name, {}), _missing_rows(self.session, rows, element.features))

    def _degrees(
        self, ends: tuple[str, str], outgoing: Int64s | None, incoming: Int64s | None
    ) -> tuple[int | float | None, ...]:
        """Return the in-degrees, the out-degrees, and the number of vertices without edges of this type."""
        source, destination = ends
        there = [(name, counts) for name, counts in ((source, outgoing), (destination, incoming)) if counts is not None]
        if source == destination:
            isolated = self._untouched(source, *(counts for _, counts in there))
        else:
            isolated = sum(self._untouched(name, counts) for name, counts in there)
        return (*self._spread(destination, incoming), *self._spread(source, outgoing), isolated)

    def _spread(self, name: str, degrees: Int64s | None) -> _Degrees:
        return _Degrees() if degrees is None else _degrees_of_live(degrees, self.view.alive[name])

    def _untouched(self, name: str, *counts: Int64s) -> int:
        """Return the number of vertices of a type that have none of the counted edges."""
        alive = self.view.alive[name]
        there = np.ones(self.view.node_counts[name], np.bool_) if alive is None else np.array(alive)
        for part in counts:
            there &= part == 0
        return int(np.count_nonzero(there))

    def _histogram(self, name: str, degrees: Int64s) -> list[int] | None:
        """Return the numbers of vertices with 0, 1, 2, 3-4, 5-8 … edges, or None if there are no vertices."""
        alive = self.view.alive[name]
        live = degrees if alive is None else degrees[alive]
        return np.bincount(degree_bins(live)).tolist() or None

    def _births(self, rows: _ElementRows) -> _Growth | None:
        """Return the event-time distribution of vertices, or None if they have no times. SQL reads the times."""
        if rows.time is None:
            return None
        times = f"SELECT {time_expression(rows.time)} AS t FROM ({rows.sql})"
        with self.context.watching(self.session, f"summarising {rows.element.name}"):
            first, last = self.session.rows(f"SELECT min(t), max(t) FROM ({times})")[0]
            if first is None:
                return None
            bins = _bins_of(first, last)
            place = f"(CAST(t AS HUGEINT) - ({bins.first})) // {bins.width}"
            rows_by_bin = self.session.rows(f"SELECT {place}, count(*) FROM ({times}) WHERE t IS NOT NULL GROUP BY 1")
        counts = [0] * bins.size
        for at, count in rows_by_bin:
            counts[int(at)] = count
        return _Growth(first, last, counts)

    def _shared(self, *directories: str | None) -> int:
        paths = [self.context.store.db_dir.inside(path) for path in directories if path is not None]
        return sum(int(entry["bytes"]) for path in paths for entry in read_manifest(path)["files"].values())


def _add(sums: dict[str, Int64s], name: str, counts: Int64s) -> None:
    sums[name] = sums[name] + counts if name in sums else counts


def _share(count: int, rows: _ElementRows) -> tuple[int, float | None]:
    """Return a count, and its share of the table's rows."""
    return count, count / rows.table.rows if rows.table.rows else None


def _times(
    rows: _ElementRows, growth: _Growth | None, degrees: Sequence[int] | None
) -> tuple[str | None, str | None, str | None]:
    """Return a chart of the growth, or of the degrees if there are no times, and the first and last times."""
    if growth is None or rows.time is None:
        return None if degrees is None else _sparkline(degrees), None, None
    unit = SqlType(rows.time.type).time_unit()
    return _sparkline(growth.counts), time_text(growth.first, unit), time_text(growth.last, unit)


def _counts(growth: _Growth | None) -> list[int] | None:
    return None if growth is None else growth.counts


# The edges of a type: their degrees, times and features.


class _Growth(NamedTuple):
    """The distribution of event times."""

    first: int
    """The first event time."""
    last: int
    """The last event time."""
    counts: list[int]
    """The counts per bin, from the first bin to the last. All bins have the same width."""


class _Degrees(NamedTuple):
    """The degree distribution of the vertices of a type."""

    least: int | None = None
    median: float | None = None
    mean: float | None = None
    most: int | None = None


@dataclass(slots=True)
class _EdgeFacts:
    """The statistics of the edges of a type."""

    incoming: Int64s
    """[dense ids of destinations] in-degrees, int64."""
    outgoing: Int64s
    """[dense ids of sources] out-degrees, int64."""
    count: int = 0
    growth: _Growth | None = None
    first: int | None = None
    """The first event time, or None if no edge has one."""
    last: int | None = None


def _degrees_of_live(degrees: Int64s, alive: Bools | None) -> _Degrees:
    """Return the minimum, median, mean and maximum degree of live vertices, or None for each if there are none."""
    live = degrees if alive is None else degrees[alive]
    if not live.size:
        return _Degrees()
    return _Degrees(int(live.min()), float(np.median(live)), float(live.mean()), int(live.max()))


def _edge_facts(
    what: str, rows: Adjacency, sources: int, features: _FeatureFacts, step: Callable[[float], None]
) -> _EdgeFacts:
    """Return the statistics of all edges of a type. The edges are read in blocks.

    Args:
        what: The name of the edge type, for messages.
        rows: The adjacency.
        sources: The number of dense ids of the source type.
        features: Receives the ids of the edges.
        step: Called with the completed fraction. It can raise an exception to stop.

    Raises:
        CorruptError: An edge points outside the arrays.
    """
    facts = _EdgeFacts(rows.degrees(), np.zeros(sources, np.int64))
    edges = max(int(facts.incoming.sum()), 1)
    # If there are times, the second pass in `_grow` is the other half of the work.
    share = 0.5 if rows.time is not None else 1.0
    for part in logical_parts(rows.rows):
        _count_sources(what, np.asarray(neighbors_of(rows.rows, part.positions), np.int64), facts.outgoing)
        if rows.time is not None:
            _widen(facts, rows.time.read(part.positions))
        for _ in features.add(np.asarray(rows.edge_id.read(part.positions), np.int64)):
            step(share * facts.count / edges)
        facts.count += part.positions.size
        step(share * facts.count / edges)
    _grow(facts, rows, step)
    return facts


def _count_sources(what: str, sources: Int64s, counts: Int64s) -> None:
    if sources.size and not 0 <= int(sources.min()) <= int(sources.max()) < counts.size:
        raise CorruptError(
            f"the topology of {what} is damaged: the source of an edge does not exist; CHECK DATABASE lists the file",
            code="damaged-file",
        )
    count_buckets(sources, 0, counts)


def _widen(facts: _EdgeFacts, times: Int64s) -> None:
    """Extend the time range to include these times. Static edges have no time."""
    moments = times[times != STATIC]
    if moments.size:
        low, high = int(moments.min()), int(moments.max())
        facts.first = low if facts.first is None else min(facts.first, low)
        facts.last = high if facts.last is None else max(facts.last, high)


def _grow(facts: _EdgeFacts, rows: Adjacency, step: Callable[[float], None]) -> None:
    """Count the edges per bin, in a second pass because the bins depend on the first and last times."""
    if facts.first is None or facts.last is None or rows.time is None:
        return
    bins = _bins_of(facts.first, facts.last)
    counts, done = np.zeros(bins.size, np.int64), 0
    for part in logical_parts(rows.rows):
        times = rows.time.read(part.positions)
        bins.add(times[times != STATIC], counts)
        done += part.positions.size
        step(0.5 + 0.5 * done / max(facts.count, 1))
    facts.growth = _Growth(facts.first, facts.last, counts.tolist())


# The text of a feature: its width, type, mean, standard deviation and missing values.


_NUMBERS = 1 << 21
"""The number of values per block."""
_ROWS = 1 << 17
"""The number of sparse rows per block."""


@dataclass(slots=True)
class _Spread:
    """The running mean and variance of a feature's values."""

    count: int = 0
    infinite: int = 0
    mean: float = 0.0
    squares: float = 0.0
    """The sum of squared deviations from the mean."""

    def add(self, numbers: Float64s) -> None:
        """Add a block of numbers. Infinite values are only counted, and NaN values are ignored."""
        finite = numbers[np.isfinite(numbers)]
        if finite.size < numbers.size:
            self.infinite += int(np.count_nonzero(np.isinf(numbers)))
        if finite.size:
            with np.errstate(over="ignore", invalid="ignore"):
                mean = float(finite.mean())
                self.join(finite.size, mean, float(((finite - mean) ** 2).sum()))

    def join(self, count: int, mean: float, squares: float) -> None:
        """Merge moments with the parallel formula of Chan et al., which is more precise than sums of squares."""
        shift, total = mean - self.mean, self.count + count
        self.squares += squares + shift * shift * (self.count * count / total)
        self.mean += shift * (count / total)
        self.count = total

    def __str__(self) -> str:
        parts = []
        if self.count:
            parts += [f"mean {self.mean:.4g}", f"std {np.sqrt(self.squares / self.count):.4g}"]
        parts += [f"{self.infinite:,} infinite"] if self.infinite else []
        return ", ".join(parts)


class _FeatureFacts:
    """Statistics of the features of an element, collected while its rows are read."""

    def __init__(self, features: Mapping[str, Feature], missing: Mapping[str, int]) -> None:
        """Create empty statistics. For features with a DEFAULT, `missing` is the number of rows that have it."""
        self._features = features
        self._missing = dict(missing)
        self._spreads = {name: _Spread() for name in features}

    def add(self, ids: Int64s) -> Iterator[None]:
        """Add the rows with these ids. Yields after each block, so that the caller can report progress."""
        for name, feature in self._features.items():
            step = _ROWS if isinstance(feature, SparseReader) else max(1, _NUMBERS // max(_width(feature), 1))
            for start in range(0, ids.size, step):
                self._add(name, feature, ids[start : start + step])
                yield

    def _add(self, name: str, feature: Feature, ids: Int64s) -> None:
        spread = self._spreads[name]
        if isinstance(feature, SparseReader):
            values = np.asarray(feature.read_sparse(ids).values, np.float64)
            spread.add(values)
            if zeros := ids.size * _width(feature) - values.size:
                spread.join(zeros, 0.0, 0.0)
            return
        if isinstance(feature, HistoryFeature):
            without = feature.find(ids, strict=False) < 0
            self._missing[name] = self._missing.get(name, 0) + int(np.count_nonzero(without))
            ids = ids[~without] if feature.default is None else ids
        spread.add(np.asarray(feature.read(ids), np.float64).ravel())

    def __str__(self) -> str:
        return "; ".join(self._value_text(name, feature) for name, feature in self._features.items())

    def _value_text(self, name: str, feature: Feature) -> str:
        sparse = "sparse " if isinstance(feature, SparseReader) else ""
        stored = "" if (encoding := stored_type(feature)) is None else f" stored {encoding}"
        known = [str(self._spreads[name]), f"{self._missing.get(name, 0):,} missing"]
        return (
            f"{name} {sparse}[{_width(feature)}] {feature.dtype}{stored}: {', '.join(part for part in known if part)}"
        )


def _missing_rows(session: SqlSession, rows: VertexRows | EdgeRows, specs: Iterable[FeatureSpec]) -> dict[str, int]:
    """Map each feature with a DEFAULT to the number of rows in which the DEFAULT replaces NULL or NaN."""
    source = FeatureSource(rows.element.name, "", rows.table.columns, 0, (ROW_ID,))
    conditions = {
        spec.name: " OR ".join(f"({part.missing})" for part in source.parts(spec))
        for spec in specs
        if spec.default is not None and spec.history is None and not spec.sparse
    }
    if not conditions:
        return {}
    counts = ", ".join(f"count_if({condition})" for condition in conditions.values())
    counts_row = session.rows(f"SELECT {counts} FROM ({rows.sql})")[0]
    # The sums are NULL if there are no rows.
    return {name: int(count or 0) for name, count in zip(conditions, counts_row, strict=True)}


def _width(feature: Feature) -> int:
    return int(np.prod(feature.shape[1:], dtype=np.int64))


# Charts, which show counts as a row of bars, and bins of equal width for event times.


_BARS = "▁▂▃▄▅▆▇█"
_MOST = 20
"""The maximum number of bins."""


class _Bins(NamedTuple):
    """Bins of equal width that cover all times from the first to the last. The last bin may extend further."""

    first: int
    width: int
    size: int
    """The number of bins."""

    def add(self, times: Int64s, counts: Int64s) -> None:
        """Add times to the counts per bin. All times must be within the bins."""
        # Unsigned arithmetic wraps around, so the difference is correct even if it exceeds int64.
        first = np.uint64(self.first % 2**64)
        places = (times.view(np.uint64) - first) // np.uint64(self.width)
        counts += np.bincount(places.astype(np.int64), minlength=self.size)


def _bins_of(first: int, last: int, most: int = _MOST) -> _Bins:
    """Return the bins that cover the range from the first to the last time.

    >>> _bins_of(5, 7), _bins_of(0, 99), _bins_of(-(2**63), 2**63 - 1).size
    (_Bins(first=5, width=1, size=3), _Bins(first=0, width=5, size=20), 20)
    """
    span = last - first + 1
    width = -(-span // most)
    return _Bins(first, width, -(-span // width))


def _sparkline(counts: Sequence[int]) -> str:
    """Return a sparkline with one bar per count. Zero is drawn as the lowest bar.

    >>> _sparkline([0, 1, 4, 8])
    '▁▂▅█'
    """
    most = max(counts, default=0)
    top = len(_BARS) - 1
    return "".join(_BARS[-(-count * top // most) if count else 0] for count in counts)

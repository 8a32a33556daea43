"""The two sides of a difference: snapshots, or graphs at a version, and the drift between their distributions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from functools import cache
from typing import NamedTuple

import numpy as np

from snapdb.arrays import Array, Float64s, Int64s
from snapdb.catalog import tables_at
from snapdb.catalog.elements import snapshot_rows
from snapdb.execute.diff.rows import ElementRows, Key
from snapdb.execute.session import ExecutionContext
from snapdb.graph import Feature, OpenSnapshot, open_snapshot
from snapdb.graph.features import SparseReader
from snapdb.graph.layout import raise_if_snapshot_replaced
from snapdb.kernels.features import Csr
from snapdb.storage.manifests import read_manifest
from snapdb.types import PropertyGraph, Relation, Snapshot


class Degrees(NamedTuple):
    """The in-degrees of the vertices of one type."""

    nodes: int
    """The number of vertices."""
    edges: int
    """The number of edges."""
    bins: Int64s
    """The number of vertices in each bin of `degree_bins`, int64."""

    @property
    def mean(self) -> float | None:
        return self.edges / self.nodes if self.nodes else None


class Side(NamedTuple):
    """The elements of one side, and functions that measure them. Elements are identified by case-folded name."""

    graph: PropertyGraph
    """The property graph."""
    rows: Mapping[Key, ElementRows]
    """The rows of each element."""
    count: Callable[[Key], int]
    """Returns the number of rows of an element."""
    degrees: Callable[[str], Degrees]
    """Returns the in-degrees of an edge type's destinations."""
    values: Callable[[str], Mapping[str, Values]]
    """Returns the features of a vertex type."""
    origin: Callable[[str], object]
    """Returns the source of a vertex type's features. Equal vertices with equal sources have equal features."""


def keyed(rows: Mapping[str, ElementRows], graph: PropertyGraph) -> dict[Key, ElementRows]:
    """Return the rows of elements by key: vertex types first, then edge types."""
    vertices = {Key("vertex", v.name.lower()): rows[v.name] for v in graph.vertices}
    return vertices | {Key("edge", e.name.lower()): rows[e.name] for e in graph.edges}


def snapshot_side(context: ExecutionContext, snapshot: Snapshot, stack: ExitStack) -> Side:
    """Return a snapshot as one side. Its files are locked from the first read until the stack is closed."""
    graph = snapshot.graph
    context.bind_context.views(snapshot)  # reports missing tables and files
    tables = tables_at(context.store.catalog_db, snapshot.version)
    rows = keyed(snapshot_rows(snapshot, tables, context.store.db_dir.path), graph)
    with raise_if_snapshot_replaced(context.store.catalog_db, snapshot):
        layout = read_manifest(context.store.db_dir.inside(snapshot.path))["layout"]
    counts = {Key("vertex", v["name"].lower()): int(v["nodes"]) for v in layout["vertices"]}
    counts |= {Key("edge", e["name"].lower()): int(e["edges"]) for e in layout["edges"]}

    @cache
    def opened() -> OpenSnapshot:
        context.report(f"opening {snapshot.name}", None)
        snapshot_view = open_snapshot(context.store.catalog_db, snapshot)
        stack.callback(snapshot_view.lease.release)
        return snapshot_view

    def values(name: str) -> dict[str, Values]:
        vertex = graph.vertex(name)
        assert vertex is not None
        view = opened().view
        alive, count = view.alive[vertex.name], view.node_counts[vertex.name]
        ids = np.arange(count) if alive is None else np.flatnonzero(alive)
        return {spec: values_of(feature, ids) for spec, feature in view.node_features[vertex.name].items()}

    def origin(name: str) -> object:
        entry = next(v for v in layout["vertices"] if v["name"].lower() == name)
        vertex = graph.vertex(name)
        assert vertex is not None
        specs = [asdict(spec) for spec in vertex.features]
        histories = [entry.get("history"), snapshot.window.stop] if any(s.history for s in vertex.features) else None
        return entry["features"], entry.get("patch"), histories, specs

    return Side(graph, rows, counts.__getitem__, lambda name: _degrees(opened(), graph, name), values, origin)


def _degrees(opened: OpenSnapshot, graph: PropertyGraph, name: str) -> Degrees:
    edge = graph.edge(name)
    assert edge is not None
    view = opened.view
    in_degrees = view.adjacency(Relation(edge.type, "IN")).degrees()
    alive, count = view.alive[edge.destination], view.node_counts[edge.destination]
    # Vertices without edges that were added after the topology was built may have no row.
    degrees = np.pad(in_degrees[:count], (0, max(0, count - in_degrees.size)))
    nodes = degrees if alive is None else degrees[np.flatnonzero(alive)]
    return Degrees(nodes.size, int(nodes.sum()), np.bincount(degree_bins(nodes)))


# Drift of features: mean, standard deviation and stability index of each component.


_NUMBERS = 1 << 21
"""The number of values read at once."""
_SAMPLE = 1 << 17
"""The maximum number of rows from which quantiles are computed. If there are more, evenly spaced rows are used."""


@dataclass(frozen=True, slots=True)
class Values:
    """One feature of the vertices of one type on one side."""

    count: int
    """The number of rows."""
    width: int
    """The number of components of a row."""
    blocks: Callable[[], Iterator[Float64s]]
    """Yields every row once, in float64 blocks [rows, width]. Each call starts from the first row."""
    pairs: Callable[[], Iterator[Csr]] | None = None
    """Yields the same rows as CSR blocks, or None for dense features. Most values of sparse features are 0, so their
    quantiles are not informative."""


class Drift(NamedTuple):
    """The drift of one component of a feature. A statistic is None if there are no values."""

    feature: str
    """The name of the feature."""
    component: int
    """The index of the component."""
    mean_before: float | None
    mean_after: float | None
    std_before: float | None
    std_after: float | None
    psi: float | None


@dataclass(slots=True)
class _Measure:
    """The running mean and variance of a feature's values, computed with Welford's algorithm over blocks."""

    width: int
    count: int = 0
    mean: Float64s = field(default_factory=lambda: np.empty(0))
    squares: Float64s = field(default_factory=lambda: np.empty(0))
    """[width] sums of squared deviations from the mean."""

    def __post_init__(self) -> None:
        self.mean, self.squares = np.zeros(self.width), np.zeros(self.width)

    def add(self, block: Float64s) -> None:
        """Add a block of rows."""
        if len(block):
            mean = block.mean(axis=0)
            self._join(len(block), mean, ((block - mean) ** 2).sum(axis=0))

    def add_sparse(self, rows: Csr) -> None:
        """Add a block of sparse rows, including their zeros."""
        count, values = rows.indptr.size - 1, np.asarray(rows.values, np.float64)
        if count:
            mean = np.bincount(rows.indices, values, self.width) / count
            full = np.bincount(rows.indices, minlength=self.width)
            apart = np.bincount(rows.indices, (values - mean[rows.indices]) ** 2, self.width)
            self._join(count, mean, apart + (count - full) * mean**2)

    def _join(self, count: int, mean: Float64s, squares: Float64s) -> None:
        """Merge moments with the parallel formula of Chan et al., which is more precise than sums of squares."""
        shift, total = mean - self.mean, self.count + count
        self.squares += squares + shift**2 * (self.count * count / total)
        self.mean += shift * (count / total)
        self.count = total

    def of(self, component: int) -> tuple[float | None, float | None]:
        """Return the mean and the standard deviation of a component."""
        if not self.count or component >= self.width:
            return None, None
        return float(self.mean[component]), float(np.sqrt(self.squares[component] / self.count))


def values_of(feature: Feature, ids: Int64s) -> Values:
    """Return a feature's rows with the given ids, which are read in blocks."""
    width = int(np.prod(feature.shape[1:], dtype=np.int64))
    step = max(1, _NUMBERS // max(width, 1))
    sparse = feature.read_sparse if isinstance(feature, SparseReader) else None

    def blocks() -> Iterator[Float64s]:
        for start in range(0, ids.size, step):
            part = ids[start : start + step]
            yield np.asarray(feature.read(part), np.float64).reshape(part.size, width)

    def pairs() -> Iterator[Csr]:
        assert sparse is not None
        for start in range(0, ids.size, _SAMPLE):
            yield sparse(ids[start : start + _SAMPLE])

    return Values(ids.size, width, blocks, None if sparse is None else pairs)


def drifts(feature: str, before: Values | None, after: Values | None, *, same: bool = False) -> list[Drift]:
    """Return the drift of each component of a feature.

    Args:
        feature: The name of the feature.
        before: Its values on the earlier side, or None if it does not exist there.
        after: Its values on the later side, or None if it does not exist there.
        same: Whether both sides are known to have the same values, which are then read only once.
    """
    first = _Measure(before.width if before else 0)
    # As usual for PSI, the earlier side's quantiles define the bins of both sides.
    sample = _read(before, first, sampled=True)
    second = first if same else _Measure(after.width if after else 0)
    if not same:
        _read(after, second)
    both = min(first.width, second.width)
    shifts = _shifts(before, after, sample, both, same=same)
    return [
        Drift(feature, i, *_paired(first.of(i), second.of(i)), shifts[i] if i < both else None)
        for i in range(max(first.width, second.width))
    ]


def _paired(
    before: tuple[float | None, float | None], after: tuple[float | None, float | None]
) -> tuple[float | None, float | None, float | None, float | None]:
    return before[0], after[0], before[1], after[1]


def _read(values: Values | None, measure: _Measure, *, sampled: bool = False) -> Float64s:
    """Measure all rows and, with `sampled`, return evenly spaced ones."""
    chosen: list[Float64s] = []
    if values is None:
        return np.empty((0, 0))
    if values.pairs is not None:
        for rows in values.pairs():
            measure.add_sparse(rows)
        return np.empty((0, values.width))
    step, at = -(-values.count // _SAMPLE) or 1, 0
    for block in values.blocks():
        measure.add(block)
        if sampled:
            chosen.append(block[-at % step :: step].copy())
        at += len(block)
    return np.concatenate(chosen) if chosen else np.empty((0, values.width))


def _shifts(
    before: Values | None, after: Values | None, sample: Float64s, width: int, *, same: bool
) -> Sequence[float | None]:
    """Return the stability index of each component."""
    if before is None or after is None or not before.count or not after.count or before.pairs or after.pairs:
        return [None] * width
    if same:
        return [0.0] * width
    edges = [_quantile_bins(sample[:, i]) for i in range(width)]
    return [stability(p, q) for p, q in zip(_histograms(before, edges), _histograms(after, edges), strict=True)]


def _histograms(values: Values, edges: Sequence[Float64s]) -> list[Int64s]:
    """Return the number of rows in each bin of each component."""
    counts = [np.zeros(cuts.size + 1, np.int64) for cuts in edges]
    for block in values.blocks():
        for i, cuts in enumerate(edges):
            counts[i] += np.bincount(np.searchsorted(cuts, block[:, i], side="right"), minlength=cuts.size + 1)
    return counts


# Histograms, and the population stability index of two histograms.


_LEAST = 1e-4
"""The minimum share of a bin. An empty bin would make the index infinite."""


def stability(before: Int64s, after: Int64s) -> float | None:
    """Return the population stability index (PSI) of two histograms over the same bins, or None if either is empty.

    PSI is the sum of (q - p) ln(q / p) over the shares p and q of each bin, which are at least 0.0001. It is 0 for
    equal shares. By convention, more than 0.2 is a significant shift.

    >>> stability(np.array([50, 50]), np.array([500, 500]))
    0.0
    >>> round(stability(np.array([50, 50]), np.array([75, 25])), 6)
    0.274653
    """
    if not before.sum() or not after.sum():
        return None
    size = max(before.size, after.size)
    p, q = (np.pad(n, (0, size - n.size)) / n.sum() for n in (before, after))
    p, q = np.maximum(p, _LEAST), np.maximum(q, _LEAST)
    return float(((q - p) * np.log(q / p)).sum())


def degree_bins(degrees: Array) -> Int64s:
    """Return the bin of each degree: 0, 1, 2, 3-4, 5-8, 9-16, and so on.

    >>> degree_bins(np.array([0, 1, 2, 3, 4, 5, 8, 9])).tolist()
    [0, 1, 2, 3, 3, 4, 4, 5]
    """
    exponents = np.frexp(np.maximum(degrees, 1).astype(np.float64) - 1)[1].astype(np.int64)
    bins: Int64s = np.where(np.asarray(degrees) == 0, 0, exponents + 1)
    return bins


def _quantile_bins(sample: Float64s) -> Float64s:
    """Return the edges of ten bins with the same number of values. A value that would fill a bin has a bin to itself.

    >>> _quantile_bins(np.arange(11.0)).tolist()
    [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0]
    >>> np.searchsorted(_quantile_bins(np.zeros(5)), [-1.0, 0.0, 1.0], side="right").tolist()
    [0, 1, 2]
    """
    if not sample.size:
        return np.empty(0)
    # Edges are observed values rather than interpolated ones, so equal distributions of few values have equal bins.
    cuts = np.quantile(sample, np.linspace(0.1, 0.9, 9), method="inverted_cdf")
    edges, times = np.unique(cuts, return_counts=True)
    return np.unique(np.concatenate([edges, np.nextafter(edges[times > 1], np.inf)]))

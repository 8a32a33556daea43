"""How the values of features moved: mean, standard deviation and stability index of each component."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from snapdb.execute.diff_shifts import quantile_bins, stability
from snapdb.graph import Feature
from snapdb.graph.features import SparseReader
from snapdb.kernels.overlay import Csr

Floats = npt.NDArray[np.float64]

_NUMBERS = 1 << 21
"""Numbers that are read at once."""
_SAMPLE = 1 << 17
"""Rows that quantiles are taken from, evenly chosen where there are more."""


@dataclass(frozen=True, slots=True)
class Values:
    """One feature of those vertices of a type that are there."""

    count: int
    """Rows."""
    width: int
    blocks: Callable[[], Iterator[Floats]]
    """Every row once, as [some rows, width]; the same at every call."""
    pairs: Callable[[], Iterator[Csr]] | None = None
    """The same of sparse rows, whose quantiles tell nothing: most are 0."""


@dataclass(frozen=True, slots=True)
class Drift:
    """How one component of a feature moved; None where there is nothing to measure."""

    feature: str
    component: int
    mean_before: float | None
    mean_after: float | None
    std_before: float | None
    std_after: float | None
    psi: float | None


@dataclass(slots=True)
class _Measure:
    """What was seen of a feature's values so far."""

    width: int
    count: int = 0
    mean: Floats = field(default_factory=lambda: np.empty(0))
    squares: Floats = field(default_factory=lambda: np.empty(0))
    """Sums of squared distances to the mean."""

    def __post_init__(self) -> None:
        self.mean, self.squares = np.zeros(self.width), np.zeros(self.width)

    def add(self, block: Floats) -> None:
        """Take in some rows."""
        if len(block):
            mean = block.mean(axis=0)
            self._join(len(block), mean, ((block - mean) ** 2).sum(axis=0))

    def add_sparse(self, rows: Csr) -> None:
        """Take in some sparse rows, with all their zeros."""
        count, values = rows.indptr.size - 1, np.asarray(rows.values, np.float64)
        if count:
            mean = np.bincount(rows.indices, values, self.width) / count
            full = np.bincount(rows.indices, minlength=self.width)
            apart = np.bincount(rows.indices, (values - mean[rows.indices]) ** 2, self.width)
            self._join(count, mean, apart + (count - full) * mean**2)

    def _join(self, count: int, mean: Floats, squares: Floats) -> None:
        """Parts are joined by their means, which loses no digits as sums of squares would."""
        shift, total = mean - self.mean, self.count + count
        self.squares += squares + shift**2 * (self.count * count / total)
        self.mean += shift * (count / total)
        self.count = total

    def of(self, component: int) -> tuple[float | None, float | None]:
        """Mean and standard deviation of a component."""
        if not self.count or component >= self.width:
            return None, None
        return float(self.mean[component]), float(np.sqrt(self.squares[component] / self.count))


def values_of(feature: Feature, ids: npt.NDArray[np.int64]) -> Values:
    """The rows of these ids, read in blocks."""
    width = int(np.prod(feature.shape[1:], dtype=np.int64))
    step = max(1, _NUMBERS // max(width, 1))
    sparse = feature.read_sparse if isinstance(feature, SparseReader) else None

    def blocks() -> Iterator[Floats]:
        for start in range(0, ids.size, step):
            part = ids[start : start + step]
            yield np.asarray(feature.read(part), np.float64).reshape(part.size, width)

    def pairs() -> Iterator[Csr]:
        assert sparse is not None
        for start in range(0, ids.size, _SAMPLE):
            yield sparse(ids[start : start + _SAMPLE])

    return Values(ids.size, width, blocks, None if sparse is None else pairs)


def drifts(feature: str, before: Values | None, after: Values | None, *, same: bool = False) -> list[Drift]:
    """How each component of a feature moved.

    Args:
        same: The values are known to be the same, so that they are read once.
    """
    first = _Measure(before.width if before else 0)
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


def _read(values: Values | None, measure: _Measure, *, sampled: bool = False) -> Floats:
    """Measure all rows; evenly chosen ones of them where `sampled`."""
    chosen: list[Floats] = []
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
    before: Values | None, after: Values | None, sample: Floats, width: int, *, same: bool
) -> Sequence[float | None]:
    """The stability index of each component."""
    if before is None or after is None or not before.count or not after.count or before.pairs or after.pairs:
        return [None] * width
    if same:
        return [0.0] * width
    edges = [quantile_bins(sample[:, i]) for i in range(width)]
    return [stability(p, q) for p, q in zip(_histograms(before, edges), _histograms(after, edges), strict=True)]


def _histograms(values: Values, edges: Sequence[Floats]) -> list[npt.NDArray[np.int64]]:
    """How many rows each bin of each component holds."""
    counts = [np.zeros(cuts.size + 1, np.int64) for cuts in edges]
    for block in values.blocks():
        for i, cuts in enumerate(edges):
            counts[i] += np.bincount(np.searchsorted(cuts, block[:, i], side="right"), minlength=cuts.size + 1)
    return counts

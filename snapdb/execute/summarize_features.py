"""What a feature's values are, in a line: how many numbers of which type, their mean and spread, what is not there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from snapdb.catalog import EdgeRows, VertexRows
from snapdb.graph import Feature
from snapdb.graph.features import HistoryFeature, SparseReader
from snapdb.kernels.history import last_before
from snapdb.relational import ROW_ID, Session
from snapdb.storage.feature_types import FeatureSource, parts_of
from snapdb.storage.histories import FOREVER
from snapdb.types import FeatureSpec

Int64s = npt.NDArray[np.int64]

_NUMBERS = 1 << 21
"""Numbers that are read at once."""
_ROWS = 1 << 17
"""Sparse rows that are read at once."""


@dataclass(slots=True)
class _Spread:
    """Mean and spread of the numbers that were seen so far."""

    count: int = 0
    infinite: int = 0
    mean: float = 0.0
    squares: float = 0.0
    """Sum of squared distances to the mean."""

    def add(self, numbers: npt.NDArray[np.float64]) -> None:
        """Take in some numbers; only finite ones have a mean."""
        finite = numbers[np.isfinite(numbers)]
        if finite.size < numbers.size:
            self.infinite += int(np.count_nonzero(np.isinf(numbers)))
        if finite.size:
            with np.errstate(over="ignore", invalid="ignore"):
                mean = float(finite.mean())
                self.join(finite.size, mean, float(((finite - mean) ** 2).sum()))

    def join(self, count: int, mean: float, squares: float) -> None:
        """Parts are joined by their means, which loses no digits as sums of squares would."""
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


class FeatureFacts:
    """Gathers what is to be said of an element's features while their rows come by."""

    def __init__(self, features: Mapping[str, Feature], missing: Mapping[str, int]) -> None:
        """`missing` counts, for features that are said to have a DEFAULT, the rows that it stands in."""
        self._features = features
        self._missing = dict(missing)
        self._spreads = {name: _Spread() for name in features}

    def add(self, ids: Int64s) -> Iterator[None]:
        """Take in the rows of these ids, a part at each step."""
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
            without = _without(feature, ids)
            self._missing[name] = self._missing.get(name, 0) + int(np.count_nonzero(without))
            ids = ids[~without] if feature.default is None else ids
        spread.add(np.asarray(feature.read(ids), np.float64).ravel())

    def __str__(self) -> str:
        return "; ".join(self._said(name, feature) for name, feature in self._features.items())

    def _said(self, name: str, feature: Feature) -> str:
        sparse = "sparse " if isinstance(feature, SparseReader) else ""
        known = [str(self._spreads[name]), f"{self._missing.get(name, 0):,} missing"]
        return f"{name} {sparse}[{_width(feature)}] {feature.dtype}: {', '.join(part for part in known if part)}"


def missing_rows(session: Session, rows: VertexRows | EdgeRows, specs: Iterable[FeatureSpec]) -> dict[str, int]:
    """By feature with a DEFAULT, in how many of the rows it stands for NULL or NaN; without one there are none."""
    source = FeatureSource(rows.element.name, "", rows.table.columns, 0, (ROW_ID,))
    asked = {
        spec.name: " OR ".join(f"({part.missing})" for part in parts_of(source, spec))
        for spec in specs
        if spec.default is not None and spec.history is None and not spec.sparse
    }
    if not asked:
        return {}
    counts = ", ".join(f"count_if({condition})" for condition in asked.values())
    found = session.rows(f"SELECT {counts} FROM ({rows.sql})")[0]
    return {name: int(count or 0) for name, count in zip(asked, found, strict=True)}  # NULL where there are no rows


def _without(feature: HistoryFeature, ids: Int64s) -> npt.NDArray[np.bool_]:
    """Which ids have no value yet at the window's end."""
    end = FOREVER if feature.stop is None else feature.stop
    without: npt.NDArray[np.bool_] = (
        last_before(feature.arrays.indptr, feature.arrays.time, ids, np.full(ids.size, end)) < 0
    )
    return without


def _width(feature: Feature) -> int:
    return int(np.prod(feature.shape[1:], dtype=np.int64))

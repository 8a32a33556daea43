"""How far a distribution moved: bins, and the population stability index of two histograms over them."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

_LEAST = 1e-4
"""The share that an empty bin is taken to have: without one the index would be infinite."""


def stability(before: npt.NDArray[np.int64], after: npt.NDArray[np.int64]) -> float | None:
    """The population stability index of two histograms over the same bins; None when either is empty.

    It is the sum of (q - p) ln(q / p) over the shares p and q of each bin, none taken as less than 0.0001: 0 for equal
    shares, and customarily more than 0.2 for a shift that matters.

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


def degree_bins(degrees: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """The bin of each degree: 0, 1, 2, 3-4, 5-8, 9-16, and so on.

    >>> degree_bins(np.array([0, 1, 2, 3, 4, 5, 8, 9])).tolist()
    [0, 1, 2, 3, 3, 4, 4, 5]
    """
    exponents = np.frexp(np.maximum(degrees, 1).astype(np.float64) - 1)[1].astype(np.int64)
    bins: npt.NDArray[np.int64] = np.where(np.asarray(degrees) == 0, 0, exponents + 1)
    return bins


def quantile_bins(sample: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """The edges between ten bins that hold equally many of these values; a value that fills one has it to itself.

    >>> quantile_bins(np.arange(11.0)).tolist()
    [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0]
    >>> np.searchsorted(quantile_bins(np.zeros(5)), [-1.0, 0.0, 1.0], side="right").tolist()
    [0, 1, 2]
    """
    if not sample.size:
        return np.empty(0)
    # Values that were there, none between them: so that equal distributions of few values have equal bins.
    cuts = np.quantile(sample, np.linspace(0.1, 0.9, 9), method="inverted_cdf")
    edges, times = np.unique(cuts, return_counts=True)
    return np.unique(np.concatenate([edges, np.nextafter(edges[times > 1], np.inf)]))

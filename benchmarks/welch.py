"""Welch's test: the probability of a difference of means at least this large if the true means are equal."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean, variance

import numpy as np

_STEPS = 200_001


def welch(one: Sequence[float], other: Sequence[float]) -> float:
    """Return the two-sided p-value of Welch's t-test, or nan if a sample has fewer than two values.

    >>> round(welch([27.5, 21.0, 19.0, 23.6, 17.0], [27.1, 22.0, 20.8, 23.4, 23.4]), 3)
    0.445
    >>> welch([1.0, 1.0], [1.0, 1.0])
    1.0
    """
    if min(len(one), len(other)) < 2:
        return math.nan
    a, b = variance(one) / len(one), variance(other) / len(other)
    apart = abs(fmean(one) - fmean(other))
    if a + b == 0.0:
        return 1.0 if apart == 0.0 else 0.0
    freedom = (a + b) ** 2 / (a**2 / (len(one) - 1) + b**2 / (len(other) - 1))
    return 1.0 - 2.0 * _between(apart / math.sqrt(a + b), freedom)


def _between(t: float, freedom: float) -> float:
    """Return Student's probability between 0 and t, computed with the trapezoidal rule."""
    x = np.linspace(0.0, t, _STEPS)
    scale = math.lgamma((freedom + 1) / 2) - math.lgamma(freedom / 2) - 0.5 * math.log(freedom * math.pi)
    density = np.exp(scale - (freedom + 1) / 2 * np.log1p(x**2 / freedom))
    return float(np.trapezoid(density, x))

"""Statistical tests of draws: p-values, exact where possible, and the probability of drawing each set."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import combinations, permutations
from typing import Any

import numpy as np
import numpy.typing as npt

STRICT = 1e-4
"""The probability that a correct sampler fails a test for a random seed. The tests use fixed seeds."""

Ints = npt.NDArray[np.int64]
Chances = Mapping[tuple[int, ...], float]


def normal(z: float) -> float:
    """Return the probability that a standard normal variate is further from 0 than `z`.

    >>> round(normal(1.96), 3)
    0.05
    """
    return math.erfc(abs(z) / math.sqrt(2))


def chi_square(statistic: float, freedom: int) -> float:
    """Return the probability that a chi-square variate is at least this large.

    This is the regularized incomplete gamma function, computed as a series or a continued fraction.

    >>> [round(chi_square(*each), 4) for each in [(3.841, 1), (9.488, 4), (124.342, 100), (0.0, 3)]]
    [0.05, 0.05, 0.05, 1.0]
    """
    a, x = freedom / 2, statistic / 2
    if x == 0:
        return 1.0
    front = math.exp(a * math.log(x) - x - math.lgamma(a))
    if x < a + 1:
        term = total = 1 / a
        for n in range(1, 10_000):
            term *= x / (a + n)
            total += term
        return 1 - front * total
    b = x + 1 - a
    c, d = math.inf, 1 / b
    fraction = d
    for n in range(1, 10_000):
        step = -n * (n - a)
        b += 2
        d, c = 1 / (step * d + b), b + step / c
        fraction *= d * c
    return front * fraction


def proportional(counts: npt.NDArray[Any], chances: npt.NDArray[np.float64]) -> float:
    """Return the p-value of "each cell has its probability", or 0 if a cell with probability 0 was drawn."""
    if counts[chances == 0].any():
        return 0.0
    expected = chances[chances > 0] * counts.sum()
    statistic = float(((counts[chances > 0] - expected) ** 2 / expected).sum())
    return chi_square(statistic, expected.size - 1)


def drawn_sets(drawn: Ints, chances: Chances, *, in_order: bool = False) -> float:
    """Return the p-value of "each set (or sequence) has its probability" for draws of shape [draws, elements]."""
    cells = {outcome: place for place, outcome in enumerate(chances)}
    rows = drawn if in_order else np.sort(drawn, axis=1)
    counts = np.zeros(len(cells), np.int64)
    found, times = np.unique(rows, axis=0, return_counts=True)
    for outcome, seen in zip(found.tolist(), times.tolist(), strict=True):
        if tuple(outcome) not in cells:
            return 0.0
        counts[cells[tuple(outcome)]] = seen
    return proportional(counts, np.array(list(chances.values())))


def included(drawn: Ints, count: int) -> float:
    """Return the p-value of "each of `count` elements is in equally many sets" for sets of shape [draws, elements].

    The number of elements per set is fixed, so the counts vary less than independent counts would.
    """
    draws, k = drawn.shape
    seen = np.bincount(drawn.ravel(), minlength=count)
    expected = draws * k / count
    less = (1 - k / count) * count / (count - 1)
    return chi_square(float(((seen - expected) ** 2 / expected).sum()) / less, count - 1)


def paired(drawn: Ints, count: int) -> npt.NDArray[np.float64]:
    """Return, for each pair of `count` elements, the deviation of its frequency in sets, in standard deviations."""
    draws, k = drawn.shape
    held = np.zeros((draws, count), np.float32)
    np.put_along_axis(held, drawn, 1, axis=1)
    chance = k * (k - 1) / (count * (count - 1))
    together = (held.T @ held)[np.triu_indices(count, 1)].astype(np.float64)
    odd: npt.NDArray[np.float64] = (together - draws * chance) / math.sqrt(draws * chance * (1 - chance))
    return odd


def sets(count: int, k: int) -> Chances:
    """Return every set of k out of `count` elements, all with the same probability.

    >>> sets(3, 2)
    {(0, 1): 0.3333333333333333, (0, 2): 0.3333333333333333, (1, 2): 0.3333333333333333}
    """
    return dict.fromkeys(combinations(range(count), k), 1 / math.comb(count, k))


def ordered(weights: Sequence[float], k: int) -> Chances:
    """Return every sequence of k elements with its probability if elements are drawn by weight without replacement.

    >>> ordered([1, 3], 2)
    {(0, 1): 0.25, (1, 0): 0.75}
    """
    found = {}
    for outcome in permutations(range(len(weights)), k):
        left, chance = float(sum(weights)), 1.0
        for element in outcome:
            chance *= weights[element] / left
            left -= weights[element]
        found[outcome] = chance
    return found


def unordered(chances: Chances) -> Chances:
    """Return the probabilities of sets from those of the sequences in which they are drawn.

    >>> unordered(ordered([1, 3, 4], 2))[0, 2] == 1 / 8 * 4 / 7 + 4 / 8 * 1 / 4
    True
    """
    found: dict[tuple[int, ...], float] = {}
    for outcome, chance in chances.items():
        taken = tuple(sorted(outcome))
        found[taken] = found.get(taken, 0.0) + chance
    return found


def fair(name: str, p: float, control: float) -> None:
    """Print both p-values. Require that the draws pass the test and that the biased control fails it."""
    print(f"{name}: p = {p:.4f}; control p = {control:.1e}")
    assert STRICT < p <= 1
    assert control < STRICT


def alike(one: Ints, other: Ints, count: int) -> float:
    """Return the p-value of "two draws of one of `count` elements per row are independent and uniform"."""
    cells = np.bincount(one * count + other, minlength=count * count)
    return proportional(cells, np.full(count * count, 1 / count**2))


STRICT = 1e-4
"""The probability that a correct sampler fails a test for a random seed. The tests use a fixed seed."""


def surprise(counts: npt.NDArray[np.int64], expected: float, scale: float) -> float:
    """Return the p-value of a chi-square test whose cells are dependent. `scale` corrects the mean to cells - 1."""
    statistic = scale * float(((counts - expected) ** 2 / expected).sum())
    freedom = counts.size - 1
    cube = (statistic / freedom) ** (1 / 3)  # Wilson and Hilferty: the cube root is approximately normal
    spread = math.sqrt(2 / (9 * freedom))
    return 0.5 * math.erfc((cube - (1 - 2 / (9 * freedom))) / spread / math.sqrt(2))


def inclusion(drawn: npt.NDArray[np.int64], degree: int) -> float:
    """Return the p-value of "each edge is drawn with the same probability"."""
    batches, k = drawn.shape
    counts = np.bincount(drawn.ravel(), minlength=degree)
    # For k edges without replacement, a count has variance n k/d (1 - k/d), and the sum of the counts is constant.
    return surprise(counts, batches * k / degree, (degree - 1) / (degree - k))


def pairs_are_even(drawn: npt.NDArray[np.int64], degree: int) -> None:
    """Check that each pair of edges is drawn together about as often as expected."""
    batches, k = drawn.shape
    taken = np.zeros((batches, degree), np.int64)
    np.put_along_axis(taken, drawn, 1, axis=1)
    pairs = (taken.T @ taken)[np.triu_indices(degree, 1)]
    chance = k * (k - 1) / (degree * (degree - 1))
    assert np.all(np.abs(pairs - batches * chance) < 5 * math.sqrt(batches * chance * (1 - chance)))

"""How surprising counts are, exactly where that is easy: p-values, and the chances of drawing each set."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import combinations, permutations
from typing import Any

import numpy as np
import numpy.typing as npt

STRICT = 1e-4
"""A correct sampler fails a test once in so many seeds; the seeds are fixed."""

Ints = npt.NDArray[np.int64]
Chances = Mapping[tuple[int, ...], float]


def normal(z: float) -> float:
    """The chance that a normal variate is further from 0 than `z`.

    >>> round(normal(1.96), 3)
    0.05
    """
    return math.erfc(abs(z) / math.sqrt(2))


def chi_square(statistic: float, freedom: int) -> float:
    """The chance of a chi-square this great: the incomplete gamma function, as a series or a continued fraction.

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
    """The p-value of "each cell is hit with its chance"; 0 when a cell was hit that has none."""
    if counts[chances == 0].any():
        return 0.0
    expected = chances[chances > 0] * counts.sum()
    statistic = float(((counts[chances > 0] - expected) ** 2 / expected).sum())
    return chi_square(statistic, expected.size - 1)


def drawn_sets(drawn: Ints, chances: Chances, *, in_order: bool = False) -> float:
    """The p-value of "each set (or sequence) is drawn with its chance"; `drawn` is [draws, elements of a draw]."""
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
    """The p-value of "each of so many elements is in as many sets as others"; `drawn` is [draws, elements of a set].

    The counts of sets add up to the same number each time, which makes them vary less than independent ones.
    """
    draws, k = drawn.shape
    seen = np.bincount(drawn.ravel(), minlength=count)
    expected = draws * k / count
    less = (1 - k / count) * count / (count - 1)
    return chi_square(float(((seen - expected) ** 2 / expected).sum()) / less, count - 1)


def paired(drawn: Ints, count: int) -> npt.NDArray[np.float64]:
    """For each pair of so many elements, by how many standard deviations more often than by chance sets hold both."""
    draws, k = drawn.shape
    held = np.zeros((draws, count), np.float32)
    np.put_along_axis(held, drawn, 1, axis=1)
    chance = k * (k - 1) / (count * (count - 1))
    together = (held.T @ held)[np.triu_indices(count, 1)].astype(np.float64)
    odd: npt.NDArray[np.float64] = (together - draws * chance) / math.sqrt(draws * chance * (1 - chance))
    return odd


def sets(count: int, k: int) -> Chances:
    """Every set of k of so many elements, each as likely as the others.

    >>> sets(3, 2)
    {(0, 1): 0.3333333333333333, (0, 2): 0.3333333333333333, (1, 2): 0.3333333333333333}
    """
    return dict.fromkeys(combinations(range(count), k), 1 / math.comb(count, k))


def ordered(weights: Sequence[float], k: int) -> Chances:
    """Every sequence of k elements, drawn one after another by weight without replacement.

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
    """The chances of sets, from those of the sequences that they are drawn in.

    >>> unordered(ordered([1, 3, 4], 2))[0, 2] == 1 / 8 * 4 / 7 + 4 / 8 * 1 / 4
    True
    """
    found: dict[tuple[int, ...], float] = {}
    for outcome, chance in chances.items():
        taken = tuple(sorted(outcome))
        found[taken] = found.get(taken, 0.0) + chance
    return found


def fair(name: str, p: float, control: float) -> None:
    """Says both p-values; the draws must look as they should, and those of the biased control must not."""
    print(f"{name}: p = {p:.4f}; control p = {control:.1e}")
    assert STRICT < p <= 1
    assert control < STRICT


def alike(one: Ints, other: Ints, count: int) -> float:
    """The p-value of "two draws of one of so many elements, row by row, are independent and both uniform"."""
    cells = np.bincount(one * count + other, minlength=count * count)
    return proportional(cells, np.full(count * count, 1 / count**2))


STRICT = 1e-4
"""A correct sampler fails a test once in so many seeds; the seed is fixed."""


def surprise(counts: npt.NDArray[np.int64], expected: float, scale: float) -> float:
    """The p-value of a chi-square whose cells are not independent, so that its mean is brought to cells - 1."""
    statistic = scale * float(((counts - expected) ** 2 / expected).sum())
    freedom = counts.size - 1
    cube = (statistic / freedom) ** (1 / 3)  # Wilson and Hilferty: the cube root is nearly normal
    spread = math.sqrt(2 / (9 * freedom))
    return 0.5 * math.erfc((cube - (1 - 2 / (9 * freedom))) / spread / math.sqrt(2))


def inclusion(drawn: npt.NDArray[np.int64], degree: int) -> float:
    """The p-value of "each edge is taken with the same probability"."""
    batches, k = drawn.shape
    counts = np.bincount(drawn.ravel(), minlength=degree)
    # k edges without replacement: a count's variance is n k/d (1 - k/d), and the counts sum to a constant
    return surprise(counts, batches * k / degree, (degree - 1) / (degree - k))


def pairs_are_even(drawn: npt.NDArray[np.int64], degree: int) -> None:
    """Compares how often each pair of edges is taken together with its chance."""
    batches, k = drawn.shape
    taken = np.zeros((batches, degree), np.int64)
    np.put_along_axis(taken, drawn, 1, axis=1)
    pairs = (taken.T @ taken)[np.triu_indices(degree, 1)]
    chance = k * (k - 1) / (degree * (degree - 1))
    assert np.all(np.abs(pairs - batches * chance) < 5 * math.sqrt(batches * chance * (1 - chance)))

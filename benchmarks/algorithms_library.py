"""A graph in one library: the part that all libraries share."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from pathlib import Path

import numpy as np

from snapdb.arrays import Array

ITERATIONS = 10
"""The number of iterations of PageRank."""
EXACT = 1e-10
"""The change in L1 at which PageRank ends if it runs until it converges."""
SOURCES = 8
"""The number of sources of betweenness and closeness."""

Later = Callable[[], float]
"""A figure that is computed when the time has been taken."""


class Library:
    """A graph in one library. Methods without an underscore are tasks."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._nodes = self._load("in.indptr").size - 1

    def _load(self, name: str) -> Array:
        array: Array = np.load(self._folder / f"{name}.npy", mmap_mode="r")
        return array

    @cached_property
    def _start(self) -> int:
        """The node with the most edges, at which searches begin."""
        return int(np.argmax(np.diff(self._load("out.indptr"))))

    @cached_property
    def _sources(self) -> list[int]:
        """The first nodes that have edges to others."""
        found: list[int] = np.flatnonzero(np.diff(self._load("out.indptr")[: 1000 * SOURCES]))[:SOURCES].tolist()
        return found


def squares(values: Array) -> float:
    """Return the sum of the squares of values."""
    return float(np.dot(values, values))


def modularity(ends: Array, labels: Array) -> float:
    """Return the modularity of communities in the graph without directions."""
    own = labels[ends]
    inside = np.count_nonzero(own[:, 0] == own[:, 1])
    totals = np.bincount(own.ravel())
    return float(inside / len(ends) - np.sum((totals / (2 * len(ends))) ** 2))

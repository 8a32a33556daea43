"""How fast this machine reads random lines of memory, which no sampler can beat.

    python -m benchmarks.floor 1000000000 2

prints the bytes a second that so many threads read together out of so many bytes, 64 at each place.
"""

from __future__ import annotations

import sys
import time
from concurrent.futures import ThreadPoolExecutor
from statistics import median

import numpy as np
import numpy.typing as npt
from numba import njit

LINE = 64
"""Bytes that memory gives at once."""
READ = 2_000_000
"""Lines that a thread reads in one turn."""
TURNS = 7


def batch_bytes(nodes: float, edges: float, expanded: float, row: int, sampled_only: bool) -> float:
    """Bytes that a batch must move: rows read and written, and a line for each row's bounds, neighbour and stamp.

    Args:
        expanded: Nodes whose neighbours are drawn.
        row: Bytes of a node's features.
        sampled_only: No rows are moved.
    """
    return (0.0 if sampled_only else 2 * nodes * row) + LINE * (expanded + 2 * edges)


def line_bandwidth(size: int, threads: int) -> float:
    """Bytes a second that `threads` threads read together from random lines of `size` bytes: the median of turns."""
    data = np.ones(size // 8, np.int64)
    rng = np.random.default_rng(0)
    places = [rng.integers(0, size // LINE, READ) for _ in range(threads)]
    rates = []
    with ThreadPoolExecutor(threads) as pool:
        for turn in range(TURNS + 1):
            began = time.perf_counter()
            list(pool.map(lambda lines: _read(data, lines), places))
            if turn > 0:  # the first one compiles
                rates.append(threads * READ * LINE / (time.perf_counter() - began))
    return median(rates)


@njit(nogil=True)
def _read(data: npt.NDArray[np.int64], lines: npt.NDArray[np.int64]) -> int:
    """The sum of a word of each line: reads that do not depend on one another, as many at once as the core can do."""
    total = 0
    for i in range(lines.size):
        total += data[lines[i] * 8]
    return total


if __name__ == "__main__":
    print(line_bandwidth(int(sys.argv[1]), int(sys.argv[2])))

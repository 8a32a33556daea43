"""Measure how fast this machine reads random cache lines from memory, which is an upper bound for any sampler.

    python -m benchmarks.floor 1000000000 2

prints the number of bytes per second that the given number of threads read together from an array of the given number
of bytes, 64 bytes at each position.
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
"""The number of bytes that one memory access transfers."""
READ = 2_000_000
"""The number of lines that a thread reads in one turn."""
TURNS = 7


def batch_bytes(nodes: float, edges: float, expanded: float, row: int, sampled_only: bool) -> float:
    """Return the bytes that a batch must move: feature rows, and one line per row's bounds, neighbour and stamp.

    Feature rows are counted twice, because they are read and written.

    Args:
        nodes: The number of nodes.
        edges: The number of edges.
        expanded: The number of nodes whose neighbours are drawn.
        row: The bytes of a node's features.
        sampled_only: Whether to exclude feature rows.
    """
    return (0.0 if sampled_only else 2 * nodes * row) + LINE * (expanded + 2 * edges)


def line_bandwidth(size: int, threads: int) -> float:
    """Return the median bytes per second that `threads` threads together read at random from `size` bytes."""
    data = np.ones(size // 8, np.int64)
    rng = np.random.default_rng(0)
    places = [rng.integers(0, size // LINE, READ) for _ in range(threads)]
    rates = []
    with ThreadPoolExecutor(threads) as pool:
        for turn in range(TURNS + 1):
            began = time.perf_counter()
            list(pool.map(lambda lines: _read(data, lines), places))
            if turn > 0:  # the first turn compiles the kernel
                rates.append(threads * READ * LINE / (time.perf_counter() - began))
    return median(rates)


@njit(nogil=True)
def _read(data: npt.NDArray[np.int64], lines: npt.NDArray[np.int64]) -> int:
    """Return the sum of one word per line. The reads are independent, so a core can have many in flight."""
    total = 0
    for i in range(lines.size):
        total += data[lines[i] * 8]
    return total


if __name__ == "__main__":
    print(line_bandwidth(int(sys.argv[1]), int(sys.argv[2])))

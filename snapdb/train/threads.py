"""How many threads torch computes with, for a block of code."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def torch_threads(count: int) -> Iterator[None]:
    """A block in which torch computes with `count` threads; the old number comes back after it.

    One is best for small networks: the threads of a stream need the cores, and torch's own spend more time waiting
    for each other than working (measured: six times slower with two threads on two busy cores).

    >>> with torch_threads(1):
    ...     torch.get_num_threads()
    1
    """
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)

"""Torch's random numbers and its number of threads, set for a block of code and restored after it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """A block in which torch's CPU generator starts from `seed`; the caller's random numbers go on undisturbed.

    >>> with seeded(3):
    ...     first = torch.rand(2)
    >>> with seeded(3):
    ...     again = torch.rand(2)
    >>> bool((first == again).all())
    True
    """
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        yield


# How many threads torch computes with, for a block of code


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

"""Loads the kernels that every plain sampler needs in a thread, while the caller waits for other work."""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread

import numpy as np

from snapdb.kernels.adjacency.forms import row_arrays
from snapdb.kernels.adjacency.spans import PLAIN_FIELDS, is_plain
from snapdb.kernels.draw.relabel import LocalIds, relabel
from snapdb.kernels.draw.scores import DrawKeys
from snapdb.kernels.draw.uniform import EdgeBuffers, count_edges, sample_uniform
from snapdb.kernels.features import STREAMED, gather
from snapdb.kernels.rng import fold_each, fold_parts

_warm = Event()


@contextmanager
def warming() -> Iterator[None]:
    """Load the kernels of plain sampling, or compile those without a cache, while the block runs.

    The thread has ended when the block ends, because if a process forks while numba holds its lock, the lock remains
    held in the child. An error in the block is raised without waiting for the thread.
    """
    if _warm.is_set():
        yield
        return
    thread = Thread(target=load_kernels, name="snapdb-warming", daemon=True)
    thread.start()
    yield
    thread.join()


def load_kernels() -> None:
    """Sample one edge and gather a few rows. This loads the kernels, or compiles them if there is no cache."""
    one = np.zeros(1, np.int64)
    rows = row_arrays(np.array([0, 1]), np.zeros(1, np.int32))
    # The arguments have exactly the types of a batch's arguments, because numba compiles a variant for each tuple of
    # types.
    keys = DrawKeys(*[fold_parts(0)] * 5)
    fold_each(keys.pick, one)
    is_plain(rows)
    spans, nodes = np.empty((1, PLAIN_FIELDS), np.int64), np.zeros(2, np.int64)
    local = LocalIds(nodes, np.zeros(1, np.int32), 1, 1)
    relabel(one.copy(), 0, 1, local, 0)
    count_edges(rows, 1, nodes, 0, 1, spans)
    drawn = EdgeBuffers(one.copy(), *np.zeros((2, 1), np.int64))
    sample_uniform(rows, keys, 1, nodes, 0, 1, spans, local, 1, drawn, 0)
    gather(np.zeros(1), one)
    gather(np.zeros((1, 16), np.float32), one)
    gather(np.zeros((1, min(STREAMED, 1 << 22)), np.uint8), one)
    _warm.set()

"""The kernels that every plain sampler needs, loaded in a thread of their own while the caller waits for others."""

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
    """Loads them, or compiles them where no cache is, while the block runs; afterwards they are there.

    The thread has ended by then: a process that forks while numba holds its lock leaves it locked in the child. An
    error of the block does not wait for it.
    """
    if _warm.is_set():
        yield
        return
    thread = Thread(target=load_kernels, name="snapdb-warming", daemon=True)
    thread.start()
    yield
    thread.join()


def load_kernels() -> None:
    """Samples one edge and gathers a few rows: afterwards the kernels are loaded, compiled where there is no cache."""
    one = np.zeros(1, np.int64)
    rows = row_arrays(np.array([0, 1]), np.zeros(1, np.int32))
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

"""The parts that the runners of all systems share: the request, the seeds and the timing. It does not import snapdb.

A runner is a module that the system's own Python interpreter runs with one JSON argument, an `Asked`. It prints one
line of JSON.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

Int64s = npt.NDArray[np.int64]

WARM = 6
"""The number of batches before timing starts, by which time queues are full and memory has been touched."""
MOST = 4000
"""The number of batches that a loader is given, which is more than are timed."""


@dataclass(frozen=True, slots=True)
class Asked:
    """The request to a runner."""

    system: str
    graph: str
    """The folder with the graph's arrays."""
    database: str
    """The path of the snapdb database with the same graph."""
    fanouts: tuple[int, ...]
    """The fanouts, starting at the seeds' hop."""
    batch: int
    mode: str
    """With `ready`, the system's loader samples, relabels, and gathers features and labels. With `sample`, the system's
    fastest function only samples and relabels, on one thread."""
    edge_ids: bool
    """Whether the user's edge ids are also read."""
    narrow: bool
    """Whether ids are int32 and features are float16."""
    layout: str
    """With NODES, a hop expands the new nodes. With BLOCKS, it expands all nodes of the batch. Each peer supports one
    of them."""
    workers: int
    """The number of worker processes (threads for snapdb) in addition to the caller's."""
    threads: int
    """The number of threads for torch's operators."""
    batches: int
    """The minimum number of timed batches."""
    seconds: float
    """The minimum number of timed seconds."""


@dataclass(frozen=True, slots=True)
class Arrays:
    """A graph as arrays, with features in their stored width."""

    indptr: Int64s
    indices: npt.NDArray[np.int32]
    features: npt.NDArray[np.float32]
    labels: Int64s
    train: Int64s


@dataclass(frozen=True, slots=True)
class Counted:
    """The size of one batch, counted when it is ready."""

    nodes: int
    edges: int
    expanded: int = 0
    """The number of nodes whose rows were looked up, or 0 if it is unknown."""


@dataclass(frozen=True, slots=True)
class Figures:
    """The measurements."""

    batches: int
    seconds: float
    cpu_seconds: float
    """CPU time in seconds of this process and its descendants."""
    nodes: float
    """The mean number of nodes per batch."""
    edges: float
    expanded: float
    version: str


def asked() -> Asked:
    """Return the request in this runner's argument."""
    given: dict[str, Any] = json.loads(sys.argv[1])
    return Asked(**{**given, "fanouts": tuple(given["fanouts"])})


def load_arrays(folder: str) -> Arrays:
    """Return the graph in memory, as a training process would hold it."""
    return Arrays(*(np.load(Path(folder) / f"{name}.npy") for name in Arrays.__slots__))


def repeated_seeds(train: Int64s, batch: int) -> list[Int64s]:
    """Return `MOST` batches of training seeds, repeated as needed."""
    once = [train[low : low + batch] for low in range(0, len(train) - batch + 1, batch)]
    return [once[i % len(once)] for i in range(MOST)]


def measure(stream: Iterable[Counted], wish: Asked, version: str) -> None:
    """Warm up, time the batches and print the figures. A stream that is still running is abandoned."""
    batches = iter(stream)
    for _ in range(WARM):
        next(batches)
    cpu, began = _cpu_seconds(), time.perf_counter()
    found: list[Counted] = []
    for counted in batches:
        found.append(counted)
        if len(found) >= wish.batches and time.perf_counter() - began >= wish.seconds:
            break
    seconds, cpu = time.perf_counter() - began, _cpu_seconds() - cpu
    means = [float(np.mean([getattr(each, name) for each in found])) for name in ("nodes", "edges", "expanded")]
    print(json.dumps(asdict(Figures(len(found), seconds, cpu, *means, version))), flush=True)
    for worker in [*_tree(os.getpid())][:0:-1]:
        os.kill(worker, signal.SIGKILL)  # the workers are still running, and their results are not needed
    os._exit(0)


def _cpu_seconds() -> float:
    """Return the user and system time of this process and its running descendants."""
    ticks = sum(sum(_times(pid)) for pid in _tree(os.getpid()))
    return ticks / os.sysconf("SC_CLK_TCK")


def _times(pid: int) -> tuple[int, int]:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0, 0
    return int(fields[11]), int(fields[12])


def _tree(pid: int) -> Iterator[int]:
    yield pid
    for path in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in path.read_text().split():
            yield from _tree(int(child))

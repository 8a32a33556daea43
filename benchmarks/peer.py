"""What the runners of all systems share: what is asked, the seeds, the clock. It needs numpy and nothing of snapdb.

A runner is a module that the system's own Python runs with one JSON argument, an `Asked`; it prints one JSON line.
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
"""Batches before the clock starts: queues are full then, and memory has been touched."""
MOST = 4000
"""Batches that a loader is given; the clock stops it before."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What a runner is to measure."""

    system: str
    graph: str
    """Folder of the graph's arrays."""
    database: str
    """Where snapdb has the same graph."""
    fanouts: tuple[int, ...]
    """Nearest hop first."""
    batch: int
    mode: str
    """`ready`: sampled, relabelled, features and labels gathered, by the system's loader. `sample`: the first two
    alone, one thread, by the system's fastest call."""
    edge_ids: bool
    """The user's edge ids are read too."""
    narrow: bool
    """Ids are int32, and features float16."""
    layout: str
    """NODES: a hop expands what is new. BLOCKS: all nodes of the batch. Peers know one of them each."""
    workers: int
    """Processes (of snapdb: threads) beside the caller's."""
    threads: int
    """Of torch's operators."""
    batches: int
    """At least so many are timed,"""
    seconds: float
    """and at least so long."""


@dataclass(frozen=True, slots=True)
class Arrays:
    """A graph as its arrays; features are as wide as they are."""

    indptr: Int64s
    indices: npt.NDArray[np.int32]
    features: npt.NDArray[np.float32]
    labels: Int64s
    train: Int64s


@dataclass(frozen=True, slots=True)
class Counted:
    """One batch, as it became ready."""

    nodes: int
    edges: int
    expanded: int = 0
    """Nodes whose rows were looked up; 0: the runner does not know."""


@dataclass(frozen=True, slots=True)
class Figures:
    """What was measured."""

    batches: int
    seconds: float
    cpu_seconds: float
    """Of this process and those it started."""
    nodes: float
    """Mean of a batch."""
    edges: float
    expanded: float
    version: str


def asked() -> Asked:
    """What this runner was started for."""
    given: dict[str, Any] = json.loads(sys.argv[1])
    return Asked(**{**given, "fanouts": tuple(given["fanouts"])})


def load_arrays(folder: str) -> Arrays:
    """The graph in memory, as its own process would hold it."""
    return Arrays(*(np.load(Path(folder) / f"{name}.npy") for name in Arrays.__slots__))


def repeated_seeds(train: Int64s, batch: int) -> list[Int64s]:
    """Training seeds in batches, over and over."""
    once = [train[low : low + batch] for low in range(0, len(train) - batch + 1, batch)]
    return [once[i % len(once)] for i in range(MOST)]


def measure(stream: Iterable[Counted], wish: Asked, version: str) -> None:
    """Warms up, times, and prints the figures; a stream that is still at work is left."""
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
        os.kill(worker, signal.SIGKILL)  # they are at work still, and nobody wants it
    os._exit(0)


def _cpu_seconds() -> float:
    """User and system time of this process and all below it that live."""
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

"""The measurements, each a pass over the training seeds in a separate process.

    python -m benchmarks.measures stream 2 DATABASE GRAPH ROUNDS

prints one line of JSON. One pass warms up kernels and the page cache, then `ROUNDS` passes are timed.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

import snapdb
from benchmarks.graphs import Graph, load_graph
from benchmarks.naive import naive_batches
from snapdb.graph.view import Feature, GraphView
from snapdb.loading import BatchStream
from snapdb.loading.assemble import assemble
from snapdb.loading.device_transfer import DeviceTransfer
from snapdb.sampling import epoch_order, vertex_input

FANOUTS = (15, 10, 5)
BATCH = 1024
SEED = 7
NAIVE_BATCHES = 12
QUERY = f"""SAMPLE FROM whole SEEDS (SELECT id FROM node WHERE train) AS node
  FANOUT (edge IN => [{", ".join(map(str, FANOUTS))}]) BATCH {BATCH} REPEATABLE ({SEED})"""

Pass = Iterator[tuple[int, int]]
"""(nodes, edges) of each batch, yielded when the batch is ready."""


@dataclass(frozen=True, slots=True)
class Figures:
    """The measurements of one process."""

    batches_per_s: float
    """Batches per second of wall-clock time, in the median pass."""
    batches_per_cpu_s: float
    """Batches per second of CPU time over all passes. This figure is also meaningful on a shared machine."""
    nodes: float
    """The mean number of nodes per batch."""
    edges: float
    peak_pss: int
    """The highest proportional set size of this process in bytes, sampled every 50 ms."""
    peak_rss: int
    """Peak resident memory in bytes, including mapped files."""
    parts: dict[str, float]
    """For `stages`, the seconds per batch of each stage. For `versus`, the ratio of the bare kernels' rate to the
    stream's, by wall-clock time and by CPU time."""


def stream_pass(stream: BatchStream) -> Pass:
    """Yield the sizes of ready batches from the public API."""
    for batch in stream:
        yield len(batch.n_id["node"]), next(iter(batch.edge_index.values())).shape[1]


def bare_pass(stream: BatchStream, epoch: int, threads: int, gather: bool = True) -> Pass:
    """Only sample and gather features and targets, batch by batch, without keeping any result."""
    order = epoch_order(stream.seeds, SEED, epoch, "SHUFFLE")
    x, target = stream.view.node_features["node"]["x"], stream.view.targets["node"]
    idle = [stream.sampler.scratch() for _ in range(threads)]

    def work(number: int) -> tuple[int, int]:
        scratch = idle.pop()
        seeds = stream.seeds.ids[order[number * BATCH : (number + 1) * BATCH]]
        found = stream.sampler.sample(vertex_input("node", seeds), epoch * stream.batches + number, scratch)
        idle.append(scratch)
        if gather:
            x.read(found.nodes["node"])
            target.read(seeds)
        return len(found.nodes["node"]), sum(edges.position.size for edges in found.edges.values())

    if threads == 1:
        yield from map(work, range(stream.batches))
        return
    with ThreadPoolExecutor(threads) as pool:
        yield from pool.map(work, range(stream.batches))


def naive_pass(graph: Graph, epoch: int) -> Pass:
    """Yield only the first batches of an epoch, because each takes half a second."""
    for x, edge_index in islice(naive_batches(graph, FANOUTS, BATCH, SEED + epoch), NAIVE_BATCHES):
        yield len(x), edge_index.shape[1]


def stages_pass(stream: BatchStream, epoch: int, spent: dict[str, float]) -> Pass:
    """Time the stages of a batch on one thread, then an epoch of the stream, and add the seconds to `spent`."""
    order = epoch_order(stream.seeds, SEED, epoch, "SHUFFLE")
    view = _timed_view(stream.view, spent)
    delivery = DeviceTransfer(torch.device("cpu"), view)
    scratch = stream.sampler.scratch()
    for number in range(stream.batches):
        ordinals = order[number * BATCH : (number + 1) * BATCH]
        began = time.perf_counter()
        entry = vertex_input("node", stream.seeds.ids[ordinals], ordinals)
        found = stream.sampler.sample(entry, epoch * stream.batches + number, scratch)
        sampled, gathered = time.perf_counter(), spent["gather"]
        batch = assemble(
            view, stream.sampler, stream.seeds, entry, found, delivery, index=(epoch, number), lineage={"rules": {}}
        )
        spent["sampling"] += sampled - began
        spent["assembly"] += time.perf_counter() - sampled - (spent["gather"] - gathered)
        yield len(batch.n_id["node"]), 0
    stream.set_epoch(epoch)
    began = time.perf_counter()
    deque(stream, maxlen=0)
    spent["stream"] += time.perf_counter() - began


@dataclass(frozen=True, slots=True)
class _TimedFeature:
    """A feature that adds the duration of its reads to `spent`."""

    feature: Feature
    spent: dict[str, float]

    @property
    def shape(self) -> tuple[int, ...]:
        return self.feature.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.feature.dtype

    def read(self, ids: npt.NDArray[Any]) -> npt.NDArray[Any]:
        began = time.perf_counter()
        rows = self.feature.read(ids)
        self.spent["gather"] += time.perf_counter() - began
        return rows


def _timed_view(view: GraphView, spent: dict[str, float]) -> GraphView:
    features = {
        kind: {name: _TimedFeature(feature, spent) for name, feature in named.items()}
        for kind, named in view.node_features.items()
    }
    return replace(view, node_features=features, targets={k: _TimedFeature(t, spent) for k, t in view.targets.items()})


def versus_pass(stream: BatchStream, epoch: int, threads: int, spent: dict[str, float]) -> Pass:
    """Time an epoch of the stream and of the bare kernels under the same conditions, and add the ratios to `spent`."""
    stream.set_epoch(epoch)
    runs = {"stream": partial(stream_pass, stream), "bare": partial(bare_pass, stream, epoch, threads)}
    seconds = {}
    for name in sorted(runs, reverse=epoch % 2 == 0):  # the order alternates between epochs
        clock, cpu = time.perf_counter(), time.process_time()
        sizes = list(runs[name]())
        seconds[name] = (time.perf_counter() - clock, time.process_time() - cpu)
    for i, kind in enumerate(("clock", "cpu")):
        spent[f"{kind} {epoch}"] = seconds["stream"][i] / seconds["bare"][i]
    yield from sizes


MEASURES = ("stream", "bare", "sample", "stages", "versus", "naive")
"""The names of the measurements on the command line."""


def _passes(name: str, threads: int, database: Path, graph: str, spent: dict[str, float]) -> Callable[[int], Pass]:
    """Return a function that runs a pass over an epoch."""
    if name == "naive":
        torch.set_num_threads(threads)
        arrays = load_graph(graph)
        return lambda epoch: naive_pass(arrays, epoch)
    stream = snapdb.connect(database).stream(QUERY, threads=threads)
    match name:
        case "stream":
            return lambda epoch: stream_pass(stream)
        case "bare":
            return lambda epoch: bare_pass(stream, epoch, threads)
        case "sample":
            return lambda epoch: bare_pass(stream, epoch, threads, gather=False)
        case "versus":
            return lambda epoch: versus_pass(stream, epoch, threads, spent)
        case "stages":
            return lambda epoch: stages_pass(stream, epoch, spent)
    raise ValueError(f"no measure {name!r}; there are {', '.join(MEASURES)}")


def measure(name: str, threads: int, database: Path, graph: str, rounds: int) -> Figures:
    """Run one warm-up pass and then `rounds` timed passes."""
    spent: dict[str, float] = defaultdict(float)
    passes = _passes(name, threads, database, graph, spent)
    with _Memory() as memory:
        sizes = list(passes(0))
        spent.clear()
        rates, cpu = [], time.process_time()
        for epoch in range(1, rounds + 1):
            started = time.perf_counter()
            sizes = list(passes(epoch))
            rates.append(len(sizes) / (time.perf_counter() - started))
        cpu = time.process_time() - cpu
    nodes, edges = np.mean(sizes, axis=0)
    total = rounds * len(sizes)
    return Figures(
        batches_per_s=median(rates),
        batches_per_cpu_s=total / cpu,
        nodes=float(nodes),
        edges=float(edges),
        peak_pss=memory.peak,
        peak_rss=memory.peak_rss,
        parts={part: value / (total if name == "stages" else 1) for part, value in spent.items()},
    )


class _Memory:
    """Samples the proportional set size of this process within a block."""

    def __enter__(self) -> _Memory:
        self.peak = self.peak_rss = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        self.peak_rss = _kilobytes("/proc/self/status", "VmHWM:")

    def _watch(self) -> None:
        while True:
            self.peak = max(self.peak, _kilobytes("/proc/self/smaps_rollup", "Pss:"))
            if self._stop.wait(0.05):
                return


def _kilobytes(path: str, label: str) -> int:
    """Return the number of bytes on the line that starts with the label."""
    lines = Path(path).read_text().splitlines()
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith(label))


if __name__ == "__main__":
    measured, workers, where, size, times = sys.argv[1:]
    print(json.dumps(asdict(measure(measured, int(workers), Path(where), size, int(times)))))

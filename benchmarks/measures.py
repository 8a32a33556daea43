"""The measurements, each a pass over the training seeds in a process of its own.

    python -m benchmarks.measures stream 2 DATABASE GRAPH ROUNDS

prints one JSON line. A pass warms up (compilers, page cache), then `ROUNDS` passes are timed.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

import numpy as np
import torch

import snapdb
from benchmarks.graphs import load_graph
from benchmarks.naive import naive_batches
from snapdb.loading import BatchStream
from snapdb.loading.assemble import assemble
from snapdb.sampling import epoch_order

__all__ = ["BATCH", "FANOUTS", "MEASURES", "QUERY", "Figures"]

FANOUTS = (15, 10, 5)
BATCH = 1024
SEED = 7
QUERY = f"""SAMPLE FROM whole SEEDS (SELECT id FROM node WHERE train) AS node
  FANOUT (edge IN => [{", ".join(map(str, FANOUTS))}]) BATCH {BATCH} REPEATABLE ({SEED})"""

Pass = Iterator[tuple[int, int]]
"""(nodes, edges) of each batch, as it becomes ready."""


@dataclass(frozen=True, slots=True)
class Figures:
    """What one process measured."""

    batches_per_s: float
    """Of the median pass, by the clock on the wall."""
    batches_per_cpu_s: float
    """Over all passes, by CPU time: also good on a machine that is shared."""
    nodes: float
    """Mean of a batch."""
    edges: float
    peak_pss: int
    """Bytes: this process's share of memory at its highest, sampled every 50 ms."""
    peak_rss: int
    """Bytes, mapped files included."""
    stages: dict[str, float]
    """Seconds a batch, for the measure `stages` alone."""


def stream_pass(stream: BatchStream, _: int) -> Pass:
    """Ready batches from the public door."""
    for batch in stream:
        yield len(batch.n_id["node"]), next(iter(batch.edge_index.values())).shape[1]


def bare_pass(stream: BatchStream, epoch: int, threads: int, gather: bool = True) -> Pass:
    """The sampler and the gather of features and targets alone, batch after batch; nothing is kept."""
    order = epoch_order(stream.seeds, SEED, epoch, "SHUFFLE")
    x, target = stream.view.node_features["node"]["x"], stream.view.targets["node"]
    idle = [stream.sampler.scratch() for _ in range(threads)]

    def work(number: int) -> tuple[int, int]:
        scratch = idle.pop()
        seeds = stream.seeds.ids[order[number * BATCH : (number + 1) * BATCH]]
        found = stream.sampler.sample(seeds, epoch * stream.batches + number, scratch)
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


def stages_pass(stream: BatchStream, epoch: int, spent: dict[str, float]) -> Pass:
    """One thread's work in its parts; adds the seconds of each to `spent`."""
    order = epoch_order(stream.seeds, SEED, epoch, "SHUFFLE")
    x, target = stream.view.node_features["node"]["x"], stream.view.targets["node"]
    scratch = stream.sampler.scratch()
    for number in range(stream.batches):
        ordinals = order[number * BATCH : (number + 1) * BATCH]
        seeds = stream.seeds.ids[ordinals]
        marks = [time.perf_counter()]
        found = stream.sampler.sample(seeds, epoch * stream.batches + number, scratch)
        marks.append(time.perf_counter())
        x.read(found.nodes["node"])
        target.read(seeds)
        marks.append(time.perf_counter())
        batch = assemble(stream.view, stream.sampler, stream.seeds, ordinals, found, index=(epoch, number), lineage={})
        marks.append(time.perf_counter())
        sampling, gather, assembled = np.diff(marks)
        spent["sampling"] += sampling
        spent["gather"] += gather
        spent["assembly"] += assembled - gather  # assemble gathers once more
        yield len(batch.n_id["node"]), 0


MEASURES = ("stream", "bare", "sample", "stages", "naive")
"""Names that the command line takes; `stream` and `bare` take a number of threads."""


def _passes(name: str, threads: int, database: Path, graph: str, spent: dict[str, float]) -> Callable[[int], Pass]:
    """A pass, given its epoch."""
    if name == "naive":
        torch.set_num_threads(threads)
        arrays = load_graph(graph)
        return lambda epoch: ((len(x), e.shape[1]) for x, e in naive_batches(arrays, FANOUTS, BATCH, SEED + epoch))
    stream = snapdb.connect(database).stream(QUERY, threads=threads)
    match name:
        case "stream":
            return lambda epoch: stream_pass(stream, epoch)
        case "bare":
            return lambda epoch: bare_pass(stream, epoch, threads)
        case "sample":
            return lambda epoch: bare_pass(stream, epoch, threads, gather=False)
        case "stages":
            return lambda epoch: stages_pass(stream, epoch, spent)
    raise ValueError(f"no measure {name!r}; there are {', '.join(MEASURES)}")


def measure(name: str, threads: int, database: Path, graph: str, rounds: int) -> Figures:
    """One warm-up pass, then `rounds` timed ones."""
    spent = dict.fromkeys(("sampling", "gather", "assembly"), 0.0)
    passes = _passes(name, threads, database, graph, spent)
    with _Memory() as memory:
        sizes = list(passes(0))
        spent.update(dict.fromkeys(spent, 0.0))
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
        stages={stage: seconds / total for stage, seconds in spent.items()} if name == "stages" else {},
    )


class _Memory:
    """Watches this process's proportional set size while a block runs."""

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
    """Bytes of the line that the label starts."""
    lines = Path(path).read_text().splitlines()
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith(label))


if __name__ == "__main__":
    measured, workers, where, size, times = sys.argv[1:]
    print(json.dumps(asdict(measure(measured, int(workers), Path(where), size, int(times)))))

"""Run the GPU tests, measure streams on a GPU against torch's own operators, print a table, and write GPU.md.

    python -m benchmarks.gpu [--size arxiv] [--batches 60]

Rates are batches per second of wall-clock time, measured until the device has finished its work. *torch's own
operators* are an implementation without a library: uniform draws with replacement, `unique` to relabel, and
`index_select`. With --device cpu, everything runs on the CPU to check that the benchmark works, and no page is written.
"""

from __future__ import annotations

import argparse
import importlib
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from itertools import chain, islice, repeat
from pathlib import Path

import torch
from torch import Tensor

import snapdb
from benchmarks.epoch_loop import Ready, Sage, training_step
from benchmarks.graphs import SIZES, load_graph
from benchmarks.loading import database_of
from benchmarks.report import machine_table, table
from snapdb.loading import BatchStream

PAGE = Path(__file__).parent / "GPU.md"
FANOUTS, BATCH = (15, 10, 5), 1024
QUERY = """SAMPLE FROM whole SEEDS (SELECT id FROM node WHERE train) AS node
  FANOUT (edge IN => [15, 10, 5]) BATCH 1024 REPEATABLE (7)"""
WARM = 10
"""The number of batches before timing starts."""


def main() -> None:
    """Run the tests and measurements, print the table and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", choices=sorted(SIZES), default="arxiv")
    parser.add_argument("--batches", type=int, default=60, help="timed, of each measure")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    options = parser.parse_args()
    if options.device == "cuda" and not torch.cuda.is_available():
        sys.exit(f"torch {torch.__version__} finds no CUDA device here: nothing was tested or measured")
    if options.device == "cpu":
        os.environ["TRITON_INTERPRET"] = "1"  # Triton reads this when it is imported
    tests = _tests() if options.device == "cuda" else "not run"
    rows = list(_measured(options.size, torch.device(options.device), options.batches))
    report = _report(options.size, tests, rows)
    print(report)
    if options.device == "cuda":
        PAGE.write_text(report)
        print(f"wrote {PAGE}")
    if "failed" in tests or "error" in tests:
        sys.exit(1)


def _tests() -> str:
    """Run the GPU tests and return the last line of their output."""
    command = [sys.executable, "-m", "pytest", "-m", "gpu", "-q", "-n", "0", "-p", "no:cacheprovider"]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False, cwd=PAGE.parent.parent)
    print(done.stdout[-4000:])
    return done.stdout.strip().splitlines()[-1].strip("= ")


Row = tuple[str, str, float]
"""The kind of work, the system, and the number of batches per second."""


def _measured(size: str, device: torch.device, batches: int) -> Iterator[Row]:
    naive = _Naive(size, device)
    there = "" if device.type == "cpu" else f" ON '{device.type}'"
    with snapdb.connect(database_of(size), read_only=True) as db:
        yield from _sampling(db, naive, there, batches)
        yield from _gathers(db, naive, device, batches)
        model = Sage(SIZES[size].features, SIZES[size].classes, len(FANOUTS)).to(device)
        step = training_step(model)
        for label, on in (("sampled by the processor", ""), ("sampled by the GPU", there)):
            with db.stream(QUERY + on, device=device.type) as stream:
                yield "training", f"snapdb, {label}", _rate(map(step, _ready(stream)), device, batches)
        yield "training", "torch's own operators", _rate(map(step, naive.batches()), device, batches)


def _sampling(db: snapdb.Database, naive: _Naive, there: str, batches: int) -> Iterator[Row]:
    """Measure sampling and relabelling only, on one host thread."""
    for label, on in (("numba, one thread", ""), ("torch operators on the GPU", f"{there} WITH torch")):
        with db.stream(QUERY + on, threads=0) as stream:
            builder, seeds = stream._workers.builder, stream._workers.epochs
            scratch = stream.sampler.scratch()
            numbered = chain.from_iterable(seeds.batches_at(0, range(stream.batches)) for _ in repeat(None))
            entries = ((builder._expansion.entry(each.ordinals, 0), each.number) for each in numbered)
            drawn = (stream.sampler.sample(entry, number, scratch) for entry, number in entries)
            yield "sampling", f"snapdb, {label}", _rate(drawn, naive.device, batches)
    yield "sampling", "torch's own operators on the GPU", _rate(naive.sampled(), naive.device, batches)


def _gathers(db: snapdb.Database, naive: _Naive, device: torch.device, batches: int) -> Iterator[Row]:
    """Measure gathering a batch's node features to the device, from the device and from the host."""
    ids = [nodes for nodes, _ in islice(naive.sampled(), 8)]
    here, rows = [nodes.cpu() for nodes in ids], naive.features.cpu()
    if device.type == "cuda":
        rows = rows.pin_memory()
    # This is what threads do: gather rows into page-locked memory, then copy them.
    side = torch.empty((max(map(len, ids)), rows.shape[1]), pin_memory=device.type == "cuda")

    def copied(nodes: Tensor) -> Tensor:
        torch.index_select(rows, 0, nodes, out=side[: len(nodes)])
        return side[: len(nodes)].to(device, non_blocking=True)

    gather_zero_copy = importlib.import_module("snapdb.kernels.triton_gather").gather_zero_copy
    ways: dict[str, Callable[[int], Tensor]] = {
        "features on the GPU, index_select": lambda i: naive.features.index_select(0, ids[i % 8]),
        "features on the host, gathered there and copied": lambda i: copied(here[i % 8]),
        "features on the host, read by the GPU (zero_copy)": lambda i: gather_zero_copy(rows, ids[i % 8]),
    }
    for label, way in ways.items():
        yield "features", label, _rate(map(way, range(WARM + batches)), device, batches)


class _Naive:
    """Neighbour sampling with only torch's own operators."""

    def __init__(self, size: str, device: torch.device) -> None:
        graph, self.device = load_graph(size), device
        parts = (graph.indptr, graph.indices, graph.features, graph.labels, graph.train)
        indptr, indices, features, labels, train = (torch.from_numpy(part.copy()) for part in parts)
        self.indptr, self.indices, self.labels = indptr.to(device), indices.long().to(device), labels.to(device)
        self.features, self.train = features.to(device), train.to(device)

    def sampled(self) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield (nodes, edge_index) without end."""
        while True:
            for seeds in self.train[torch.randperm(len(self.train), device=self.device)].split(BATCH):
                yield self._sample(seeds)

    def batches(self) -> Iterator[Ready]:
        """Yield ready batches without end."""
        for nodes, edges in self.sampled():
            yield Ready(self.features.index_select(0, nodes), edges, self.labels[nodes[:BATCH]])

    def _sample(self, seeds: Tensor) -> tuple[Tensor, Tensor]:
        nodes, frontier = seeds, torch.arange(len(seeds), device=self.device)
        sources, targets = [], []
        for fanout in FANOUTS:
            start = self.indptr[nodes[frontier]]
            degree = self.indptr[nodes[frontier] + 1] - start
            places = (torch.rand(len(frontier), fanout, device=self.device) * degree[:, None]).long()
            held = (degree > 0)[:, None].expand(-1, fanout)
            reached = self.indices[(start[:, None] + places)[held]]
            ids, inverse = torch.cat([nodes, reached]).unique(return_inverse=True)
            first = torch.full((len(ids),), len(inverse), device=self.device)
            first.scatter_reduce_(0, inverse, torch.arange(len(inverse), device=self.device), "amin")
            order = first.argsort()  # known nodes keep their local ids
            local = torch.empty_like(order)
            local[order] = torch.arange(len(order), device=self.device)
            sources.append(local[inverse[len(nodes) :]])
            targets.append(frontier[:, None].expand(-1, fanout)[held])
            frontier = torch.arange(len(nodes), len(ids), device=self.device)
            nodes = ids[order]
        return nodes, torch.stack([torch.cat(sources), torch.cat(targets)])


def _ready(stream: BatchStream) -> Iterator[Ready]:
    for batch in chain.from_iterable(repeat(stream)):
        assert batch.y is not None
        yield Ready(batch.only.x, batch.only.edge_index, batch.y)


def _rate(results: Iterator[object], device: torch.device, batches: int) -> float:
    """Return the number of batches per second, after some untimed batches."""
    for _ in islice(results, WARM):
        pass
    _wait(device)
    began = time.perf_counter()
    done = sum(1 for _ in islice(results, batches))
    _wait(device)
    return done / (time.perf_counter() - began)


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize()


def _report(size: str, tests: str, rows: list[Row]) -> str:
    own = {what: rate for what, label, rate in rows if label.startswith("torch's own")}
    own["features"] = next(rate for what, label, rate in rows if "copied" in label)
    lines = [(what, label, f"{rate:,.1f}", f"{rate / own[what]:.2f}x") for what, label, rate in rows]
    name = torch.cuda.get_device_name() if torch.cuda.is_available() else "none"
    return "\n".join(
        [
            "# On a GPU\n",
            "Generated by `make gpu`; do not edit. Read the ratios: rates belong to the machine below.\n",
            f"Graph `{size}`, fanouts {', '.join(map(str, FANOUTS))}, batch {BATCH:,}; training is GraphSAGE of three "
            "layers. Ratios are to torch's own operators, of features to a gather on the host that is then copied.\n",
            table(("work", "by", "batches/s", "ratio"), lines),
            f"Tests marked gpu, numba = torch on CUDA over methods, layouts and policies: {tests}.\n",
            f"Device: {name}, CUDA {torch.version.cuda}.\n",
            machine_table(),
        ]
    )


if __name__ == "__main__":
    main()

"""A process with one graph in one library, which runs algorithms and times them.

    python -m benchmarks.algorithms_work snapdb FOLDER SMALL TASK…

runs the tasks on a small graph, so that kernels are compiled. Then it reads the name of a task and a number of threads
from each line of its input, and prints one line of JSON: the seconds, the peak memory of the process during the
task, and a figure by which libraries are compared.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

import snapdb
from benchmarks.algorithms_library import EXACT, ITERATIONS, Later, Library, modularity, squares
from snapdb.algorithms.graph import AlgorithmGraph, NodeWeights, Rows, Run, Side
from snapdb.algorithms.methods import METHODS
from snapdb.arrays import Array
from snapdb.types.algorithms import algorithm


class Snapdb(Library):
    """snapdb's methods over arrays that are mapped from files, as those of a snapshot are."""

    def _run(self, name: str, threads: int, **options: Any) -> Array:
        defaults = {option.name: option.default for option in algorithm(name).options}
        if "direction" in defaults:
            defaults["direction"] = "OUT"
        graph = AlgorithmGraph(self._nodes, self._load("in.indices").size, self._rows)
        return METHODS[name](graph, defaults | options, Run(threads)).values

    def _rows(self, side: Side) -> Rows:
        name = side.lower()
        return Rows(self._load(f"{name}.indptr"), self._load(f"{name}.indices"), np.empty(0))

    def pagerank(self, threads: int) -> float:
        return squares(self._run("pagerank", threads, tolerance=0, max_iterations=ITERATIONS))

    def pagerank_converged(self, threads: int) -> float:
        return squares(self._run("pagerank", threads, tolerance=EXACT / self._nodes, max_iterations=1000))

    def weakly_connected_components(self, threads: int) -> float:
        return 1 + int(self._run("weakly_connected_components", threads).max())

    def strongly_connected_components(self, threads: int) -> float:
        return 1 + int(self._run("strongly_connected_components", threads).max())

    def hops(self, threads: int) -> float:
        level = self._run("hops", threads, seeds=NodeWeights(np.array([self._start])))
        return int(np.count_nonzero(level >= 0))

    def core_number(self, threads: int) -> float:
        return int(self._run("core_number", threads).max())

    def local_clustering_coefficient(self, threads: int) -> float:
        return float(self._run("local_clustering_coefficient", threads).sum())

    def betweenness(self, threads: int) -> float:
        seeds = NodeWeights(np.array(self._sources))
        return float(self._run("betweenness", threads, seeds=seeds, normalized=False).size)

    def label_propagation(self, threads: int) -> Later:
        return self._modularity(self._run("label_propagation", threads, repeatable=1))

    def louvain(self, threads: int) -> Later:
        return self._modularity(self._run("louvain", threads, repeatable=1))

    def leiden(self, threads: int) -> Later:
        return self._modularity(self._run("leiden", threads, repeatable=1))

    def _modularity(self, labels: Array) -> Later:
        return lambda: modularity(self._load("ends"), labels)


class Sql(Library):
    """SQL calls of snapdb, which open the snapshot and return rows with keys to DuckDB."""

    def _total(self, threads: int, call: str, figure: str) -> float:
        with snapdb.connect(self._folder / "graph.snapdb", threads=threads) as db:
            return float(db.execute(f"SELECT {figure} FROM {call}").fetchall()[0][0])

    def pagerank(self, threads: int) -> float:
        call = f"pagerank('s', tolerance => 0, max_iterations => {ITERATIONS})"
        return self._total(threads, call, "sum(pagerank * pagerank)")

    def weakly_connected_components(self, threads: int) -> float:
        return self._total(threads, "weakly_connected_components('s')", "1 + max(weakly_connected_components)")

    def strongly_connected_components(self, threads: int) -> float:
        return self._total(threads, "strongly_connected_components('s')", "1 + max(strongly_connected_components)")

    def hops(self, threads: int) -> float:
        return self._total(threads, f"hops('s', seeds => (SELECT {self._start}))", "count(hops)")


def peak_memory(reset: bool = False) -> int:
    """Return the peak resident memory in bytes since the last reset, or reset it. Linux only."""
    if reset:
        Path("/proc/self/clear_refs").write_text("5")
        return 0
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith("VmHWM:"))


def _library(name: str) -> type[Library]:
    """Return a library. Peers are imported only in their processes, because they need not be installed."""
    if name in ("snapdb", "SQL"):
        return Snapdb if name == "snapdb" else Sql
    from benchmarks.algorithms_peers import PEERS  # noqa: PLC0415

    return PEERS[name]


def main() -> None:
    """Load a graph, and run the tasks of the input."""
    name, folder, small, *tasks = sys.argv[1:]
    kind = _library(name)
    warm = kind(Path(small))
    for task in tasks:
        getattr(warm, task)(1)
    began = time.perf_counter()
    library = kind(Path(folder))
    print(json.dumps({"seconds": time.perf_counter() - began, "peak": peak_memory()}), flush=True)
    for line in sys.stdin:
        task, threads = line.split()
        peak_memory(reset=True)
        began = time.perf_counter()
        figure = getattr(library, task)(int(threads))
        taken = {"seconds": time.perf_counter() - began, "peak": peak_memory()}
        print(json.dumps({**taken, "figure": figure() if callable(figure) else figure}), flush=True)


if __name__ == "__main__":
    main()

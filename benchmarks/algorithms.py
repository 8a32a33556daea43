"""Measure graph algorithms against scipy, scikit-network and igraph, and write ALGORITHMS.md.

    python -m benchmarks.algorithms [--edges 100000000] [--budget 20] [--rounds 5] [--only large]

Each library has a process of its own per graph. The full run takes about twelve minutes on 2 cores, and up to 20 GiB of
memory. The result of a trial (--edges below 100000000) is printed, and written only if --out is given.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.algorithms_library import ITERATIONS, SOURCES
from benchmarks.patterns import interval
from benchmarks.patterns_data import short
from benchmarks.report import machine_table, table
from benchmarks.storage_bench import ROOT, Goal

RESULTS = Path(__file__).parent / "ALGORITHMS.md"
FULL = 100_000_000
CORES = len(os.sched_getaffinity(0))
MOST = 1.2
"""The greatest time of each algorithm on the large graphs against the fastest peer."""
DEGREE = 10
"""The number of edges per node."""
_SMALL = 10_000
"""The number of edges of the graphs on which kernels are compiled."""

Plan = Mapping[str, tuple[str, ...]]
"""Task → the libraries that run it, besides snapdb."""

LARGE: Plan = {
    "pagerank": ("SQL", "scipy", "scikit-network"),
    "weakly_connected_components": ("SQL", "scipy"),
    "strongly_connected_components": ("SQL", "scipy"),
    "hops": ("SQL", "scipy", "scikit-network"),
}
MIDDLE: Plan = {
    "pagerank_converged": ("igraph",),
    "weakly_connected_components": ("igraph",),
    "strongly_connected_components": ("igraph",),
    "hops": ("igraph",),
    "core_number": ("igraph", "scikit-network"),
    "local_clustering_coefficient": ("igraph",),
    "betweenness": ("igraph",),
}
COMMUNITIES: Plan = {
    "label_propagation": ("igraph", "scikit-network"),
    "louvain": ("igraph", "scikit-network"),
    "leiden": ("igraph", "scikit-network"),
}

TIERS: Mapping[str, tuple[tuple[str, int, Plan], ...]] = {
    "large": (("uniform", 1, LARGE), ("power law", 1, LARGE)),
    "middle": (("power law", 10, MIDDLE),),
    "communities": (("communities", 50, COMMUNITIES),),
}
"""Part of the measurements → its graphs: the distribution of degrees, the share of the edges, and the tasks."""

NOTES = f"""
- pagerank runs {ITERATIONS} iterations. scipy has no PageRank: it is a loop over products of its matrix in float64.
- pagerank_converged runs until the ranks change by less than 1e-10. igraph's PRPACK is not a power iteration.
- The ranks of scikit-network are not quite those of the others, as its figure shows.
- hops starts at the node with the most edges. scipy returns the order of the search, without distances.
- core_number and local_clustering_coefficient of the peers start from an undirected graph that was made before. That
  of snapdb is made within its time.
- betweenness has {SOURCES} sources.
- Communities: the figure is the modularity, of which more is better. Leiden runs twice in snapdb and igraph. The Leiden
  of scikit-network is not seeded.
"""
UNMEASURED = """
- A cold disk: files were read, and kernels compiled, before.
- igraph on the largest graphs, on which it would take most of the time of this page.
- Several threads of the peers. Their versions of these algorithms use one.
"""


@dataclass
class Worker:
    """A process with one graph in one library."""

    process: subprocess.Popen[str]
    loaded: dict[str, Any]
    """The seconds and peak memory of loading the graph."""

    def run(self, task: str, threads: int) -> dict[str, Any]:
        """Run a task. Returns its seconds, peak memory and figure."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{task} {threads}\n")
        self.process.stdin.flush()
        return self.answer()

    def answer(self) -> dict[str, Any]:
        """Return the next line that the process writes."""
        assert self.process.stdout is not None
        answer: dict[str, Any] = json.loads(self.process.stdout.readline())
        return answer


@dataclass
class Contest:
    """The measurements of one task on one graph."""

    task: str
    runs: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    """Library and threads → the measurements of each round."""

    def seconds(self, name: str) -> float:
        """Return the median time."""
        return median(run["seconds"] for run in self.runs[name])

    def ratio(self, name: str, to: str) -> tuple[float, float, float]:
        """Return the median ratio of times of a round, and its interval, or its range with less than 5 rounds."""
        pairs = zip(self.runs[name], self.runs[to], strict=True)
        values = [one["seconds"] / other["seconds"] for one, other in pairs]
        return interval(values) if len(values) >= 5 else (median(values), min(values), max(values))

    def rows(self) -> Iterator[tuple[str, ...]]:
        """Yield the lines of the table."""
        for name, runs in self.runs.items():
            shown = "1"
            if name != "snapdb":
                middle, low, high = self.ratio(name, "snapdb")
                shown = f"{middle:.2f} ({low:.2f} to {high:.2f})"
            peak = max(run["peak"] for run in runs) / 2**20
            figure = f"{runs[-1]['figure']:.6g}"
            yield self.task, name, f"{1000 * self.seconds(name):,.0f}", shown, f"{peak:,.0f}", figure, str(len(runs))


@dataclass(frozen=True)
class Setting:
    """The folder of the graphs, and the limits of a contest."""

    folder: Path
    budget: float
    """The seconds after which no further round of a task is started."""
    rounds: int

    def create(self, degrees: str, edges: int, database: bool) -> tuple[Path, float]:
        """Create a graph. Returns its folder, and the seconds that it took to load into snapdb."""
        folder = self.folder / f"{degrees.replace(' ', '-')}-{edges}"
        arguments = [str(folder), degrees, str(max(edges // DEGREE, 200)), str(edges), str(database)]
        command = [sys.executable, "-m", "benchmarks.algorithms_data", *arguments]
        done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
        return folder, json.loads(done.stdout)["loading"]

    def measure(self, folder: Path, small: Path, plan: Plan) -> tuple[list[Contest], str]:
        """Run the tasks of a plan, with libraries in turns. Returns the times and a table of them."""
        names = ["snapdb", *dict.fromkeys(peer for peers in plan.values() for peer in peers)]
        with ExitStack() as stack:
            workers = {}
            for name in names:
                tasks = [task for task, peers in plan.items() if name == "snapdb" or name in peers]
                workers[name] = stack.enter_context(_started(name, folder, small, tasks))
            contests = [self._contest(task, peers, workers) for task, peers in plan.items()]
            loaded = [
                (name, f"{worker.loaded['seconds']:.1f}", f"{worker.loaded['peak'] / 2**20:,.0f}")
                for name, worker in workers.items()
            ]
        heads = ("algorithm", "library", "ms", "time / snapdb's", "peak RSS, MiB", "figure", "rounds")
        text = table(heads, [row for contest in contests for row in contest.rows()])
        return contests, text + "\n" + table(("library", "opening the graph, s", "peak RSS, MiB"), loaded)

    def _contest(self, task: str, peers: tuple[str, ...], workers: Mapping[str, Worker]) -> Contest:
        contest = Contest(task)
        entries = {"snapdb": ("snapdb", 1)}
        if CORES > 1:
            entries[f"snapdb, {CORES} threads"] = ("snapdb", CORES)
        entries |= {peer: (peer, 1) for peer in peers}
        contest.runs = {name: [] for name in entries}
        began = time.perf_counter()
        for turn in range(self.rounds):
            for name in list(entries)[:: 1 if turn % 2 == 0 else -1]:
                library, threads = entries[name]
                contest.runs[name].append(workers[library].run(task, threads))
                print(f"{task}: {name}: {contest.runs[name][-1]}", file=sys.stderr)
            if time.perf_counter() - began > self.budget:
                break
        return contest


@contextmanager
def _started(name: str, folder: Path, small: Path, tasks: list[str]) -> Iterator[Worker]:
    """Yield a process with a graph, and end it."""
    command = [sys.executable, "-m", "benchmarks.algorithms_work", name, str(folder), str(small), *tasks]
    process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    with process:
        worker = Worker(process, {})
        worker.loaded = worker.answer()
        print(f"{folder.name}: {name}: opened", file=sys.stderr)
        yield worker
        assert process.stdin is not None
        process.stdin.close()


def _goals(name: str, contests: list[Contest]) -> Iterator[Goal]:
    """Yield the goals of a large graph."""
    for contest in contests:
        peers = [name for name in contest.runs if not name.startswith(("snapdb", "SQL"))]
        fastest = min(peers, key=contest.seconds)
        middle, low, high = contest.ratio("snapdb", fastest)
        what = f"{contest.task}, {name}: snapdb on one thread against {fastest}"
        yield Goal(what, f"≤ {MOST:.1f}x", f"{middle:.2f}x ({low:.2f} to {high:.2f})", middle <= MOST)


def main() -> None:
    """Run the measurements, and write or print the report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--edges", type=int, default=FULL, help="the number of edges of the largest graphs")
    parser.add_argument("--budget", type=float, default=20, help="seconds after which a task gets no further round")
    parser.add_argument("--rounds", type=int, default=5, help="the maximum number of rounds")
    parser.add_argument("--only", choices=TIERS, action="append", help="a part of the measurements; can be repeated")
    parser.add_argument("--scratch", type=Path, help="the folder of the graphs; a temporary folder by default")
    parser.add_argument("--out", type=Path, help=f"the path of the report; {RESULTS.name} for a full run")
    options = parser.parse_args()
    began, load = time.perf_counter(), os.getloadavg()[0]
    with ExitStack() as stack:
        scratch = options.scratch or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="algorithms-")))
        setting = Setting(scratch.resolve(), options.budget, options.rounds)
        chosen = [name for name in TIERS if name in (options.only or TIERS)]
        parts, goals = _measured(setting, options.edges, chosen)
    if left := [name for name in TIERS if name not in chosen]:
        parts.insert(0, f"Not measured in this run: {', '.join(left)}.\n")
    report = _report(parts, goals, time.perf_counter() - began, load, setting)
    if out := options.out or (RESULTS if options.edges >= FULL else None):
        out.write_text(report)
        print(f"wrote {out}")
    else:
        print(report)


def _measured(setting: Setting, edges: int, chosen: list[str]) -> tuple[list[str], list[Goal]]:
    """Return the sections of the report, and the goals."""
    parts: list[str] = []
    goals: list[Goal] = []
    small, _ = setting.create("uniform", min(_SMALL, edges // 1000), True)
    for degrees, share, plan in (graph for name in chosen for graph in TIERS[name]):
        count = edges // share
        folder, loading = setting.create(degrees, count, plan is LARGE)
        name = f"{degrees}, {short(max(count // DEGREE, 200))} nodes, {short(count)} edges"
        contests, text = setting.measure(folder, small, plan)
        goals += _goals(name, contests) if plan is LARGE else ()
        loaded = f"\nLoading the tables and CREATE SNAPSHOT took {loading:.1f} s on all cores.\n" if loading else ""
        parts.append(f"## {name}\n\n{text}{loaded}")
        shutil.rmtree(folder)
    return parts, goals


def _report(parts: list[str], goals: list[Goal], seconds: float, load: float, setting: Setting) -> str:
    summary = [(goal.what, goal.goal, goal.measured, "yes" if goal.met else "**no**") for goal in goals]
    libraries = "".join(f"| {name} | {version(name)} |\n" for name in ("scipy", "scikit-network", "igraph"))
    texts = [
        "# Graph algorithms\n",
        "Generated by `python -m benchmarks.algorithms`; do not edit. Read the ratios: times belong to the machine. "
        "Libraries run on one thread unless a number is given, and take turns in each round. snapdb is the method over "
        "arrays that are mapped from files. SQL is a query that calls it, from opening the database on. Ratios are "
        "those of a round: their median, and its 90 % interval, or the range with less than 5 rounds. Figures agree "
        "where they are the same number: the sum of squares, the components, the nodes reached, or the greatest core. "
        "Peak RSS contains the graph and pages of mapped files.\n",
        "## Goals\n",
        table(("what", "goal", "measured", "met"), summary),
        *parts,
        f"## Notes\n{NOTES}",
        f"## Not measured\n{UNMEASURED}",
        "## Where and when\n",
        machine_table() + libraries,
        f"At most {setting.rounds} rounds, and none that starts more than {setting.budget:g} s after the first. "
        f"Generating, loading and measuring took {math.ceil(seconds / 60)} minutes. The load average before it was "
        f"{load:.2f}.",
    ]
    return "\n".join(texts) + "\n"


if __name__ == "__main__":
    main()

"""Measure WALK beside the random walks of PyG (torch-cluster) and DGL, and write WALKS.md.

    python -m benchmarks.walks [--size products] [--rounds 5] [--scratch FOLDER] [--out FILE]

Each system runs in a process of its own, on one thread. `make bench-peers` installs the peers; a peer that is not
installed is not measured. Loading the graph takes four minutes, and measuring as long.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.graphs import DATA, SIZES, load_graph
from benchmarks.memory import TreeMemory
from benchmarks.report import machine_table, table
from benchmarks.storage_bench import ROOT, Figures, Goal, Section, fresh, memory_cells

HOME = Path(__file__).parent
RESULTS = HOME / "WALKS.md"
PEERS = {"pyg": HOME / ".peers/pyg/bin/python", "dgl": HOME / ".peers/dgl/bin/python"}
NAMES = {"pyg": "PyG, torch-cluster's random_walk", "dgl": "DGL's random_walk and node2vec_random_walk"}
LENGTH = 80
BATCH = 1024
CASES = {"uniform": (1.0, 1.0), "p = 0.25, q = 4": (0.25, 4.0), "p = 4, q = 0.25": (4.0, 0.25)}
"""Case → p and q."""
STEPS = {"uniform": 5.0, "p = 0.25, q = 4": 3.0, "p = 4, q = 0.25": 3.0}
"""Case → the goal in million steps per processor second."""
BATCHES = dict.fromkeys(CASES, 60)
"""The number of snapdb's batches in a round."""
PEER_BATCHES = 4

UNMEASURED = """
- GPUs: none was present. WALK with torch draws the same walks on a GPU.
- Reading from a cold disk, and graphs that do not fit in memory.
- The peers with several threads. Their processor seconds are those of one thread.
"""


def measure_speed(size: str, rounds: int, database: Path) -> Section:
    """Measure steps per processor second of snapdb and its peers on the same graph, in turns."""
    load_graph(size)
    spent = database.with_suffix(".json")
    if not spent.exists():
        figures = fresh("create", module="benchmarks.walks_work", database=database, size=size)
        spent.write_text(json.dumps(figures))
    created = json.loads(spent.read_text())
    clauses = {name: "" if p == q == 1 else f" RETURN {p} INOUT {q}" for name, (p, q) in CASES.items()}
    snapdb = {
        threads: fresh(
            "walk",
            module="benchmarks.walks_work",
            warm=[database],
            database=database,
            cases=clauses,
            length=LENGTH,
            batch=BATCH,
            batches=BATCHES,
            rounds=rounds,
            threads=threads,
        )
        for threads in (1, 2)
    }
    peers = {name: _peer(name, python, size, rounds) for name, python in PEERS.items() if _works(name, python)}
    lines, goals = [], []
    for case in CASES:
        rates = {
            f"snapdb, {threads} thread{'s' * (threads > 1)}": (
                [steps / cpu / 1e6 for steps, cpu, _ in figures["spent"][case]],
                [steps / clock / 1e6 for steps, _, clock in figures["spent"][case]],
                figures,
            )
            for threads, figures in snapdb.items()
        }
        for name, figures in peers.items():
            per = [steps / cpu / 1e6 for steps, cpu, _ in figures["spent"][case]]
            rates[NAMES[name]] = (per, [steps / clock / 1e6 for steps, _, clock in figures["spent"][case]], figures)
        own = median(rates["snapdb, 1 thread"][0])
        for name, (per_cpu, per_clock, figures) in rates.items():
            lines.append(
                (
                    case,
                    name,
                    f"{median(per_cpu):.2f}",
                    f"{min(per_cpu):.2f} to {max(per_cpu):.2f}",
                    f"{median(per_clock):.2f}",
                    f"{own / median(per_cpu):.1f}x",
                    *memory_cells(figures),
                )
            )
        measured = f"{own:.2f} M ({min(rates['snapdb, 1 thread'][0]):.2f} to {max(rates['snapdb, 1 thread'][0]):.2f})"
        goals.append(
            Goal(f"{case}: steps per processor second", f"≥ {STEPS[case]:.0f} M", measured, own >= STEPS[case])
        )
    heads = (
        "walks",
        "system",
        "M steps per processor second",
        "rounds",
        "M steps per second",
        "snapdb, 1 thread / system",
        "peak RSS, MiB",
        "peak PSS, MiB",
    )
    opened = snapdb[1]["opened"]
    text = (
        f"The `{size}` graph: {SIZES[size].nodes:,} vertices, about {SIZES[size].edges:,} directed edges, which are "
        f"{SIZES[size].edges // 2:,} edges in both directions, with the skewed degrees of R-MAT. Walks of {LENGTH} "
        f"steps from {BATCH} random seeds a batch, {BATCHES['uniform']} batches a round for snapdb and {PEER_BATCHES} "
        f"for the peers. snapdb's figures are those of its stream: seeds, walks and the hand-over. The peers' are "
        "those of the bare call. Peak memory is that of the process over all cases.\n\n"
        f"{table(heads, lines)}\n"
        f"Before the first batch, snapdb took {opened['uniform']:.1f} s for uniform walks, and "
        f"{opened['p = 0.25, q = 4']:.1f} s for second-order walks. Loading the graph from Parquet, with its snapshot, "
        f"took {created['seconds']:.0f} s.\n\n```sql\n{_statement()}\n```\n"
    )
    return Section("Steps per second", text, tuple(goals))


def _statement() -> str:
    from benchmarks.walks_work import WALK  # noqa: PLC0415  # the work imports snapdb, which this process does not need

    return WALK.format(length=LENGTH, bias=" RETURN 0.25 INOUT 4", batch=BATCH) + ";"


def _works(name: str, python: Path) -> bool:
    """Return whether a peer is installed."""
    module = {"pyg": "torch_cluster", "dgl": "dgl"}[name]
    return (
        python.exists()
        and not subprocess.run([python, "-c", f"import {module}"], check=False, capture_output=True).returncode
    )


def _peer(name: str, python: Path, size: str, rounds: int) -> Figures:
    """Measure a peer in its own environment."""
    wish = {
        "system": name,
        "graph": str(DATA / f"{size}-1"),
        "nodes": SIZES[size].nodes,
        "length": LENGTH,
        "batch": BATCH,
        "batches": PEER_BATCHES,
        "rounds": rounds,
        "cases": CASES,
    }
    command = [str(python), "-m", "benchmarks.peer_walks", json.dumps(wish)]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    with process, TreeMemory(process.pid) as memory:
        output, _ = process.communicate()
    if process.returncode:
        raise SystemExit(f"{name} failed with exit code {process.returncode}")
    figures: Figures = json.loads(output.strip().splitlines()[-1])
    print(f"{name}: {figures['seconds']:.0f} s", file=sys.stderr)
    return {**figures, "peak_rss": max(memory.rss, figures["own_rss"]), "peak_pss": memory.pss}


def main() -> None:
    """Run the measurements, and write or print the report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", choices=sorted(SIZES), default="products")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument(
        "--scratch", type=Path, help="the folder of the database, which is kept; a temporary folder by default"
    )
    parser.add_argument("--out", type=Path, help=f"the path of the report; {RESULTS.name} for a full run")
    options = parser.parse_args()
    began, load = time.perf_counter(), os.getloadavg()[0]
    with ExitStack() as stack:
        scratch = options.scratch or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="walks-")))
        section = measure_speed(options.size, options.rounds, scratch.resolve() / "walks.snapdb")
    report = _report([section], options.rounds, time.perf_counter() - began, load)
    if out := options.out or (RESULTS if options.size == "products" else None):
        out.write_text(report)
        print(f"wrote {out}")
    else:
        print(report)


def _report(sections: list[Section], rounds: int, seconds: float, load: float) -> str:
    goals = [goal for section in sections for goal in section.goals]
    summary = [(goal.what, goal.goal, goal.measured, "yes" if goal.met else "**no**") for goal in goals]
    versions = "".join(f"| {name} | {_version(name, python)} |\n" for name, python in PEERS.items())
    parts = [
        "# Random walks\n",
        "Generated by `python -m benchmarks.walks`; do not edit. Read the ratios: times belong to the machine.\n",
        "## Goals\n",
        table(("what", "goal", "measured", "met"), summary),
        *(f"## {section.title}\n\n{section.text}" for section in sections),
        "## Not measured\n" + UNMEASURED,
        "## Where and when\n",
        machine_table() + versions,
        f"Rounds: {rounds}. The run took {seconds / 60:.1f} minutes. The load average before it was {load:.2f}.",
    ]
    return "\n".join(parts) + "\n"


def _version(name: str, python: Path) -> str:
    """Return the versions of a peer's packages."""
    if not _works(name, python):
        return "not installed, so not measured"
    packages: Any = {"pyg": ("torch_cluster", "torch"), "dgl": ("dgl", "torch")}[name]
    code = f"from importlib.metadata import version; print(*(f'{{p}} {{version(p)}}' for p in {packages!r}), sep=', ')"
    return subprocess.run([python, "-c", code], check=True, capture_output=True, text=True).stdout.strip()


if __name__ == "__main__":
    main()

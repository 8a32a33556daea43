"""Measure the stream against the bare kernels on the arxiv-sized graph, and write the stream's part of RESULTS.md.

    python -m benchmarks.run [--size arxiv] [--rounds 3] [--passes 2]

Every measurement runs in a separate process. The measurements take turns in rounds, so that a slowdown of the machine
affects all of them. A figure is the median over the rounds. Ratios are more meaningful than rates.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

import snapdb
from benchmarks.graphs import DATA, SIZES, load_graph, write_parquet
from benchmarks.loading import LOAD
from benchmarks.measures import BATCH, FANOUTS, QUERY
from benchmarks.report import machine_table, table
from benchmarks.results import write_results

Cell = tuple[str, int]
"""A measurement and its number of threads."""

CELLS: tuple[Cell, ...] = (
    ("stream", 2),
    ("stream", 1),
    ("stream", 0),
    ("bare", 2),
    ("bare", 1),
    ("sample", 1),
    ("stages", 1),
    ("versus", 1),
    ("versus", 2),
    ("naive", 1),
    ("naive", 2),
)

SAID: dict[Cell, str] = {
    ("stream", 2): "snapdb stream, 2 threads",
    ("stream", 1): "snapdb stream, 1 thread",
    ("stream", 0): "snapdb stream in the caller's thread",
    ("bare", 2): "bare kernels (sampler, gather), 2 threads",
    ("bare", 1): "bare kernels, 1 thread",
    ("sample", 1): "sampling and relabelling only, 1 thread",
    ("naive", 2): "numpy sampler + torch.index_select, 2 torch threads",
    ("naive", 1): "numpy sampler + torch.index_select, 1 torch thread",
}

Figures = dict[Cell, dict[str, Any]]


def main() -> None:
    """Build the database, run every measurement in turns, and write RESULTS.md."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", choices=sorted(SIZES), default="arxiv")
    parser.add_argument("--rounds", type=int, default=3, help="turns of every measure")
    parser.add_argument("--passes", type=int, default=2, help="timed passes over the training seeds in each turn")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="snapdb-bench-") as folder:
        database = Path(folder) / "bench.snapdb"
        loading = _load(options.size, database)
        seen: dict[Cell, list[dict[str, Any]]] = {cell: [] for cell in CELLS}
        for turn in range(options.rounds):
            for cell in CELLS:
                passes = 4 * options.passes if cell[0] == "versus" else options.passes
                seen[cell].append(_measure(cell, database, options.size, passes))
                print(f"round {turn + 1}: {cell[0]} {cell[1]}: {seen[cell][-1]['batches_per_s']:.2f} batches/s")
    figures = {cell: _middle(rows) for cell, rows in seen.items()}
    print(f"wrote {write_results('stream', _report(options, figures, loading))}")


def _load(size: str, database: Path) -> dict[str, float]:
    """Load the graph through SQL, and return the seconds of each statement."""
    nodes, edges = write_parquet(load_graph(size), DATA / f"{size}-1")
    seconds = {}
    with snapdb.connect(database) as db:
        for statement in (
            LOAD.format(nodes=nodes, edges=edges, width=SIZES[size].features, type="float32").strip().split(";\n")
        ):
            started = time.perf_counter()
            db.execute(statement)
            seconds[" ".join(statement.split()[:3]).removesuffix(" AS")] = time.perf_counter() - started
    return seconds


def _measure(cell: Cell, database: Path, size: str, passes: int) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.measures", cell[0], str(cell[1]), str(database), size, str(passes)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    figures: dict[str, Any] = json.loads(done.stdout)
    return figures


def _middle(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the median of each figure over the rounds."""
    middle = {name: median(row[name] for row in rows) for name in rows[0] if name != "parts"}
    parts = {name: median(row["parts"][name] for row in rows) for name in rows[0]["parts"]}
    return {**middle, "parts": parts, "spread": _spread([row["batches_per_s"] for row in rows])}


def _spread(rates: list[float]) -> str:
    return f"{min(rates):.1f} to {max(rates):.1f}"


def _report(options: argparse.Namespace, figures: Figures, loading: dict[str, float]) -> str:
    parts = [
        "## The stream beside its kernels\n",
        f"Ready batches (sample, relabel, gather of features and labels) on the `{options.size}` graph: "
        f"{SIZES[options.size].nodes:,} nodes, about {SIZES[options.size].edges:,} edges, "
        f"{SIZES[options.size].features} float features, fanouts {', '.join(map(str, FANOUTS))}, "
        f"batch {BATCH}, {SIZES[options.size].train:,} seeds a pass.\n",
        f"```sql\n{QUERY}\n```\n",
        "### Ratios\n",
        _ratios(figures),
        "### Rates and memory\n",
        _rates(figures),
        "### Where the time of a batch goes\n",
        _stages(figures),
        "### Loading through SQL\n",
        table(("statement", "seconds"), [(name, f"{seconds:.2f}") for name, seconds in loading.items()]),
        "### Where and when\n",
        machine_table(),
        f"Medians over the rounds ({options.rounds}); each runs every measure in a fresh process, "
        f"one pass to warm up and {options.passes} timed.",
    ]
    return "\n".join(parts) + "\n"


def _ratios(figures: Figures) -> str:
    rate = {cell: row["batches_per_s"] for cell, row in figures.items()}
    cpu = {cell: row["batches_per_cpu_s"] for cell, row in figures.items()}
    naive = max(rate["naive", 1], rate["naive", 2])
    return table(
        ("comparison", "by the clock", "by CPU time"),
        [
            (
                "stream with 2 threads / numpy and torch at their best",
                f"{rate['stream', 2] / naive:.1f}x",
                f"{cpu['stream', 2] / max(cpu['naive', 1], cpu['naive', 2]):.1f}x",
            ),
            (
                "stream with 1 thread / numpy and torch with 1 thread",
                f"{rate['stream', 1] / rate['naive', 1]:.1f}x",
                f"{cpu['stream', 1] / cpu['naive', 1]:.1f}x",
            ),
            (
                "stream with 2 threads / stream with 1",
                f"{rate['stream', 2] / rate['stream', 1]:.2f}x",
                f"{cpu['stream', 2] / cpu['stream', 1]:.2f}x",
            ),
            *(
                (
                    f"overhead of the stream over the bare kernels, {threads} thread{'s' if threads > 1 else ''}",
                    f"{_overhead(figures, threads, 'clock'):+.1%}",
                    f"{_overhead(figures, threads, 'cpu'):+.1%}",
                )
                for threads in (1, 2)
            ),
        ],
    )


def _overhead(figures: Figures, threads: int, kind: str) -> float:
    """Return the stream's overhead over the bare kernels as a share: the median over alternating passes."""
    parts = figures["versus", threads]["parts"]
    return median([float(ratio) for name, ratio in parts.items() if name.startswith(kind)]) - 1


def _rates(figures: Figures) -> str:
    rows = [
        (
            said,
            f"{row['batches_per_s']:.1f}",
            row["spread"],
            f"{row['batches_per_cpu_s']:.1f}",
            f"{row['edges'] * row['batches_per_s'] / 1e6:.1f} M",
            f"{row['peak_pss'] / 2**20:,.0f}",
            f"{row['peak_rss'] / 2**20:,.0f}",
        )
        for cell, said in SAID.items()
        for row in (figures[cell],)
    ]
    heads = ("what", "batches/s", "rounds", "batches/CPU s", "edges/s", "peak PSS, MiB", "peak RSS, MiB")
    mean = figures["stream", 1]
    return table(heads, rows) + f"\nA batch has {mean['nodes']:,.0f} nodes and {mean['edges']:,.0f} edges on average.\n"


def _stages(figures: Figures) -> str:
    """Return the shares of one thread's time by stage. The hand-over is the stream's time beyond the other stages."""
    parts = figures["stages", 1]["parts"]
    spent = {stage: parts[stage] for stage in ("sampling", "gather", "assembly")}
    spent["hand-over to the reader"] = max(0.0, parts["stream"] - sum(spent.values()))
    total = sum(spent.values())
    rows = [(name, f"{1e3 * seconds:.2f}", f"{seconds / total:.1%}") for name, seconds in spent.items()]
    return table(("stage, 1 thread", "ms a batch", "share"), rows)


if __name__ == "__main__":
    main()

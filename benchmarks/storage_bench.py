"""Shared parts of the storage and snapshot measurements: new processes, turns, medians, and report sections."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.memory import TreeMemory

ROOT = Path(__file__).resolve().parent.parent

OPTIONS = "(FORMAT parquet, COMPRESSION zstd, COMPRESSION_LEVEL 3, ROW_GROUP_SIZE 122880)"
"""The options with which plain DuckDB writes Parquet files. snapdb writes its segments with the same options."""

Figures = dict[str, Any]
"""The measurements of one process: at least `seconds`, and `peak_rss` and `peak_pss` in bytes."""


@dataclass(frozen=True, slots=True)
class Bench:
    """The scale of a measurement, its number of rounds, and its folder."""

    scale: float
    """1 for the full sizes, or less for a trial."""
    rounds: int
    folder: Path
    """The folder for databases that are removed after the run, on the same disk as the generated files."""

    def count(self, full: int) -> int:
        """Return the number of rows (or commits) that corresponds to `full` at this scale."""
        return max(1, round(full * self.scale))

    def place(self, name: str) -> Path:
        """Return a path in the folder after removing any existing file or directory there."""
        path = self.folder / name
        if path.is_dir():
            shutil.rmtree(path)
        path.unlink(missing_ok=True)
        return path


@dataclass(frozen=True, slots=True)
class Goal:
    """One line of the summary."""

    what: str
    goal: str
    measured: str
    met: bool


@dataclass(frozen=True, slots=True)
class Section:
    """The part of the report on one measurement."""

    title: str
    text: str
    goals: tuple[Goal, ...] = ()


def fresh(
    work: str, /, *, module: str = "benchmarks.storage_work", warm: Iterable[Path] = (), **arguments: Any
) -> Figures:
    """Run a piece of work in a new process. Return its measurements and the peak memory of that process tree.

    Args:
        work: A name in the module's `WORK`.
        module: The module that runs the work by name.
        warm: Files, or directories of files, that are read beforehand to load them into the page cache.
        arguments: The arguments of the work, which are passed as JSON.
    """
    os.sync()  # Write earlier data back to disk now, so that this does not happen during the measurement.
    for path in warm:
        _read(path)
    command = [sys.executable, "-m", module, work, json.dumps(arguments, default=str)]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    with process, TreeMemory(process.pid) as memory:
        output, _ = process.communicate()
    if process.returncode:
        raise SystemExit(f"{work} failed with exit code {process.returncode}; arguments: {arguments}")
    figures: Figures = json.loads(output)
    rss = max(memory.rss, figures["own_rss"])
    return {**figures, "peak_rss": rss, "peak_pss": memory.pss}


def turns(bench: Bench, cases: Mapping[str, Callable[[], Figures]]) -> dict[str, Figures]:
    """Measure every case in each round, and return the medians by case. A slowdown of the machine affects all cases."""
    seen: dict[str, list[Figures]] = {name: [] for name in cases}
    for turn in range(bench.rounds):
        for name, case in cases.items():
            seen[name].append(case())
            print(f"round {turn + 1}: {name}: {seen[name][-1]['seconds']:.3f} s", file=sys.stderr)
    return {name: _middle(rows) for name, rows in seen.items()}


def memory_cells(figures: Figures) -> tuple[str, str]:
    """Return peak RSS and PSS in MiB for a table. A process that is too short to be sampled has no PSS."""
    pss = f"{figures['peak_pss'] / 2**20:,.0f}" if figures["peak_pss"] else "too short"
    return f"{figures['peak_rss'] / 2**20:,.0f}", pss


def _middle(rows: list[Figures]) -> Figures:
    """Return each number's median over the rounds, the maximum of `slowest` and `failed`, and the range of seconds."""
    middle: Figures = {}
    for name, value in rows[0].items():
        values = [row[name] for row in rows]
        if isinstance(value, int | float):
            middle[name] = max(values) if name in {"slowest", "failed"} else median(values)
        else:
            middle[name] = value
    seconds = [row["seconds"] for row in rows]
    return {**middle, "spread": f"{min(seconds):.2f} to {max(seconds):.2f}"}


def _read(path: Path) -> None:
    for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
        if file.is_file():
            with file.open("rb", buffering=0) as stream:
                while stream.read(1 << 22):
                    pass

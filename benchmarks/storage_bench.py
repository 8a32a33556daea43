"""What every measure of storage and snapshots stands on: fresh processes, turns, medians, sections of the report."""

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
"""How Parquet files are written by plain DuckDB; snapdb writes its segments with the same."""

Figures = dict[str, Any]
"""What one process measured: at least `seconds`, and `peak_rss` and `peak_pss` in bytes."""


@dataclass(frozen=True, slots=True)
class Bench:
    """How big, how often, and where."""

    scale: float
    """1 for the real sizes; below, a trial."""
    rounds: int
    folder: Path
    """For databases that go after the run; on the same disk as the generated files."""

    def count(self, full: int) -> int:
        """How many rows (or commits) stand for `full` at this scale."""
        return max(1, round(full * self.scale))

    def place(self, name: str) -> Path:
        """A path in the folder where nothing is; what was there goes."""
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
    """One measure's part of the report."""

    title: str
    text: str
    goals: tuple[Goal, ...] = ()


def fresh(
    work: str, /, *, module: str = "benchmarks.storage_work", warm: Iterable[Path] = (), **arguments: Any
) -> Figures:
    """What a piece of work measured in a process of its own, with the peak memory of that process and those below it.

    Args:
        work: A name in the module's `WORK`.
        module: Does it by name when it is run.
        warm: Files, or directories of files, that are read once before, so that the page cache holds what it can.
        arguments: Given to the work; they pass through JSON.
    """
    os.sync()  # what was written before must not be written out during the measure
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
    """Every case, round after round, so that a machine that slows down slows all; the medians of numbers by case."""
    seen: dict[str, list[Figures]] = {name: [] for name in cases}
    for turn in range(bench.rounds):
        for name, case in cases.items():
            seen[name].append(case())
            print(f"round {turn + 1}: {name}: {seen[name][-1]['seconds']:.3f} s", file=sys.stderr)
    return {name: _middle(rows) for name, rows in seen.items()}


def memory_cells(figures: Figures) -> tuple[str, str]:
    """Peak RSS and PSS in MiB, for a table; a process too short for a look has no PSS."""
    pss = f"{figures['peak_pss'] / 2**20:,.0f}" if figures["peak_pss"] else "too short"
    return f"{figures['peak_rss'] / 2**20:,.0f}", pss


def _middle(rows: list[Figures]) -> Figures:
    """The median of each number over the rounds, the worst of those called `slowest`, and the spread of the seconds."""
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

"""The cost of REFRESH after small changes, compared with REFRESH … FULL."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks.report import table
from benchmarks.snapshots_data import Setting
from benchmarks.snapshots_travel import sample_of
from benchmarks.storage_bench import Figures, Goal, Section, memory_cells

ROW = tuple(f"1 % new, number {i}" for i in range(1, 6))


def measure_refresh(setting: Setting) -> Section:
    """Measure the seconds of a REFRESH after each of several successive changes, and of FULL after all of them."""
    rounds = [_round(setting) for _ in range(setting.bench.rounds)]
    seen = {name: _middle([steps[name] for steps, _, _ in rounds]) for name in rounds[0][0]}
    full = _middle([row for _, row, _ in rounds])
    quick = [seen[name]["seconds"] for name in ROW]
    heads = ("after", "seconds", "FULL takes", "with the first batch", "MB written to the topology", "what it did")
    lines = [
        (
            name,
            f"{row['seconds']:.3f}",
            f"{full['seconds'] / row['seconds']:.1f}x",
            f"{row['with_batch']:.3f}",
            f"{row['bytes'] / 1e6:,.1f}",
            row["message"].rsplit("; ", 1)[-1],
        )
        for name, row in [*seen.items(), ("all of it: FULL", full)]
    ]
    patched, whole = (memory_cells(figures) for figures in rounds[0][2])
    text = (
        f"One process refreshes a snapshot of all {setting.edges:,} edges after each change, on top of those before; "
        "another then does it FULL. The changes themselves are not in the times. Late edges have times from all over "
        f"the year. Peak RSS and PSS: {' and '.join(patched)} MiB of the refreshes, {' and '.join(whole)} MiB of "
        "FULL.\n\n" + table(heads, lines)
    )
    ratio = full["seconds"] / max(quick)
    goal = Goal(
        "REFRESH after 1 % new edges, the slowest of five in a row, against FULL",
        "≥ 25x faster",
        f"{ratio:.1f}x",
        ratio >= 25,
    )
    return Section("REFRESH", text, (goal,))


def _round(setting: Setting) -> tuple[dict[str, Figures], Figures, tuple[Figures, Figures]]:
    """Return the figures of the steps, of FULL, and of both processes."""
    database, sample = setting.copy("base"), sample_of(setting, "whole")
    add = {name: _insert(setting.file(f"more-{i}")) for i, name in enumerate(ROW, 1)}
    steps = {
        **add,
        "0.1 % deleted": "DELETE FROM called WHERE hash(ts) % 1000 = 7",
        "1 % deleted": "DELETE FROM called WHERE hash(ts) % 100 = 8",
        "1 % late": _insert(setting.file("late")),
        "5 % new": _insert(setting.file("five")),
    }
    some = setting.run("refresh", warm=(database,), database=database, steps=steps, sample=sample)
    sql = "REFRESH SNAPSHOT whole FULL"
    full = setting.run("statements", warm=(database,), database=database, statements=[sql], ready=True)
    made: dict[str, Any] = {"with_batch": full["seconds"], "bytes": full["bytes"], "message": "built"}
    return some["steps"], {**full, **made}, (some, full)


def _insert(file: Path) -> str:
    return f"INSERT INTO called SELECT * FROM '{file}'"


def _middle(rows: list[Figures]) -> Figures:
    """Return the run with the median seconds."""
    return sorted(rows, key=lambda row: float(row["seconds"]))[len(rows) // 2]

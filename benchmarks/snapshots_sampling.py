"""Sampling through each physical form, in turns with a materialized snapshot of the same edges."""

from __future__ import annotations

from benchmarks.report import table
from benchmarks.snapshots_data import MIDDLE, Setting
from benchmarks.snapshots_travel import sample_of
from benchmarks.storage_bench import Goal, Section, memory_cells

BATCHES = 10
LEAST_ROUNDS = 5
FANOUTS = "15, 10, 5"
ASKED = ", which a snapshot is only where asked"
"""The suffix for names of cases that have no goal."""


def measure_sampling(setting: Setting) -> Section:
    """Measure the ratio of times for every form. Both snapshots return the same batches."""
    rounds = max(LEAST_ROUNDS, setting.bench.rounds)
    lines, goals = [], []
    for name, before in _cases(setting).items():
        samples = [sample_of(setting, snapshot, seeds=1024 * BATCHES, fanouts=FANOUTS) for snapshot in ("tried", "own")]
        copy = setting.copy("base")
        row = setting.run("sampling", warm=(copy,), database=copy, before=before, samples=samples, rounds=rounds)
        ratio = row["ratio"]
        spread = f"{min(row['ratios']):.2f} to {max(row['ratios']):.2f}"
        times = (f"{1e3 * row[part]:.1f} ms" for part in ("seconds", "materialized"))
        lines.append((name, *times, f"{ratio:.2f}x", spread, f"{row['cpu_ratio']:.2f}x", *memory_cells(row)))
        if not name.endswith(ASKED):
            what = f"sampling: {name}, against materialized"
            goals.append(Goal(what, "≤ 1.6x its time", f"{ratio:.2f}x", ratio <= 1.6))
    heads = (
        "form",
        "a batch",
        "a batch, materialized",
        "ratio",
        "rounds",
        "ratio of CPU times",
        "peak RSS, MiB",
        "peak PSS, MiB",
    )
    text = (
        f"Fanouts {FANOUTS}, batches of 1,024 seeds, {BATCHES} batches a pass, one thread, no features. The form and "
        f"a materialized snapshot of the same edges take turns in one process, {rounds} rounds after one that is not "
        "counted, in which their batches were compared.\n\n" + table(heads, lines)
    )
    return Section("Sampling through each form", text, tuple(goals))


def _cases(setting: Setting) -> dict[str, list[str]]:
    """Return, for each form, the statements that create the snapshots `tried` and `own`."""
    cases = {"full": _pair("full", ""), "ends, the middle": _pair("ends", f" FOR EVENT_TIME AS OF {MIDDLE}")}
    for dead, asked in ((1, ""), (2, ASKED), (10, ASKED)):
        cases[f"bitmap, {dead} % left out{asked}"] = _pair("bitmap", "", f" WHERE called.kind >= {dead}")
    for share, file in ((1, "more-1"), (10, "ten")):
        insert = f"INSERT INTO called SELECT * FROM '{setting.file(file)}'"
        cases[f"root and a patch of {share} %"] = [insert, "REFRESH SNAPSHOT whole", *_pair("full", "")]
    return cases


def _pair(form: str, window: str, where: str = "") -> list[str]:
    return [
        f"CREATE SNAPSHOT {name} OF phone{window} WITH (layout = '{layout}'){where}"
        for name, layout in (("tried", form), ("own", "materialized"))
    ]

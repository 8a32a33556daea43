"""Time travel: AS OF compared with a new build, and monthly snapshots compared with separate topologies."""

from __future__ import annotations

from typing import Any

from benchmarks.report import table
from benchmarks.snapshots_data import MIDDLE, Setting, months
from benchmarks.storage_bench import Goal, Section, memory_cells, turns

HALF = f"CREATE OR REPLACE SNAPSHOT half OF phone FOR EVENT_TIME AS OF {MIDDLE}"
TIMES = 5


def sample_of(setting: Setting, snapshot: str, *, seeds: int = 1024, fanouts: str = "15, 10") -> str:
    """Return a SAMPLE statement with batches of 1,024."""
    query = f"SEEDS ({setting.seeds(seeds)}) AS person FANOUT (called => [{fanouts}])"
    return f"SAMPLE FROM {snapshot} {query} BATCH 1024 REPEATABLE (7)"


def measure_travel(setting: Setting) -> Section:
    """Measure AS OF the middle of the year with the first batch, with and without an existing topology."""
    sample = sample_of(setting, "half")

    def run(database: str, sql: str, times: int) -> dict[str, Any]:
        copy = setting.copy(database)
        return setting.run("first_batch", warm=(copy,), database=copy, sql=sql, sample=sample, times=times)

    travelled, built = "the topology is there", "nothing is there"
    seen = turns(setting.bench, {travelled: lambda: run("base", HALF, TIMES), built: lambda: run("bare", HALF, 1)})
    heads = (
        "when",
        "form",
        "seconds, first batch included",
        "the statement alone",
        "rounds",
        "MB of its own",
        "peak RSS, MiB",
        "peak PSS, MiB",
    )
    lines = [
        (
            name,
            row["form"],
            f"{row['seconds']:.3f}",
            f"{row['created']:.3f}",
            row["spread"],
            f"{row['bytes'] / 1e6:,.1f}",
            *memory_cells(row),
        )
        for name, row in seen.items()
    ]
    quick, slow = seen[travelled], seen[built]["seconds"]
    share = quick["bytes"] / quick["topology_bytes"]
    text = (
        f"```sql\n{HALF};\n{sample};\n```\n\nIn a process that has done such work before, in another database. Where "
        f"the topology is there ({quick['topology_bytes'] / 1e6:,.0f} MB), {TIMES} times in one process: the median; "
        f"the first took {quick['first']:.3f} s.\n\n" + table(heads, lines)
    )
    ratio = slow / quick["seconds"]
    return Section(
        "AS OF the middle",
        text,
        (
            Goal(
                "AS OF the middle and its first batch against building it anew",
                "≥ 25x faster",
                f"{ratio:.0f}x",
                ratio >= 25,
            ),
            Goal("its bytes against the topology's", "≤ 10 %", f"{share:.1%}", share <= 0.1),
        ),
    )


def measure_months(setting: Setting) -> Section:
    """Measure the bytes of twelve AS OF snapshots that share a topology, and of twelve that share nothing."""

    def run(layout: str, kept: bool) -> dict[str, Any]:
        copy = setting.copy("base")
        wanted = {
            f"month_{i}": f"CREATE SNAPSHOT month_{i} OF phone FOR EVENT_TIME AS OF {moment}{layout}"
            for i, moment in enumerate(months(), 1)
        }
        return setting.run("year", warm=(copy,), database=copy, snapshots=wanted, kept=kept)

    shared, apart = run("", True), run(" WITH (layout = 'materialized')", False)
    heads = (
        "twelve AS OF the end of a month",
        "MB of their own",
        "MB with the topology",
        "seconds",
        "peak RSS, MiB",
        "peak PSS, MiB",
    )
    forms = " and ".join(f"{shared['forms'].count(form)} {form}" for form in dict.fromkeys(shared["forms"]))
    lines = [
        (
            f"as they come: {forms}",
            f"{shared['bytes'] / 1e6:,.1f}",
            f"{(shared['bytes'] + shared['topology_bytes']) / 1e6:,.0f}",
            f"{shared['seconds']:.2f}",
            *memory_cells(shared),
        ),
        (
            "`WITH (layout = 'materialized')`",
            f"{apart['bytes'] / 1e6:,.1f}",
            "—",
            f"{apart['seconds']:.2f}",
            *memory_cells(apart),
        ),
    ]
    share = (shared["bytes"] + shared["topology_bytes"]) / apart["bytes"]
    text = "Both are made from a topology that is there; what is materialized needs it no more.\n\n"
    goal = Goal(
        "twelve monthly snapshots and their topology against twelve materialized ones",
        "≤ 1/3 of the bytes",
        f"{share:.1%}",
        share <= 1 / 3,
    )
    return Section("A year of months", text + table(heads, lines), (goal,))

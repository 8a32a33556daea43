"""Four processes that commit concurrently: to a plain table, and to a table whose keys a graph maps to ids."""

from __future__ import annotations

from functools import partial

from benchmarks.report import table
from benchmarks.storage_bench import Bench, Figures, Goal, Section, fresh, memory_cells, turns

WRITERS = 4
COMMITS = 250
"""The number of commits per writer, after one warm-up commit."""

PLAIN, KEYED = "a plain table", "the vertex table of a graph with a string key"

BEFORE = {
    PLAIN: ("CREATE TABLE t (name VARCHAR, n BIGINT)",),
    KEYED: ("CREATE TABLE t (name VARCHAR, n BIGINT)", "CREATE PROPERTY GRAPH g VERTEX TABLES (t KEY (name))"),
}

INSERT = "INSERT INTO t VALUES ('w{writer}-{number}', {number})"


def measure_writers(bench: Bench) -> Section:
    """Measure the total commits per second and the latency of single commits."""
    commits = bench.count(COMMITS)
    seen = turns(bench, {f"writers, {name}": partial(_write, bench, name, commits) for name in BEFORE})
    named = dict(zip(BEFORE, seen.values(), strict=True))
    heads = (
        "commits to",
        "commits/s",
        "p50",
        "p99",
        "slowest of all rounds",
        "p50 of the first tenth",
        "p50 of the last tenth",
        "refused",
        "peak RSS, MiB",
        "peak PSS, MiB",
    )
    text = (
        f"{WRITERS} processes, each {commits} times `{INSERT}` (one row, one version, one segment), started together "
        "after each has connected and committed once. Commits that were refused although they may be tried again are "
        "counted and not tried again here; afterwards `count(*)` was equal to the commits that were acknowledged. "
        "Memory is of all processes together.\n\n" + table(heads, [_row(name, row) for name, row in named.items()])
    )
    goals = [goal for name, row in named.items() for goal in _goals(name, row)]
    return Section("Writers at once", text, tuple(goals))


def _write(bench: Bench, name: str, commits: int) -> Figures:
    database = bench.place("writers.snapdb")
    for sql in BEFORE[name]:
        fresh("statement", database=database, sql=sql)
    return fresh("write_together", database=database, insert=INSERT, writers=WRITERS, commits=commits)


def _row(name: str, row: Figures) -> tuple[str, ...]:
    times = [f"{1e3 * row[part]:.1f} ms" for part in ("p50", "p99", "slowest", "first_tenth", "last_tenth")]
    return (name, f"{row['rate']:.0f}", *times, str(row["failed"]), *memory_cells(row))


def _goals(name: str, row: Figures) -> tuple[Goal, Goal]:
    return (
        Goal(f"{WRITERS} writers to {name}, together", "≥ 100 commits/s", f"{row['rate']:.0f}", row["rate"] >= 100),
        Goal("the slowest single commit there", "< 0.5 s", f"{row['slowest']:.3f} s", row["slowest"] < 0.5),
    )

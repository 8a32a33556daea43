"""Writing, opening and counting a table with thousands of versions, before and after VACUUM."""

from __future__ import annotations

import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from statistics import median

from benchmarks.report import table
from benchmarks.storage_bench import Bench, Figures, Goal, Section, fresh, memory_cells, turns

VERSIONS = 3000
OPENINGS = 20
QUERIES = ("SELECT count(*) FROM t", "SELECT sum(n) FROM t")
VACUUM = "VACUUM RETAIN INTERVAL '0 seconds'"


def measure_open(bench: Bench) -> Section:
    """Measure the milliseconds to open and to count, and the time to load the library."""
    rows, database = bench.count(VERSIONS), bench.place("open.snapdb")
    inserts = fresh("append", database=database, rows=rows)
    before, files_before = _look(bench, database, "before VACUUM"), _segments(database)
    vacuum = fresh("statement", database=database, sql=VACUUM)
    after, files_after = _look(bench, database, "after VACUUM"), _segments(database)
    heads = ("what", "median", "first in the process", "slowest", "peak RSS, MiB", "peak PSS, MiB")
    idle, light, full = (_start(code) for code in ("pass", "import snapdb", "import snapdb.database"))
    text = (
        f"A table that {rows:,} INSERTs of one row made: {rows + 1:,} versions and {files_before:,} Parquet files "
        f"on the disk before `{VACUUM}`, {files_after:,} after it; it took {vacuum['seconds']:.2f} s. An INSERT took "
        f"{1e3 * inserts['median']:.1f} ms (median; {1e3 * inserts['slowest']:.0f} ms at most) and "
        f"{1e3 * inserts['cpu']:.2f} ms of processor time in the mean, {1e3 * inserts['cpu_median']:.2f} ms in "
        "the median: about one in 57 merges small files. To open is "
        f"`snapdb.connect(path)` and `db.names()`, {OPENINGS} times in one process; the database was in the page "
        "cache.\n\n"
        + table(heads, [_row(name, row) for name, row in {**before, **after}.items()])
        + f"\nNot in these times: starting Python takes {1e3 * idle:.0f} ms, `import snapdb` "
        f"{1e3 * (light - idle):.0f} ms more, and the whole engine with DuckDB, pyarrow and numba, which the first "
        f"`connect` loads, {1e3 * (full - idle):.0f} ms more than Python alone (medians of 5, warm). The memory of the "
        "openings is the least that a process with the engine loaded takes.\n"
    )
    opening = before["open, before VACUUM"]["seconds"]
    goal = Goal(f"open a database of {rows:,} versions", "< 50 ms", f"{1e3 * opening:.1f} ms", opening < 0.05)
    return Section("Opening", text, (goal,))


def _look(bench: Bench, database: Path, when: str) -> dict[str, Figures]:
    """Measure opening and counting, by their names in the report."""
    work = {f"open, {when}": partial(fresh, "open_often", warm=[database], database=database, times=OPENINGS)}
    for sql in QUERIES:
        again = partial(fresh, "select_often", warm=[database], database=database, sql=sql, times=OPENINGS)
        work[f"`{sql}`, {when}"] = again
    return turns(bench, work)


def _segments(database: Path) -> int:
    return len(list((database / "tables").rglob("*.parquet")))


def _row(name: str, row: Figures) -> tuple[str, ...]:
    return (name, *(f"{1e3 * row[part]:.1f} ms" for part in ("seconds", "first", "slowest")), *memory_cells(row))


def _start(code: str) -> float:
    """Return the median seconds of a Python process that runs the code."""
    spent = []
    for _ in range(6):
        started = time.perf_counter()
        subprocess.run([sys.executable, "-c", code], check=True)
        spent.append(time.perf_counter() - started)
    return median(spent[1:])

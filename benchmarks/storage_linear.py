"""Whether the cost of statements is linear in rows: the same statements at 1, 10 and 100 million rows."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from benchmarks.report import table
from benchmarks.storage_bench import Bench, Figures, Section, fresh, memory_cells, turns
from benchmarks.storage_copy import EDGE
from benchmarks.storage_data import edge_file

SIZES = (1_000_000, 10_000_000, 100_000_000)
SCAN = "SELECT sum(src), sum(dst), max(ts) FROM made"

STATEMENTS = {
    "CREATE TABLE AS": "CREATE TABLE made AS SELECT * FROM 'file'",
    "full scan": SCAN,
    "COPY": "COPY edge FROM 'file'",
    "DELETE of 1 %": "DELETE FROM made WHERE src % 100 = 7",
    "full scan after the DELETE": SCAN,
    "count(*) after the DELETE": "SELECT count(*) FROM made",
    "one row after the DELETE": "SELECT * FROM made WHERE src = 12345 LIMIT 1",
    "UPDATE of 1 %": "UPDATE edge SET ts = ts + INTERVAL '1 second' WHERE dst % 100 = 7",
}
"""The statements in execution order, all on one database, each in a separate process."""


def measure_linear(bench: Bench) -> Section:
    """Measure the seconds of every statement at every size, in total and per million rows."""
    seen = {rows: _at(bench, rows) for rows in (bench.count(size) for size in SIZES)}
    heads = (
        "statement",
        *(f"{rows:,} rows" for rows in seen),
        *(f"s per M at {rows:,}" for rows in seen),
        "peak RSS at the last, MiB",
        "peak PSS, MiB",
    )
    lines = []
    for name in STATEMENTS:
        cells = {rows: found[name] for rows, found in seen.items()}
        *_, last = cells.values()
        lines.append(
            (
                name,
                *(f"{row['seconds']:.2f} s" for row in cells.values()),
                *(f"{row['seconds'] / rows * 1e6:.3f}" for rows, row in cells.items()),
                *memory_cells(last),
            )
        )
    told = "\n".join(f"{sql};" for sql in dict.fromkeys(STATEMENTS.values()))
    text = (
        f"```sql\n{EDGE};\n{told}\n```\n\nThe rows that go or change are spread over the whole file. Page cache warm, "
        "as far as it holds the files; a flat row of seconds per million means linear, a falling one a cost that is "
        "the same at every size.\n\n" + table(heads, lines)
    )
    return Section("Linear in rows", text)


def _at(bench: Bench, rows: int) -> dict[str, Figures]:
    """Measure the statements at one size. Each round starts with a new database."""
    file, database = edge_file(rows), bench.folder / "linear.snapdb"
    first, *_ = STATEMENTS

    def run(name: str) -> Figures:
        if name == first:
            bench.place(database.name)
            fresh("statement", database=database, sql=EDGE)
        return _statement(database, file, STATEMENTS[name])

    return turns(bench, {name: partial(run, name) for name in STATEMENTS})


def _statement(database: Path, file: Path, sql: str) -> Figures:
    reads = file if "'file'" in sql else database
    return fresh("statement", warm=[reads], database=database, sql=sql.replace("'file'", f"'{file}'"))

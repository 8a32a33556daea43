"""Loading a large Parquet file into a table, compared with `cp` and `sha256sum` of the same file."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from benchmarks.report import table
from benchmarks.storage_bench import Bench, Figures, Goal, Section, fresh, memory_cells, turns
from benchmarks.storage_data import edge_file

ROWS = 100_000_000
EDGE = "CREATE TABLE edge (src BIGINT, dst BIGINT, ts TIMESTAMP)"

CP = "cp + fsync + sha256sum"
COPY = "COPY edge FROM 'file'"
STATEMENTS = (COPY, "CREATE TABLE edge AS SELECT * FROM 'file'", "INSERT INTO edge SELECT src, dst, ts FROM 'file'")


def measure_copy(bench: Bench) -> Section:
    """Measure the seconds of each way to load the file, and of the copy that is the lower bound."""
    file = edge_file(bench.count(ROWS))
    loads = {sql: partial(_load, bench, file, sql) for sql in STATEMENTS}
    hashing = "sha256 by Python's hashlib alone"
    also = {hashing: lambda: fresh("hash_in_python", warm=[file], path=file)}
    seen = turns(bench, {CP: partial(_cp, bench, file), **loads, **also})
    speed = seen[CP]["seconds"] / seen[COPY]["seconds"]
    size = file.stat().st_size
    heads = ("what", "seconds", "rounds", "MB/s of the file", "speed against cp", "peak RSS, MiB", "peak PSS, MiB")
    rows = [_row(name, row, size, seen[CP]["seconds"]) for name, row in seen.items()]
    cp, synced, hashed = (seen[CP][part] for part in ("cp", "fsync", "sha256sum"))
    text = (
        f"A Parquet file of {bench.count(ROWS):,} rows (src BIGINT, dst BIGINT, ts TIMESTAMP; zstd, row groups of "
        f"122,880; {size / 1e6:,.0f} MB), read once before each run, into a fresh target on the same disk. snapdb "
        "syncs what it publishes, so the copy is synced too. COPY and SELECT * take the file's bytes as they are; "
        "the INSERT of named columns writes every row again.\n\n"
        + table(heads, rows)
        + f"\nOf the copy, `cp` took {cp:.2f} s, the fsync of file and folder {synced:.2f} s, `sha256sum` {hashed:.2f} "
        "s, one after another. `COPY` is measured without opening the database.\n"
    )
    goal = Goal("COPY of a Parquet file against cp + sha256sum", "≥ 80 % of the speed", f"{speed:.0%}", speed >= 0.8)
    return Section("COPY of a Parquet file", text, (goal,))


def _cp(bench: Bench, file: Path) -> Figures:
    target = bench.place("copy.parquet")
    return fresh("copy_file", warm=[file], source=file, target=target)


def _load(bench: Bench, file: Path, sql: str) -> Figures:
    database = bench.place("copy.snapdb")
    if not sql.startswith("CREATE"):
        fresh("statement", database=database, sql=EDGE)
    return fresh("statement", warm=[file], database=database, sql=sql.replace("'file'", f"'{file}'"))


def _row(name: str, row: Figures, size: int, baseline: float) -> tuple[str, ...]:
    seconds = row["seconds"]
    shown = name if name[0].islower() else f"`{name}`"
    return (
        shown,
        f"{seconds:.2f}",
        row["spread"],
        f"{size / 1e6 / seconds:,.0f}",
        f"{baseline / seconds:.2f}x",
        *memory_cells(row),
    )

"""The work of one process for the storage measurements: runs a function by name and prints its figures as JSON.

python -m benchmarks.storage_work statement '{"database": "shop.snapdb", "sql": "SELECT 1"}'
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

import duckdb

import snapdb
from benchmarks.storage_bench import Figures
from benchmarks.storage_ids import allot_keys, map_keys
from benchmarks.storage_writing import write_together
from snapdb.sql import parse


def append(database: str, rows: int) -> Figures:
    """Create a table `t` with one number column, and run this many single-row INSERTs, each a version and a segment."""
    with snapdb.connect(database) as db:
        db.execute("CREATE TABLE t (n BIGINT)")
        spent, used = [], []
        for number in range(rows):
            started, busy = time.perf_counter(), time.process_time()
            db.execute(f"INSERT INTO t VALUES ({number})")
            spent.append(time.perf_counter() - started)
            used.append(time.process_time() - busy)
    mean = sum(used) / rows
    return {
        "seconds": sum(spent),
        "median": median(spent),
        "slowest": max(spent),
        "cpu": mean,
        "cpu_median": median(used),
    }


def copy_file(source: str, target: str) -> Figures:
    """Run `cp`, fsync the copy and its folder, and run `sha256sum` on the copy."""
    times = [time.perf_counter()]
    subprocess.run(["cp", source, target], check=True)
    times.append(time.perf_counter())
    for path in (Path(target), Path(target).parent):
        descriptor = os.open(path, os.O_RDONLY)
        os.fsync(descriptor)
        os.close(descriptor)
    times.append(time.perf_counter())
    subprocess.run(["sha256sum", target], check=True, stdout=subprocess.DEVNULL)
    times.append(time.perf_counter())
    cp, synced, hashed = (stop - start for start, stop in pairwise(times))
    return {"seconds": times[-1] - times[0], "cp": cp, "fsync": synced, "sha256sum": hashed}


def hash_in_python(path: str) -> Figures:
    """Hash a file with hashlib's SHA-256 in blocks of 1 MiB."""
    started = time.perf_counter()
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return {"seconds": time.perf_counter() - started}


def open_often(database: str, times: int) -> Figures:
    """Repeatedly open the database and read the catalog for the first time, in this process."""
    spent = []
    for _ in range(times):
        started = time.perf_counter()
        db = snapdb.connect(database)
        db.names()
        spent.append(time.perf_counter() - started)
        db.close()
    return {"seconds": median(spent), "first": spent[0], "slowest": max(spent)}


def plain(sql: str) -> Figures:
    """Run a statement in DuckDB alone, in memory and with its default settings."""
    connection = duckdb.connect()
    started = time.perf_counter()
    rows = connection.execute(sql).fetchall()
    return {"seconds": time.perf_counter() - started, "result": str(rows)}


def select_often(database: str, sql: str, times: int) -> Figures:
    """Repeat a SELECT on one open database. The first run includes one-time reads."""
    spent = []
    with snapdb.connect(database) as db:
        for _ in range(times):
            started = time.perf_counter()
            rows = db.execute(sql).fetchall()
            spent.append(time.perf_counter() - started)
    return {"seconds": median(spent), "first": spent[0], "slowest": max(spent), "result": str(rows)}


def statement(database: str, sql: str) -> Figures:
    """Run one snapdb statement and read its whole result."""
    parse(sql)  # the first statement of a family builds its grammar, regardless of the number of rows
    with snapdb.connect(database) as db:
        started = time.perf_counter()
        rows = db.execute(sql).arrow().num_rows
        return {"seconds": time.perf_counter() - started, "rows": rows}


WORK: dict[str, Callable[..., Figures]] = {
    "allot_keys": allot_keys,
    "append": append,
    "copy_file": copy_file,
    "hash_in_python": hash_in_python,
    "map_keys": map_keys,
    "open_often": open_often,
    "plain": plain,
    "select_often": select_often,
    "statement": statement,
    "write_together": write_together,
}
"""Name → a function that accepts plain values and returns figures."""


def _own_rss() -> int:
    """Return this process's peak resident memory in bytes, including mapped files."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith("VmHWM:"))


def main(work: Mapping[str, Callable[..., Figures]] = WORK) -> None:
    """Run the work that the command line names."""
    name, given = sys.argv[1:]
    arguments: dict[str, Any] = json.loads(given)
    figures = work[name](**arguments)
    print(json.dumps({**figures, "own_rss": _own_rss()}))


if __name__ == "__main__":
    main()

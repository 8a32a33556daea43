"""Several processes that commit small rows to one table concurrently."""

from __future__ import annotations

import multiprocessing
import time
from dataclasses import dataclass
from multiprocessing.queues import Queue
from multiprocessing.synchronize import Barrier
from statistics import median, quantiles

import snapdb
from benchmarks.storage_bench import Figures
from snapdb.errors import SnapdbError


@dataclass(frozen=True, slots=True)
class _Written:
    """The results of one writer. Times are from the machine's shared monotonic clock."""

    started: float
    stopped: float
    spent: list[float]
    """The seconds of each successful commit, in order."""
    failed: list[str]
    """The messages of commits that failed with a retryable error. The writer continues without them."""


def write_together(database: str, insert: str, writers: int, commits: int) -> Figures:
    """Run `commits` INSERTs in each of several processes that start at the same time.

    Args:
        database: The path of the database.
        insert: A statement with placeholders {writer} and {number} for the process and its row.
        writers: The number of processes.
        commits: The number of INSERTs per process.
    """
    context = multiprocessing.get_context("spawn")
    barrier, results = context.Barrier(writers), context.Queue()
    processes = [
        context.Process(target=_write, args=(database, insert, writer, commits, barrier, results))
        for writer in range(writers)
    ]
    for process in processes:
        process.start()
    told = [results.get(timeout=3600) for _ in processes]
    for process in processes:
        process.join()
    seen = [one for one in told if isinstance(one, _Written)]
    if len(seen) < writers or not any(one.spent for one in seen):
        raise SystemExit(f"the writers failed: {[one for one in told if isinstance(one, str)]}")
    _check(database, seen, writers)
    return _figures(seen)


def _write(
    database: str, insert: str, writer: int, commits: int, barrier: Barrier, results: Queue[_Written | str]
) -> None:
    """Run one writer in its process, and send its results or its error."""
    try:
        results.put(_commits(database, insert, writer, commits, barrier))
    except Exception as error:
        barrier.abort()
        results.put(repr(error))


def _commits(database: str, insert: str, writer: int, commits: int, barrier: Barrier) -> _Written:
    """Connect, warm up with one commit, wait for the other writers, and write."""
    with snapdb.connect(database) as db:
        db.execute(insert.format(writer=writer, number=0))
        barrier.wait(timeout=600)
        started, spent, failed = time.monotonic(), [], []
        for number in range(1, commits + 1):
            began = time.perf_counter()
            try:
                db.execute(insert.format(writer=writer, number=number))
            except SnapdbError as error:
                if not error.retryable:
                    raise
                failed.append(str(error))
            else:
                spent.append(time.perf_counter() - began)
        return _Written(started, time.monotonic(), spent, failed)


def _check(database: str, seen: list[_Written], writers: int) -> None:
    """Check that the table contains every acknowledged commit and no other."""
    expected = writers + sum(len(one.spent) for one in seen)
    with snapdb.connect(database) as db:
        ((found,),) = db.execute("SELECT count(*) FROM t").fetchall()
    if found != expected:
        raise SystemExit(f"{expected} rows were acknowledged, but {found} are there")


def _figures(seen: list[_Written]) -> Figures:
    spent = [seconds for one in seen for seconds in one.spent]
    together = max(one.stopped for one in seen) - min(one.started for one in seen)
    tenth = max(1, len(spent) // len(seen) // 10)
    cuts = quantiles(spent, n=100, method="inclusive") if len(spent) > 1 else spent * 99
    return {
        "seconds": together,
        "rate": len(spent) / together,
        "slowest": max(spent),
        "p50": cuts[49],
        "p99": cuts[98],
        "first_tenth": median(s for one in seen for s in one.spent[:tenth]),
        "last_tenth": median(s for one in seen for s in one.spent[-tenth:]),
        "failed": sum(len(one.failed) for one in seen),
    }

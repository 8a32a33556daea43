"""Batches under a memory limit smaller than the graph, with topology and features on disk and a cold page cache.

    python -m benchmarks.refresh_disk '{"path": …}'

prints one line of JSON. Each strategy runs in a separate process and control group, whose memory includes page cache.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import snapdb
from benchmarks.memory_group import forget, memory_group
from benchmarks.refresh_loader import topology_of
from benchmarks.refresh_strategies import STRATEGIES, asked, define, full, linked, run_apart, stats_of
from snapdb.loading import Batch, BatchStream
from snapdb.types.sampling import Refresh

MOST = ("FBL", "FCR shared", "FCR shared, amplify 1", "OTF 15 % shared")
TWO = ("FBL", "FCR shared, amplify 1")
FRUGAL = ("env", "MALLOC_ARENA_MAX=2", "MALLOC_MMAP_THRESHOLD_=1048576", "MALLOC_TRIM_THRESHOLD_=1048576")
"""With these settings, the C library returns freed memory immediately. Otherwise, the memory used to build a cache
would not be available as page cache."""


@dataclass(frozen=True, slots=True)
class Case:
    """A sampler, and the memory limit of its batches."""

    fanouts: tuple[int, ...]
    limit: int
    """The memory limit of the group in MiB."""
    strategies: tuple[str, ...]
    warm: int
    """The number of unmeasured batches, during which the page cache reaches a steady state."""
    batches: int
    """The number of measured batches."""


CASES = (
    Case((10, 10), 1780, MOST, 24, 48),
    Case((10, 10), 1650, TWO, 24, 24),
    Case((10, 10), 1450, TWO, 24, 24),
    Case((10, 10), 1000, TWO, 24, 16),
    Case((15, 10, 5), 2000, TWO, 8, 8),
)
QUICK = (Case((10, 10), 1650, TWO, 2, 2),)
THREADS = 2


def disk_rows(*, quick: bool) -> list[dict[str, Any]]:
    """Return one row per case and strategy."""
    rows = []
    compiled = set()
    with linked("products") as path:
        for case in QUICK if quick else CASES:
            for strategy in STRATEGIES:
                if strategy.name in case.strategies:
                    row = {"fanouts": case.fanouts, "limit": case.limit, "strategy": strategy.name}
                    with snapdb.connect(path) as database:
                        sampler = define(database, strategy, case.fanouts)
                    wish = {"path": str(path), "sampler": sampler, "warm": case.warm, "batches": case.batches}
                    if (case.fanouts, strategy.name) not in compiled:  # compilation also uses memory
                        run_apart("refresh_disk", wish | {"batches": 0})
                        compiled.add((case.fanouts, strategy.name))
                    rows.append(row | _limited(path, wish, case.limit))
                    print(rows[-1], flush=True)
    return rows


def _limited(path: Path, wish: dict[str, Any], limit: int) -> dict[str, Any]:
    forget(path)
    with memory_group(limit << 20) as group:
        found, _ = run_apart("refresh_disk", wish, (*group.prefix, *FRUGAL))
        return {**found, "peak": group.peak}


def main() -> None:
    """Run the requested measurement: batches that start cold and fill the cache, then the measured batches."""
    wish = asked()
    path = Path(wish["path"])
    with (
        snapdb.connect(path, read_only=True) as database,
        database.stream(wish["sampler"], threads=THREADS, prefetch=THREADS) as stream,
    ):
        batches = iter(stream)
        for _ in range(THREADS):
            next(batches)
        row = _row(stream, batches, wish["warm"], wish["batches"]) if wish["batches"] else {}
        row["files"] = sum(file.stat().st_size for file in path.rglob("*.npy") if "edge_id" not in file.name)
    print(json.dumps(row))


def _row(stream: BatchStream, batches: Iterator[Batch], warm: int, count: int) -> dict[str, Any]:
    filling = full(stream)
    for _ in range(warm):
        next(batches)
    refresh = stream.spec.refresh
    measured = _measured(stream, batches, count)
    return {
        **measured,
        "filling": filling,
        "every": None if refresh is None else refresh.every,
        "refreshing": _at_once(refresh) * filling,
        "read_refreshing": _at_once(refresh) * measured["refilled"],
        "epoch": stream.batches,
        "batches": count,
        "topology": topology_of(stream),
    }


def _measured(stream: BatchStream, batches: Iterator[Batch], count: int) -> dict[str, Any]:
    """Return the seconds and the bytes read per batch, and the size and content of the cache."""
    before, stats, began, anonymous, edges = _read_bytes(), stats_of(stream), time.perf_counter(), 0, 0
    for _ in range(count):
        batch = next(batches)
        edges += sum(index.shape[1] for index in batch.edge_index.values())
        anonymous = max(anonymous, _anonymous())
    after = stats_of(stream)
    filled = after.bytes_filled - stats.bytes_filled
    return {
        "seconds": (time.perf_counter() - began) / count,
        "read": (_read_bytes() - before) / count,
        "edges": edges / count,
        "missed": (after.bytes_read - stats.bytes_read - filled) / count,
        "filled": filled / count,
        "refilled": after.bytes_filled / max(1, after.refills),
        "cache": after.bytes,
        "held": after.edges,
        "anonymous": anonymous,
    }


def _at_once(refresh: Refresh | None) -> float:
    """Return how many times all rows are redrawn per batch in addition to what is measured.

    OTF redraws some rows all the time, so its redraws are already measured.
    """
    if refresh is None or refresh.every is None or (refresh.strategy == "OTF" and not refresh.visited):
        return 0.0
    return 1 / refresh.every


def _read_bytes() -> int:
    """Return the bytes that this process has read from disks, as counted by the kernel."""
    return _number(Path("/proc/self/io"), "read_bytes:")


def _anonymous() -> int:
    """Return the bytes of anonymous memory."""
    return 1024 * _number(Path("/proc/self/status"), "RssAnon:")


def _number(path: Path, label: str) -> int:
    return next(int(line.split()[1]) for line in path.read_text().splitlines() if line.startswith(label))


if __name__ == "__main__":
    main()

"""The measured strategies, their databases, and a function that runs a measurement in a separate process."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import snapdb
from benchmarks.loading import database_of
from benchmarks.memory import TreeMemory
from snapdb.storage.catalog_db.connection import upgrade
from snapdb.storage.catalog_db.db_dir import CATALOG
from snapdb.types import CacheStats

HOME = Path(__file__).parent
BATCH = 1024
LOOK = 0.5
"""Seconds between memory samples."""
PATIENCE = 300.0
"""The maximum number of seconds until a cache is full."""


@dataclass(frozen=True, slots=True)
class Strategy:
    """A REFRESH clause, with or without a cache."""

    name: str
    clause: str
    place: Literal["", "MEMORY", "FILE"] = "MEMORY"
    """Where the cache is stored, or "" for no cache."""
    partial_fetch: bool = False
    """Whether a part of each fanout is drawn from the neighbours outside the row."""
    original: str = ""
    """The name of the strategy in GraphSnapShot's tables."""

    @property
    def word(self) -> str:
        """The strategy's name as an SQL identifier."""
        return "".join(c if c.isalnum() else "_" for c in self.name.lower())


FBL = Strategy("FBL", "FBL", "", original="FBL")

STRATEGIES = (
    FBL,
    Strategy("FBL, cached", "FBL"),
    Strategy("FCR", "FCR EVERY {every}", original="FCR"),
    Strategy("FCR shared", "FCR EVERY {every} SHARED", original="FCR-SC"),
    Strategy("FCR shared, amplify 1", "FCR EVERY {every} AMPLIFY 1 SHARED"),
    Strategy("OTF 15 %", "OTF 15 PERCENT EVERY {every}", original="OTF"),
    Strategy("OTF 15 % shared", "OTF 15 PERCENT EVERY {every} SHARED", original="OTF-SC"),
    Strategy(
        "OTF full, fetch 60 %",
        "OTF 100 PERCENT EVERY {every} FETCH 60 PERCENT",
        partial_fetch=True,
        original="PCF-FSCR",
    ),
    Strategy("OTF 15 %, fetch 60 %", "OTF 15 PERCENT EVERY {every} FETCH 60 PERCENT", partial_fetch=True),
    Strategy("OTF visited", "OTF 15 PERCENT EVERY {every} SCOPE VISITED", original="PSCR-FCF"),
    Strategy(
        "OTF visited, fetch 60 %",
        "OTF 15 PERCENT EVERY {every} FETCH 60 PERCENT SCOPE VISITED",
        partial_fetch=True,
        original="PCF-PSCR",
    ),
)


def define(
    database: snapdb.Database,
    strategy: Strategy,
    fanouts: Sequence[int],
    *,
    seeds: str = "train",
    every: int | None = None,
    batch: int = BATCH,
    room: str | None = None,
) -> str:
    """Create the strategy's sampler and its cache, and return the sampler's name.

    Args:
        database: The database.
        strategy: The strategy.
        fanouts: The fanouts.
        seeds: The SQL condition for nodes that are seeds.
        every: The period in batches, or None for AUTO.
        batch: The number of seeds per batch.
        room: The size of the cache, such as '200MB', or None for practically no limit.
    """
    name, counts = strategy.word, ", ".join(map(str, fanouts))
    clause = strategy.clause.format(every="AUTO" if every is None else f"{every} BATCHES")
    database.execute(f"""CREATE OR REPLACE SAMPLER {name} AS
      SAMPLE FROM whole SEEDS (SELECT id FROM node WHERE {seeds}) AS node FANOUT (edge IN => [{counts}])
      BATCH {batch} REPEATABLE (7) REFRESH {clause}""")
    if strategy.place:
        said = f" IN {strategy.place} '{room or '64GB'}'"
        database.execute(f"CREATE OR REPLACE CACHE {name}_rows ON SAMPLER {name}{said}")
    return name


def cache_of(stream: Any) -> Any:
    """Return the maintainer of the stream's cache, or None if there is no cache or no batch has been built yet."""
    return stream._workers.builder.cache._maintainer


def stats_of(stream: Any) -> CacheStats:
    """Return the cache statistics of the stream. Without a cache, all values are the defaults."""
    return CacheStats(**(stream.cache_stats() or {}))


def full(stream: Any) -> float:
    """Wait until the stream's cache has all of its rows, and return the seconds this took.

    Raises:
        TimeoutError: The cache is still not full after `PATIENCE` seconds.
    """
    began = time.perf_counter()
    while cache_of(stream) is not None and not 0 < (found := stats_of(stream)).rows <= found.filled:
        if time.perf_counter() - began > PATIENCE:
            raise TimeoutError(f"a cache has {found.filled} of {found.rows} rows after {PATIENCE:.0f} s")
        time.sleep(0.05)
    return time.perf_counter() - began


@contextmanager
def linked(size: str) -> Iterator[Path]:
    """Create a database of the graph for a block, in which it can be modified. It shares the original's data files."""
    kept = database_of(size)
    path = kept.with_name(f"{size}-{os.getpid()}.refresh.snapdb")
    shutil.rmtree(path, ignore_errors=True)
    shutil.copytree(kept, path, copy_function=_link, ignore=shutil.ignore_patterns("*.sqlite-*"))
    try:
        upgrade(path)
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


def _link(source: str, target: str) -> None:
    """Hard-link a file, or copy it if it is modified in place, like the catalog and lock files."""
    if Path(source).name.startswith(CATALOG) or source.endswith(".lock"):
        shutil.copy2(source, target)
    else:
        os.link(source, target)


def asked() -> dict[str, Any]:
    """Return the request in this process's argument."""
    wish: dict[str, Any] = json.loads(sys.argv[1])
    return wish


def run_apart(module: str, wish: dict[str, Any], prefix: Sequence[str] = ()) -> tuple[Any, int]:
    """Run a benchmark module in a separate process and return its result and its peak memory in bytes.

    The result is the last line that the process prints. The process prints its progress to this process's stderr.

    Args:
        module: The name of the module.
        wish: The request.
        prefix: Words before the command, such as a shell that first enters a control group.

    Raises:
        SystemExit: The process failed.
    """
    command = [*prefix, sys.executable, "-m", f"benchmarks.{module}", json.dumps(wish)]
    started = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=HOME.parent)
    with TreeMemory(started.pid, every=LOOK) as memory:
        out, _ = started.communicate()
    if started.returncode != 0:
        raise SystemExit(f"benchmarks.{module} ended with {started.returncode}")
    return json.loads(out.splitlines()[-1]), memory.pss

"""The strategies that are measured, the databases they are measured in, and how a measurement is run apart."""

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
"""Seconds between looks at memory."""
PATIENCE = 300.0
"""Seconds in which a cache must be full."""


@dataclass(frozen=True, slots=True)
class Strategy:
    """A REFRESH clause, with a cache or without."""

    name: str
    clause: str
    place: Literal["", "MEMORY", "FILE"] = "MEMORY"
    """Where the cache is; "": there is none."""
    partial_fetch: bool = False
    """A part of each fanout is drawn from the other neighbours."""
    original: str = ""
    """What GraphSnapShot's tables call it."""

    @property
    def word(self) -> str:
        """Its name as SQL takes it."""
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
    """Creates the strategy's sampler and its cache, and answers the sampler's name.

    Args:
        seeds: Which nodes are.
        every: Batches of a period; None: AUTO.
        room: What the cache may take, e.g. '200MB'; None: anything.
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
    """What keeps the stream's cache; None: it has none, or made no batch yet."""
    return stream._workers.builder.cache._maintainer


def stats_of(stream: Any) -> CacheStats:
    """How far the stream's cache is; a stream without one has read nothing from one."""
    return CacheStats(**(stream.cache_stats() or {}))


def full(stream: Any) -> float:
    """Waits until the stream's cache holds all that it is to hold; how many seconds that took.

    Raises:
        TimeoutError: it does not get there.
    """
    began = time.perf_counter()
    while cache_of(stream) is not None and not 0 < (found := stats_of(stream)).rows <= found.filled:
        if time.perf_counter() - began > PATIENCE:
            raise TimeoutError(f"a cache has {found.filled} of {found.rows} rows after {PATIENCE:.0f} s")
        time.sleep(0.05)
    return time.perf_counter() - began


@contextmanager
def linked(size: str) -> Iterator[Path]:
    """A database of the graph for the block, which may define what it likes: the files of data are the kept one's."""
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
    """What is written in place is copied: the catalog, and locks."""
    if Path(source).name.startswith(CATALOG) or source.endswith(".lock"):
        shutil.copy2(source, target)
    else:
        os.link(source, target)


def asked() -> dict[str, Any]:
    """What this process was started for."""
    wish: dict[str, Any] = json.loads(sys.argv[1])
    return wish


def run_apart(module: str, wish: dict[str, Any], prefix: Sequence[str] = ()) -> tuple[Any, int]:
    """What a module of the benchmarks answers in a process of its own, and the most memory that it took, in bytes.

    The answer is the last line that it prints; how far it is it says on the error stream, which is this process's.

    Args:
        prefix: Words before the command, such as those of a shell that goes into a control group first.

    Raises:
        SystemExit: the process failed.
    """
    command = [*prefix, sys.executable, "-m", f"benchmarks.{module}", json.dumps(wish)]
    started = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=HOME.parent)
    with TreeMemory(started.pid, every=LOOK) as memory:
        out, _ = started.communicate()
    if started.returncode != 0:
        raise SystemExit(f"benchmarks.{module} ended with {started.returncode}")
    return json.loads(out.splitlines()[-1]), memory.pss

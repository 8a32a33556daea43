"""Batches whose features exceed memory: mapped files, torch's memmap, rows in memory, and packs.

    python -m benchmarks.out_of_core [--rounds 2] [--only 1,2,loading]

writes OUT_OF_CORE.md. The results of parts that are not measured come from earlier runs. Each measurement runs in its
own process and control group (cgroup v1, root), in which the pages of files count. The pages of the database are
dropped before. Variants take turns, so that all of them see the same machine.
"""

from __future__ import annotations

import argparse
import json
import mmap
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from itertools import islice
from pathlib import Path
from statistics import fmean, median, stdev
from typing import Any

import numpy as np
import torch

import snapdb
from benchmarks.graphs import DATA
from benchmarks.loading import database_of
from benchmarks.machine import describe_machine
from benchmarks.memory_group import forget, memory_group
from benchmarks.out_of_core_loading import measured as loading
from benchmarks.refresh_disk import FRUGAL
from benchmarks.refresh_strategies import asked, run_apart
from benchmarks.report import table
from snapdb.loading import Batch
from snapdb.train import GraphSAGE, fit

PAGE = Path(__file__).with_name("OUT_OF_CORE.md")
MIB = 2**20
THREADS = 2
SIZE = "ooc"


@dataclass(frozen=True, slots=True)
class Variant:
    """A way to read features."""

    name: str
    cache: str | None
    """The clauses of CREATE CACHE, or None for no cache."""
    warm: int
    """The batches before the measured ones,"""
    batches: int
    """and the measured ones."""
    peer: bool = False
    """Whether torch reads the rows from a memory map of the feature file."""
    model: bool = False
    """Whether a GraphSAGE is trained on the batches."""


@dataclass(frozen=True, slots=True)
class Case:
    """Fanouts and a memory limit, with the variants that are measured under it."""

    fanouts: tuple[int, ...]
    limit: int
    """MiB of the whole group."""
    variants: tuple[Variant, ...]
    changed: bool = False
    """Whether a refresh of the snapshot has changed 1 % of the feature rows."""

    @property
    def title(self) -> str:
        """The heading of the case's table."""
        after = ", after a refresh of 1 % of the rows" if self.changed else ""
        return f"Fanouts {', '.join(map(str, self.fanouts))} under {self.limit:,} MiB{after}"


MAPPED = Variant("mapped files", None, 10, 14)
TORCH = Variant("torch.from_numpy(np.memmap), MADV_RANDOM", None, 6, 8, peer=True)


def _two_hops(limit: int, room: str) -> Case:
    return Case(
        (10, 10),
        limit,
        (
            MAPPED,
            TORCH,
            Variant(f"IN MEMORY '{room}'", f"FEATURES IN MEMORY '{room}'", 50, 40),
            Variant(f"IN MEMORY '{room}' SPILL '2GB'", f"FEATURES IN MEMORY '{room}' SPILL '2GB'", 60, 260),
            Variant(f"IN MEMORY '{room}' SPILL '4GB'", f"FEATURES IN MEMORY '{room}' SPILL '4GB'", 60, 400),
        ),
    )


CASES = (
    _two_hops(1700, "600MB"),
    _two_hops(1450, "400MB"),
    _two_hops(2500, "1350MB"),
    Case(
        (15, 10, 5),
        2400,
        (
            replace(MAPPED, warm=3, batches=4),
            replace(TORCH, warm=2, batches=2),
            Variant("IN MEMORY '700MB'", "FEATURES IN MEMORY '700MB'", 12, 10),
            Variant("IN MEMORY '700MB' SPILL '3GB'", "FEATURES IN MEMORY '700MB' SPILL '3GB'", 12, 50),
            Variant("IN MEMORY '700MB' SPILL '6GB'", "FEATURES IN MEMORY '700MB' SPILL '6GB'", 14, 80),
        ),
    ),
    Case(
        (10, 10),
        2000,
        (
            Variant("mapped files, GraphSAGE", None, 4, 60, model=True),
            Variant(
                "IN MEMORY '600MB' SPILL '4GB', GraphSAGE, one epoch",
                "FEATURES IN MEMORY '600MB' SPILL '4GB'",
                0,
                977,
                model=True,
            ),
        ),
    ),
    Case(
        (10, 10),
        1700,
        (
            MAPPED,
            Variant("IN MEMORY '600MB'", "FEATURES IN MEMORY '600MB'", 50, 40),
            Variant("IN MEMORY '600MB' SPILL '4GB'", "FEATURES IN MEMORY '600MB' SPILL '4GB'", 60, 400),
        ),
        changed=True,
    ),
)
"""The last case changes the database, so it comes last."""
PARTS = (*(str(number) for number in range(1, len(CASES) + 1)), "loading", "accuracy")
RESULTS = DATA / "out_of_core.json"
"""The newest results of each part."""

CHANGE = """
UPDATE node SET x = list_transform(x, lambda v: v + 1)::FLOAT[128] WHERE id % 100 = 0;
REFRESH SNAPSHOT whole;
"""


def measured(case: Case, rounds: int) -> list[dict[str, Any]]:
    """Return a row per variant: medians over the rounds."""
    path = database_of(SIZE)
    if case.changed:
        with snapdb.connect(path) as database:
            database.script(CHANGE)
    found: dict[str, list[dict[str, Any]]] = {variant.name: [] for variant in case.variants}
    for turn in range(rounds):
        for variant in case.variants:
            wish = {"path": str(path), "fanouts": case.fanouts, **asdict(variant)}
            if turn == 0:  # compiles kernels, which takes memory too
                define(path, case.fanouts, variant.cache and f"{variant.cache} WITH (when = 'always')")
                run_apart("out_of_core", wish | {"warm": 1 if variant.cache is None else 40, "batches": 1})
            define(path, case.fanouts, variant.cache)
            forget(path)
            with memory_group(case.limit * MIB) as group:
                one, _ = run_apart("out_of_core", wish, (*group.prefix, *FRUGAL))
                found[variant.name].append({**one, "peak": group.peak})
            print(case.fanouts, case.limit, variant.name, found[variant.name][-1], flush=True)
    estimates, rows = dict(foretold(case)), []
    for variant in case.variants:
        turns = found[variant.name]
        middle = {name: median(turn[name] for turn in turns) for name in turns[0] if name != "stats"}
        common = {"title": case.title, "variant": variant.name, "estimates": estimates.get(variant.name)}
        rows.append({**common, **middle, "stats": turns[-1]["stats"]})
    return rows


def define(path: Path, fanouts: tuple[int, ...], cache: str | None) -> None:
    """Create the samplers with and without features, and the cache of the former."""
    counts = ", ".join(map(str, fanouts))
    with snapdb.connect(path) as database:
        graphs = {row[0] for row in database.execute("SELECT name FROM snapdb.graphs").fetchall()}
        if "bare" not in graphs:
            database.script("""
                CREATE PROPERTY GRAPH bare VERTEX TABLES (node KEY (id))
                  EDGE TABLES (edge SOURCE KEY (src) REFERENCES node (id) DESTINATION KEY (dst) REFERENCES node (id));
                CREATE SNAPSHOT bare_whole OF bare;
            """)
        for name, snapshot in (("full", "whole"), ("plain", "bare_whole")):
            database.execute(f"""CREATE OR REPLACE SAMPLER {name} AS SAMPLE FROM {snapshot}
              SEEDS (SELECT id FROM node WHERE train) AS node
              FANOUT (edge IN => [{counts}]) BATCH 1024 REPEATABLE (7)""")
        kept = {row[0] for row in database.execute("SELECT name FROM snapdb.caches").fetchall()}
        for name in kept:
            database.execute(f"DROP CACHE {name}")
        if cache is not None:
            database.execute(f"CREATE CACHE near ON SAMPLER full {cache}")


def main() -> None:
    """Measure one variant in this process and print a line of JSON."""
    wish = asked()
    path = Path(wish["path"])
    with (
        snapdb.connect(path, read_only=True) as database,
        database.stream("plain" if wish["peer"] else "full", threads=THREADS, prefetch=THREADS) as stream,
    ):
        read = _torch_rows(path) if wish["peer"] else _rows
        batches = iter(stream)
        started = time.perf_counter()
        for _ in range(wish["warm"]):
            read(next(batches))
        ready = time.perf_counter() - started
        before, clock, busy = _counted(), time.perf_counter(), time.process_time()
        segments = _Segments(stream)
        waits = _Waits(islice(batches, wish["batches"]), segments.note)
        if wish["model"]:
            fit(GraphSAGE(features=128, classes=40, hidden=128, layers=2), waits, epochs=1)
            rows = 0
        else:
            rows = sum(map(read, waits))
        seconds, worked, count = time.perf_counter() - clock, time.process_time() - busy, wish["batches"]
        after = _counted()
        found = {
            "seconds": seconds / count,
            "processor": worked / count,
            "read": (after["read_bytes"] - before["read_bytes"]) / count,
            "written": (after["write_bytes"] - before["write_bytes"]) / count,
            "rows": rows / count,
            "waits": waits.seconds / seconds,
            "warm_seconds": ready,
            "epoch": stream.batches,
            "stats": dict(stream.cache_stats("FEATURES") or {}),
            **segments.rates(),
        }
    print(json.dumps(found))


class _Waits:
    """Batches, with the time for which the loop waits for them."""

    def __init__(self, batches: Iterator[Batch], note: Callable[[], None]) -> None:
        self._batches, self._note, self.seconds = batches, note, 0.0

    def __iter__(self) -> Iterator[Batch]:
        while True:
            began = time.perf_counter()
            batch = next(self._batches, None)
            self.seconds += time.perf_counter() - began
            if batch is None:
                return
            self._note()
            yield batch


class _Segments:
    """The bytes read and written per batch over whole segments, by /proc/self/io."""

    def __init__(self, stream: snapdb.BatchStream) -> None:
        self._stream = stream
        self._ends: list[tuple[int, dict[str, int]]] = []
        """The number of packed batches and the counts at the end of each segment."""
        self._seen = 0

    def note(self) -> None:
        """Record the counts if a segment has been packed since the last call."""
        stats = self._stream.cache_stats("FEATURES") or {}
        if stats.get("segments", 0) > self._seen:
            self._seen = stats["segments"]
            self._ends.append((stats["batches"], _counted()))

    def rates(self) -> dict[str, float]:
        """Return the bytes per batch, which are 0 if fewer than two segments ended."""
        # The first segment is shorter than the others, and its sweep also fills the rows in memory.
        ends = self._ends[1:]
        batches = ends[-1][0] - ends[0][0] if len(ends) > 1 else 0
        if not batches:
            return {"segment_read": 0.0, "segment_written": 0.0}
        read, written = (ends[-1][1][name] - ends[0][1][name] for name in ("read_bytes", "write_bytes"))
        return {"segment_read": read / batches, "segment_written": written / batches}


def _rows(batch: Batch) -> int:
    return len(batch.features["node"]["x"])


def _torch_rows(path: Path) -> Callable[[Batch], int]:
    """Return a function that reads a batch's rows as a user of PyG would: from a tensor over a memory map."""
    (file,) = path.rglob("feature-x.npy")
    array: Any = np.load(file, mmap_mode="r", allow_pickle=False)
    array._mmap.madvise(mmap.MADV_RANDOM)
    with warnings.catch_warnings(action="ignore"):  # the tensor is read-only
        features = torch.from_numpy(array)
    return lambda batch: len(features[batch.n_id["node"]])


def _counted() -> dict[str, int]:
    lines = Path("/proc/self/io").read_text().splitlines()
    return {name: int(count) for name, _, count in (line.partition(": ") for line in lines)}


def foretold(case: Case) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield what EXPLAIN estimates for each variant with a cache."""
    path = database_of(SIZE)
    for variant in case.variants:
        if variant.cache is not None:
            define(path, case.fanouts, f"{variant.cache} WITH (when = 'always')")
            with snapdb.connect(path, read_only=True) as database:
                (tree,) = (row[0] for row in database.execute("EXPLAIN (FORMAT json) SAMPLE USING full").fetchall())
            yield variant.name, _cache_node(json.loads(tree))["estimates"]


def _cache_node(node: Any) -> dict[str, Any]:
    if isinstance(node, dict):
        if node.get("operator") == "Cache":
            return node
        node = list(node.values())
    found = [_cache_node(part) for part in node] if isinstance(node, list) else []
    return next((part for part in found if part), {})


def report(rows: list[dict[str, Any]], commits: str) -> str:
    """Return the page."""
    machine = "\n".join(f"- {name}: {value}" for name, value in describe_machine().items())
    parts = [
        "# Features larger than memory\n",
        f"Generated by `python -m benchmarks.out_of_core`, parts {commits}. The graph `{SIZE}` of "
        "benchmarks/graphs.py has 10 million nodes, 150 million edges, 128 float32 per node (5.12 GB), 1 million "
        "training seeds, and batches of "
        "1,024. Two threads build batches without a model. The limit includes the process, the topology (0.68 GB), "
        "caches and the pages of files. Variants take turns; values are medians over the rounds. *Speed* and *CPU* "
        "are ratios to mapped files. *Warm* is the time of the batches before the measured ones, in which a cache is "
        "filled. *Loop waits* is the share of an epoch's time for which training waits for batches.\n",
        machine + "\n",
    ]
    for title in dict.fromkeys(row["title"] for row in rows):
        some = [row for row in rows if row["title"] == title]
        base = next((row for row in some if row["variant"].startswith(MAPPED.name)), some[0])
        parts.append(f"## {title}\n")
        heads = (
            *("variant", "ms per batch", "speed", "MB read", "MB written", "CPU ms", "CPU"),
            *("peak MiB", "warm, s", "cold rows", "batches per segment", "loop waits"),
        )
        parts.append(table(heads, [_line(row, base) for row in some]))
    return "\n".join(parts)


def _line(row: dict[str, Any], base: dict[str, Any]) -> tuple[str, ...]:
    stats = row["stats"]
    segment = f"{stats['batches'] / stats['segments']:.0f}" if stats.get("segments") else ""
    read = stats.get("hits", 0) + stats.get("misses", 0)
    cold = f"{stats['misses'] / read * row['rows']:,.0f}" if read else ""
    return (
        row["variant"],
        f"{1000 * row['seconds']:,.0f}",
        f"{base['seconds'] / row['seconds']:.1f}x",
        f"{row['read'] / 1e6:.1f}",
        f"{row['written'] / 1e6:.1f}",
        f"{1000 * row['processor']:,.0f}",
        f"{row['processor'] / base['processor']:.2f}x",
        f"{row['peak'] / MIB:,.0f}",
        f"{row['warm_seconds']:.1f}",
        cold,
        segment,
        f"{row['waits']:.0%}" if "GraphSAGE" in row["variant"] else "",
    )


def estimated(rows: list[dict[str, Any]]) -> str:
    """Return a table of what EXPLAIN estimates and what /proc/self/io counts, for packs over whole segments."""
    lines = []
    for row in rows:
        if (numbers := row["estimates"]) is None:
            continue
        packs = "SPILL" in row["variant"]
        read, written = (row[f"segment_{name}" if packs else name] for name in ("read", "written"))
        estimates = (numbers["batch_read"], numbers["batch_written"])
        ratio = f"{read / estimates[0]:.2f}" if read else ""
        counted = (f"{read / 1e6:.1f}", ratio, f"{written / 1e6:.1f}") if read else ("", "", "")
        lines.append(
            (
                row["title"],
                row["variant"],
                f"{estimates[0] / 1e6:.1f}",
                *counted[:2],
                f"{estimates[1] / 1e6:.1f}",
                counted[2],
            )
        )
    heads = ("case", "cache", "MB read", "counted", "ratio", "MB written", "counted")
    return table(heads, lines)


def accuracy(scores: list[dict[str, Any]]) -> str:
    """Return the section on models that are trained with features stored as int8."""
    found: dict[tuple[str, str, str], list[float]] = {}
    for row in scores:
        found.setdefault((row["graph"], row["metric"], row["stored"]), []).append(100 * row["score"])
    lines = [(*key, f"{fmean(some):.2f}", f"{stdev(some):.2f}", str(len(some))) for key, some in found.items()]
    heads = ("graph", "metric", "features", "score", "standard deviation", "seeds")
    return "\n## STORED int8\n\nGraphSAGE with the same batches and seeds; scores in percent.\n\n" + table(heads, lines)


def run() -> None:
    """Measure the parts, keep their results, and write the page from the newest results of all parts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--only", default=",".join(PARTS), help=f"the parts to measure: {', '.join(PARTS)}")
    options = parser.parse_args()
    for part in options.only.split(","):
        if part.isdecimal():
            result: Any = measured(CASES[int(part) - 1], options.rounds)
        else:
            result = loading() if part == "loading" else run_apart("stored_accuracy", {"seeds": 5})[0]
        kept = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
        kept[part] = {"result": result, "commit": describe_machine()["commit"], "rounds": options.rounds}
        RESULTS.write_text(json.dumps(kept))
    kept = json.loads(RESULTS.read_text())
    rows = [row for part in PARTS if part.isdecimal() and part in kept for row in kept[part]["result"]]
    commits = ", ".join(
        f"{part} at {kept[part]['commit']} ({kept[part]['rounds']} round{'s' * (kept[part]['rounds'] > 1)})"
        for part in PARTS
        if part in kept
    )
    page = report(rows, commits) + "\n## What EXPLAIN estimates\n\n" + estimated(rows)
    page += kept["loading"]["result"] if "loading" in kept else ""
    page += accuracy(kept["accuracy"]["result"]) if "accuracy" in kept else ""
    PAGE.write_text(page)
    print(page)


if __name__ == "__main__":
    if len(sys.argv) > 1 and sys.argv[1].startswith("{"):
        main()
    else:
        run()

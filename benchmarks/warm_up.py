"""Measure a stream's first batches and the huge pages of a snapshot's arrays, and write the warm-up part of RESULTS.md.

    python -m benchmarks.warm_up [--sizes arxiv products]

A stream is opened twice in one process. A topology file is written, mapped and read twice: with the page cache as the
write leaves it, and after its pages were dropped and read again, which is the state after a build.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

import snapdb
from benchmarks.graphs import SIZES
from benchmarks.loading import database_of
from benchmarks.report import machine_table, table
from benchmarks.results import write_results
from snapdb.storage.array_files import ArrayFile, drop_cached_pages, prefer_huge_pages

FIRST = 15
"""The number of first batches."""
QUERY = """SAMPLE FROM whole SEEDS (SELECT id FROM node WHERE train) AS node
  FANOUT (edge IN => [15, 10, 5]) BATCH 1024 REPEATABLE (7)"""
_MIB = 1 << 20


def main() -> None:
    """Measure every size in a separate process and write the report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", nargs="+", choices=sorted(SIZES), default=["arxiv", "products"])
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        print(json.dumps(_measured(options.measure)))
        return
    figures = {}
    for size in options.sizes:
        database_of(size)
        command = [sys.executable, "-m", "benchmarks.warm_up", "--measure", size]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
        figures[size] = json.loads(done.stdout)
    print(f"wrote {write_results('warm_up', _report(figures))}")


def _measured(size: str) -> dict[str, Any]:
    with snapdb.connect(database_of(size), read_only=True) as db:
        streams = [_stream(db) for _ in range(2)]
    return {"streams": streams, "pages": list(_pages(size))}


def _stream(db: snapdb.Database) -> dict[str, Any]:
    """Return the system seconds of each of the first batches, and the time per batch after them."""
    system, first = _system(), []
    with db.stream(QUERY, threads=2) as stream:
        batches = iter(stream)
        for _ in islice(batches, FIRST):
            first.append(_system() - system)
            system = _system()
        began, after = time.perf_counter(), sum(1 for _ in islice(batches, 4 * FIRST))
        return {"first": first, "later": (_system() - system) / after, "clock": (time.perf_counter() - began) / after}


def _system() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_stime


def _pages(size: str) -> Iterator[dict[str, Any]]:
    """Map the neighbours after a write and after dropping their pages. Yield bytes, huge-page bytes, read time."""
    source = max(database_of(size).rglob("indices.npy"), key=lambda path: path.stat().st_size)
    with tempfile.TemporaryDirectory(dir=source.parent.parent) as folder:
        path = Path(folder) / "indices.npy"
        for dropped in (False, True):
            if dropped:
                drop_cached_pages(path)
            else:
                values = np.load(source, mmap_mode="r")
                with ArrayFile(path, values.dtype, values.size) as file:
                    file.append(values)
                subprocess.run(["sync", str(path)], check=True)
            array = np.load(path, mmap_mode="r")
            prefer_huge_pages(array)
            step = 4096 // array.itemsize
            pages = np.random.default_rng(1).permutation(array.size // step)  # in random order, as sampling reads them
            int(array.view(np.ndarray)[step * pages].sum())
            yield {"bytes": array.nbytes, "huge": _huge(path), "read": _read(array)}
            del array


def _huge(path: Path) -> int:
    """Return the bytes of the file that this process maps with huge pages."""
    inside, total = False, 0
    for line in Path("/proc/self/smaps").read_text().splitlines():
        if "-" in line.partition(" ")[0]:
            inside = line.endswith(str(path))
        elif inside and line.startswith("FilePmdMapped:"):
            total += 1024 * int(line.split()[1])
    return total


def _read(array: Any) -> float:
    """Return the nanoseconds of a read at a random position, measured over many concurrent reads."""
    places = np.random.default_rng(0).integers(0, array.size, 4_000_000)
    plain, spent = array.view(np.ndarray), []
    for _ in range(3):
        began = time.perf_counter()
        plain.take(places)
        spent.append((time.perf_counter() - began) / places.size)
    return 1e9 * min(spent)


def _report(figures: dict[str, Any]) -> str:
    pages, streams = [], []
    for size, measured in figures.items():
        for label, each in zip(("as the write leaves it", "dropped and read anew"), measured["pages"], strict=True):
            share = f"{each['huge'] / _MIB:,.0f} of {each['bytes'] / _MIB:,.0f}"
            pages.append((size, label, share, f"{each['huge'] / each['bytes']:.0%}", f"{each['read']:.1f}"))
        for label, each in zip(("first", "second"), measured["streams"], strict=True):
            worst = " ".join(f"{1e3 * seconds:.0f}" for seconds in each["first"])
            mean = f"{1e3 * sum(each['first']) / FIRST:.0f}"
            streams.append((size, label, worst, mean, f"{1e3 * each['later']:.1f}", f"{1e3 * each['clock']:.1f}"))
    heads = (
        "graph",
        "stream",
        f"system ms of the first {FIRST} batches",
        "mean",
        "system ms later",
        "ms a batch later",
    )
    return "\n".join(
        [
            "## The first batches, and huge pages\n",
            "Neighbours of the topology, mapped in huge pages of 2 MiB where the kernel keeps the file in them:\n",
            table(("graph", "page cache", "MiB in huge pages", "share", "ns a random read"), pages),
            "Two streams of a database, one after the other, on two threads; fanouts 15, 10, 5, batch 1,024. The first "
            "touches each of its blocks once, which in a virtual machine also takes memory from the host. The second "
            "finds the blocks:\n",
            table(heads, streams),
            "### Where and when\n",
            machine_table(),
        ]
    )


if __name__ == "__main__":
    main()

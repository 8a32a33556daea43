"""Loading a graph whose features are five times the memory limit, beside `cp`.

    python -m benchmarks.out_of_core_loading

prints a Markdown section, which benchmarks.out_of_core includes in its page. The statements of a graph run in one
process within a control group, in which the pages of files count. The pages of the source files are dropped before.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import snapdb
from benchmarks.graphs import DATA, load_graph, write_parquet
from benchmarks.memory_group import forget, memory_group
from benchmarks.refresh_disk import FRUGAL
from benchmarks.refresh_strategies import asked, run_apart
from benchmarks.report import table

SIZE = "ooc"
SHARE = 5
"""The ratio of the features to the memory limit."""
MIB = 2**20

NODES = "CREATE TABLE node AS SELECT {key} AS id, x::FLOAT[{width}] AS x, label, train FROM '{nodes}'"
EDGES = "CREATE TABLE edge AS SELECT src, dst FROM '{edges}'"
VERTICES = "CREATE PROPERTY GRAPH bench VERTEX TABLES (node KEY (id) FEATURES (x) TARGET (label))"
LINKS = "EDGE TABLES (edge SOURCE KEY (src) REFERENCES node (id) DESTINATION KEY (dst) REFERENCES node (id))"
SNAPSHOT = "CREATE SNAPSHOT whole OF bench"
GRAPHS = {
    "integer keys in the order of the rows, 150M edges": ("id", [NODES, EDGES, f"{VERTICES} {LINKS}", SNAPSHOT]),
    "text keys in random order, no edges": ("'user' || (id * 48271 % 2147483647)", [NODES, VERTICES, SNAPSHOT]),
}


def measured() -> str:
    """Load the graphs and return the section."""
    graph = load_graph(SIZE)
    nodes, edges = write_parquet(graph, DATA / f"{SIZE}-1")
    features = graph.features.nbytes
    limit = features // SHARE
    rows = [("", f"cp of the Parquet files ({_gigabytes(nodes, edges)} GB)", *_copied(nodes, edges), "", "")]
    for name, (key, statements) in GRAPHS.items():
        wish = {"key": key, "width": graph.features.shape[1], "nodes": str(nodes), "edges": str(edges)}
        forget(nodes.parent)
        with memory_group(limit) as group:
            found, _ = run_apart("out_of_core_loading", wish | {"statements": statements}, (*group.prefix, *FRUGAL))
        for statement, seconds, anonymous, steps in found:
            per_gigabyte = f"{seconds / (features / 1e9):.1f}"
            rows.append((name, statement, f"{seconds:.0f}", per_gigabyte, f"{anonymous / MIB:,.0f}", f"{steps:,}"))
    heads = ("graph", "statement", "seconds", "seconds per GB of features", "peak anonymous MiB", "progress reports")
    return (
        f"\n## Loading under {limit // MIB:,} MiB\n\n"
        f"The features ({features / 1e9:.2f} GB) are {SHARE} times the limit. The rest of the limit is page cache.\n\n"
    ) + table(heads, rows)


def _copied(*paths: Path) -> tuple[str, str]:
    """Return the seconds that `cp` takes for these files, including the time until they are on the disk."""
    forget(paths[0].parent)
    folder = DATA / "copied"
    folder.mkdir()
    try:
        began = time.perf_counter()
        subprocess.run(["cp", *paths, folder], check=True)
        subprocess.run(["sync", *(folder / path.name for path in paths)], check=True)
        seconds = time.perf_counter() - began
    finally:
        shutil.rmtree(folder)
    return f"{seconds:.0f}", f"{seconds / float(_gigabytes(*paths)):.1f} per GB copied"


def _gigabytes(*paths: Path) -> str:
    return f"{sum(path.stat().st_size for path in paths) / 1e9:.2f}"


def main() -> None:
    """Run the statements in a new database, and print their names, seconds, memory and progress reports as JSON."""
    wish: dict[str, Any] = asked()
    path = DATA / f"loading-{os.getpid()}.snapdb"
    steps: list[str] = []
    found = []
    try:
        with snapdb.connect(path) as database:
            database.progress = lambda what, share: steps.append(what)
            for statement in wish.pop("statements"):
                steps.clear()
                began = time.perf_counter()
                with _Peak() as peak:
                    database.execute(statement.format(**wish))
                name = " ".join(statement.split()[:3])
                found.append((name, time.perf_counter() - began, peak.bytes, len(steps)))
                print(found[-1], file=sys.stderr, flush=True)
    finally:
        shutil.rmtree(path, ignore_errors=True)
    print(json.dumps(found))


class _Peak:
    """The peak anonymous memory of this process within a block, in bytes."""

    def __enter__(self) -> _Peak:
        self.bytes, self._done = 0, threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._done.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._done.wait(0.05):
            lines = Path("/proc/self/status").read_text().splitlines()
            (anonymous,) = (line.split()[1] for line in lines if line.startswith("RssAnon:"))
            self.bytes = max(self.bytes, 1024 * int(anonymous))


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main()
    else:
        print(measured())

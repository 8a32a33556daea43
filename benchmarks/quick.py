"""Measure ready batches once for `snapdb bench`, for snapdb and the requested peer, without changing RESULTS.md.

    python -m benchmarks.quick arxiv [pyg|dgl]

prints one line of JSON: a list with one object per system.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import shutil
import sys
from typing import Any

from benchmarks import ready_batches
from benchmarks.graphs import DATA, SIZES
from benchmarks.loading import database_of
from benchmarks.ready_batches import CORES, OURS, RUNNERS, Cell
from benchmarks.ready_report import Setting

FANOUTS = (15, 10, 5)
PEER = Setting(CORES, 1, keeping=True)
"""One worker process per core, and malloc retaining freed memory, which is usually a peer's fastest setting."""


def main() -> None:
    """Print the figures of each system. Progress is printed to stderr."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("size", choices=sorted(SIZES))
    parser.add_argument("against", nargs="?", choices=["pyg", "dgl"])
    parser.add_argument("--batches", type=int, default=8, help="at least so many are timed,")
    parser.add_argument("--seconds", type=float, default=3.0, help="and at least so long")
    options = parser.parse_args()
    systems = ["snapdb", options.against] if options.against else ["snapdb"]
    if missing := [system for system in systems if not RUNNERS[system][0].exists()]:
        sys.exit(f"{missing[0]} is not installed for the benchmarks; `make bench-peers` installs it")
    # snapdb does the same work as the system it is compared with: DGL's hops expand all nodes of the batch.
    layouts = {"snapdb": "BLOCKS" if options.against == "dgl" else "NODES"}
    shutil.rmtree(DATA / f"{options.size}.draft.snapdb", ignore_errors=True)  # left by an interrupted run
    with contextlib.redirect_stdout(sys.stderr):
        database_of(options.size)
        rows = [_figures(system, layouts.get(system, ""), options) for system in systems]
    print(json.dumps(rows))


def _figures(system: str, layout: str, options: argparse.Namespace) -> dict[str, Any]:
    cell, setting = Cell(system, "ready", False, layout), OURS if system == "snapdb" else PEER
    row = ready_batches._run(cell, options.size, FANOUTS, setting, 0, options)
    return {
        "system": system,
        "version": row.version,
        "graph": options.size,
        "batches_per_s": round(row.rate, 2),
        "batches_per_cpu_s": round(row.cpu_rate, 2),
        "nodes_per_batch": round(row.nodes),
        "edges_per_batch": round(row.edges),
        "memory_mb": round(row.memory / 1e6),
    }


if __name__ == "__main__":
    main()

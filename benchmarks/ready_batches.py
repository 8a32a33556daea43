"""Measure ready batches of snapdb, PyG and DGL in one run, and write the ready-batches part of RESULTS.md.

    python -m benchmarks.ready_batches [--sizes arxiv products] [--fanouts 15,10,5] [--rounds 4]

Peers are measured if `make bench-peers` has installed them. Each runs in a separate process and environment. First,
each peer tries its settings: the number of worker processes, the number of operator threads, and glibc's malloc either
with its defaults or configured to retain freed memory. Then all systems take turns in rounds, each peer with its
fastest setting. For every system, a figure is the best over the rounds, because other work on the machine slows some
rounds but speeds up none.

snapdb does the same work as the system it is compared with: against PyG, a hop expands only the new nodes, and against
DGL (LAYOUT BLOCKS), it expands every node of the batch.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.graphs import DATA, SIZES
from benchmarks.loading import database_of
from benchmarks.memory import TreeMemory
from benchmarks.peer import Asked, Figures
from benchmarks.ready_report import Row, Setting, ready_report
from benchmarks.results import write_results

HOME = Path(__file__).parent
BATCH = 1024
RAW = DATA / "ready_batches.json"
LOOK = 1.0
"""Seconds between memory samples."""

RUNNERS = {
    "snapdb": (Path(sys.executable), "benchmarks.ready_snapdb"),
    "pyg": (HOME / ".peers/pyg/bin/python", "benchmarks.peer_pyg"),
    "dgl": (HOME / ".peers/dgl/bin/python", "benchmarks.peer_dgl"),
    "graphbolt": (HOME / ".peers/dgl/bin/python", "benchmarks.peer_dgl"),
}
KEEPING = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(1 << 34), "MALLOC_TOP_PAD_": str(1 << 28)}
"""With these settings, glibc retains the memory that a batch frees and reuses it for the next batch."""

CORES = len(os.sched_getaffinity(0))
SETTINGS = tuple(
    Setting(workers, threads, keeping) for workers, threads in ((0, CORES), (CORES, 1)) for keeping in (False, True)
)
ALONE = Setting(0, 1, keeping=True)
"""The setting for sampling only: one thread and no workers."""
OURS_ALONE = Setting(0, 1, keeping=False)
"""The same for snapdb, which recycles its blocks itself. With malloc's defaults, these blocks are on huge pages."""
OURS = Setting(CORES, 1, keeping=False)


@dataclass(frozen=True, slots=True)
class Cell:
    """A measurement that each round repeats."""

    system: str
    mode: str
    edge_ids: bool
    layout: str
    narrow: bool = False
    """Whether ids are int32 and features are float16. PyG does not support such ids."""


def main() -> None:
    """Measure all cells in turns, store the figures and write the report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", nargs="+", choices=sorted(SIZES), default=["arxiv", "products"])
    parser.add_argument("--fanouts", nargs="+", default=["15,10,5"], help="nearest hop first")
    parser.add_argument("--rounds", type=int, default=4, help="turns of every measure")
    parser.add_argument("--batches", type=int, default=8, help="at least so many are timed,")
    parser.add_argument("--seconds", type=float, default=3.0, help="and at least so long")
    parser.add_argument("--edge-ids", action="store_true", help="measure batches whose edge ids are read too")
    parser.add_argument("--keep-tries", action="store_true", help="peers' settings are those of the last run")
    parser.add_argument("--report", action="store_true", help="write the report of the figures that are there")
    options = parser.parse_args()
    if not options.report:
        rows = [
            row for row in (json.loads(RAW.read_text()) if RAW.exists() else ()) if row["size"] not in options.sizes
        ]
        kept = RAW.with_suffix(".new.json")
        for row in _measured(options):
            rows.append(asdict(row))
            kept.write_text(json.dumps(rows))
        kept.replace(RAW)
    print(f"wrote {write_results('ready', ready_report([_row(row) for row in json.loads(RAW.read_text())]))}")


def _row(kept: dict[str, Any]) -> Row:
    """Return a stored measurement from its JSON values."""
    return Row(**kept | {"fanouts": tuple(kept["fanouts"]), "setting": Setting(**kept["setting"])})


def _measured(options: argparse.Namespace) -> Iterator[Row]:
    fanouts = [tuple(int(count) for count in text.split(",")) for text in options.fanouts]
    peers = [name for name, (python, _) in RUNNERS.items() if name != "snapdb" and python.exists()]
    for size in options.sizes:
        database_of(size)
        database_of(size, "float16")
        best = {}
        for peer in peers:
            tries = _tried(peer, size) if options.keep_tries else list(_tries(peer, size, fanouts[0], options))
            yield from tries
            best[peer] = max(tries, key=lambda row: row.rate).setting
        for turn in range(options.rounds):
            for counts in fanouts:
                for threads in (1, CORES):
                    yield _floor(size, threads, counts, turn)
                for cell in _cells(peers, options.edge_ids):
                    alone = OURS_ALONE if cell.system == "snapdb" else ALONE
                    setting = alone if cell.mode == "sample" else best.get(cell.system, OURS)
                    yield _run(cell, size, counts, setting, turn, options)


def _tried(peer: str, size: str) -> list[Row]:
    """Return the settings that the last run measured for a peer."""
    rows = map(_row, json.loads(RAW.read_text()))
    return [row for row in rows if (row.system, row.size) == (peer, size) and row.turn < 0]


def _tries(peer: str, size: str, fanouts: tuple[int, ...], options: argparse.Namespace) -> Iterator[Row]:
    """Measure the settings of a peer, without those that fail because their processes need too much memory."""
    for setting in SETTINGS:
        try:
            yield _run(Cell(peer, "ready", False, ""), size, fanouts, setting, -1, options)
        except SystemExit as failed:
            print(f"{size} {peer} {setting} failed: {str(failed).strip().splitlines()[-1]}", flush=True)


def _cells(peers: Sequence[str], edge_ids_too: bool) -> Iterator[Cell]:
    for mode, edge_ids in (("ready", False), *([("ready", True)] * edge_ids_too), ("sample", False)):
        for layout in ("NODES", "BLOCKS"):
            yield Cell("snapdb", mode, edge_ids, layout)
        for peer in peers:
            yield Cell(peer, mode, edge_ids, "")
    yield Cell("snapdb", "ready", False, "NODES", narrow=True)
    yield Cell("snapdb", "ready", False, "BLOCKS", narrow=True)
    for peer in peers:
        if peer != "pyg":
            yield Cell(peer, "ready", False, "", narrow=True)


def _run(
    cell: Cell, size: str, fanouts: tuple[int, ...], setting: Setting, turn: int, options: argparse.Namespace
) -> Row:
    python, module = RUNNERS[cell.system]
    wish = Asked(
        **asdict(cell),
        graph=str(DATA / f"{size}-1"),
        database=str(database_of(size, "float16" if cell.narrow else "float32")),
        fanouts=fanouts,
        batch=BATCH,
        workers=setting.workers,
        threads=setting.threads,
        batches=options.batches,
        seconds=options.seconds,
    )
    figures, memory = _process([python, "-m", module, json.dumps(asdict(wish))], KEEPING if setting.keeping else {})
    row = Row(
        size,
        fanouts,
        turn,
        setting,
        memory,
        width=(2 if cell.narrow else 4) * SIZES[size].features,
        **asdict(cell),
        **asdict(figures),
    )
    what = f"{cell.mode}{' ids' if cell.edge_ids else ''}{' narrow' if cell.narrow else ''} {cell.layout}"
    print(
        f"{size} {fanouts} {cell.system} {what} {setting}: {row.rate:.2f} batches/s, {row.cpu_rate:.2f} a CPU second",
        flush=True,
    )
    return row


def _floor(size: str, threads: int, fanouts: tuple[int, ...], turn: int) -> Row:
    """Return the bytes per second read from random positions, as a row whose `seconds` are the time per byte."""
    count = 4 * SIZES[size].features * SIZES[size].nodes
    command = [sys.executable, "-m", "benchmarks.floor", str(count), str(threads)]
    rate = float(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, cwd=HOME.parent).stdout)
    setting, figures = Setting(threads, 1, keeping=False), Figures(1, 1 / rate, threads / rate, 0, 0, 0, "")
    cell = Cell("floor", "floor", False, "")
    return Row(size, fanouts, turn, setting, 0, width=0, **asdict(cell), **asdict(figures))


def _process(command: Sequence[Any], environment: dict[str, str]) -> tuple[Figures, int]:
    """Return the figures that a runner prints, and the peak memory of the runner and its workers."""
    started = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=HOME.parent,
        env=os.environ | environment,
    )
    with TreeMemory(started.pid, every=LOOK) as memory:
        out, errors = started.communicate()
    if started.returncode != 0:
        raise SystemExit(f"{' '.join(map(str, command))} ended with {started.returncode}:\n{errors}")
    return Figures(**json.loads(out.splitlines()[-1])), memory.pss


if __name__ == "__main__":
    main()

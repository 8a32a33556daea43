"""Measure the cost of a fresh process and of kernel compilation, and write the cold-start part of RESULTS.md.

    python -m benchmarks.cold_start [--runs 5]

Every figure is the minimum over several processes. Time is CPU time (user and system), which depends less on other
work on the machine than wall-clock time does. Memory is peak resident memory. An earlier process compiles Python's
bytecode.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from benchmarks.report import machine_table, table
from benchmarks.results import write_results

SESSION = """
CREATE TABLE customer AS
  SELECT 'C' || range AS cid, range % 3 AS segment, [range % 7, range % 11]::FLOAT[2] AS profile FROM range(500);
CREATE TABLE product AS SELECT 'P' || range AS pid FROM range(40);
CREATE TABLE bought AS
  SELECT 'C' || hash(range) % 500 AS cid, 'P' || hash(range + 1) % 40 AS pid,
         TIMESTAMP '2026-01-01' + INTERVAL 20 MINUTE * range AS ts, 1 + range % 4 AS qty
  FROM range(20_000);
CREATE PROPERTY GRAPH shop
  VERTEX TABLES (customer KEY (cid) FEATURES (profile AS x) TARGET (segment AS y), product KEY (pid))
  EDGE TABLES (bought SOURCE KEY (cid) REFERENCES customer DESTINATION KEY (pid) REFERENCES product
               EVENT TIME (ts) FEATURES (qty AS edge_attr));
CREATE SNAPSHOT june OF shop FOR EVENT_TIME AS OF DATE '2026-06-30';
CREATE SNAPSHOT summer OF shop FOR EVENT_TIME FROM DATE '2026-06-01' TO DATE '2026-09-01' WHERE bought.qty > 1;
SAMPLE FROM june SEEDS (SELECT cid FROM customer WHERE cid IN ('C0', 'C3')) AS customer
  FANOUT (bought OUT => [2, 0], bought IN => [0, 2]) REPEATABLE (42);
UPDATE bought SET qty = qty + 1 WHERE pid = 'P0';
CREATE SNAPSHOT month OF shop FOR EVENT_TIME WINDOW INTERVAL '30 days';
INSERT INTO bought SELECT 'C' || range, 'P7', TIMESTAMP '2026-10-12' + INTERVAL 1 DAY, 1 FROM range(50);
REFRESH SNAPSHOT month;
DIFF SNAPSHOT month WITH june;
SUMMARIZE SNAPSHOT june;
CREATE SAMPLER train AS SAMPLE FROM june SEEDS (SELECT cid FROM customer) AS customer
  FANOUT (bought OUT => [10, 5], bought IN => [10, 5]) BATCH 128 REPEATABLE (42);
EXPLAIN SAMPLE USING train BATCH 64;
CREATE SAMPLER steady AS SAMPLE USING train REFRESH OTF 15 PERCENT EVERY AUTO SHARED;
CREATE CACHE near ON SAMPLER steady IN MEMORY '64MB';
EXPLAIN SAMPLE USING steady;
"""
"""Tables, snapshots, a refresh, samplers and their plans, followed by an epoch of batches (`_STREAM`)."""
_STREAM = """
with snapdb.connect("shop.snapdb") as db:
    for batch in db.stream("train"):
        batch.ids("product")
"""
_RUN = f"import snapdb\nwith snapdb.connect('shop.snapdb') as db:\n    db.script({SESSION!r})\n{_STREAM}"
_BATCH = "import snapdb\nwith snapdb.connect('shop.snapdb') as db:\n    next(iter(db.stream('train')))\n"
_DUCKDB = "import duckdb\nduckdb.connect('shop.duckdb').sql('SELECT 1').fetchall()\n"
# A child process inherits the peak memory of its parent, so processes are started by a small launcher.
_LAUNCHER = """
import json, resource, subprocess, sys
subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL, check=True)
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(json.dumps([used.ru_utime + used.ru_stime, used.ru_maxrss]))
"""


class Cost(NamedTuple):
    """The cost of a process."""

    seconds: float
    """CPU time in seconds."""
    memory: int
    """Peak memory in bytes."""


def main() -> None:
    """Measure each case in separate processes and write the report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=5, help="processes for each figure; an empty cache takes three")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        print(f"wrote {write_results('cold_start', _report(_measured(Path(folder), options.runs)))}")


def _measured(folder: Path, runs: int) -> dict[str, Cost]:
    """Return the minimum cost of each case."""
    full, database = folder / "kernels", folder / "kept"
    _run(folder, full, ["-c", _RUN], database)
    _run(folder, full, ["-m", "snapdb_cli", "-c", "SELECT 1"], database)
    cases = {
        "`SELECT 1` in DuckDB, in Python": ["-c", _DUCKDB],
        '`snapdb -c "SELECT 1"`': ["-m", "snapdb_cli", "-c", "SELECT 1"],
        "`import torch`": ["-c", "import torch"],
        "the first batch, kernels cached": ["-c", _BATCH],
    }
    figures = {name: _least([_run(folder, full, case, database) for _ in range(runs)]) for name, case in cases.items()}
    for name, caches in (
        ("a session, kernels cached", [full] * runs),
        ("the same, no kernel cached", [folder / f"kernels-{number}" for number in range(min(runs, 3))]),
    ):
        figures[name] = _least([_run(folder, kernels, ["-c", _RUN], None) for kernels in caches])
    return figures


def _least(costs: list[Cost]) -> Cost:
    return Cost(min(cost.seconds for cost in costs), min(cost.memory for cost in costs))


def _run(folder: Path, kernels: Path, arguments: list[str], work: Path | None) -> Cost:
    """Run Python in `work`, or in a new folder if it is None, with the kernels and bytecode cached so far."""
    place = Path(tempfile.mkdtemp(dir=folder)) if work is None else work
    place.mkdir(exist_ok=True)
    launched = [sys.executable, "-S", "-c", _LAUNCHER, sys.executable, *arguments]
    done = subprocess.run(launched, cwd=place, env=_environment(folder, kernels), stdout=subprocess.PIPE, check=True)
    seconds, kilobytes = json.loads(done.stdout)
    return Cost(seconds, kilobytes << 10)


def _environment(folder: Path, kernels: Path) -> Mapping[str, str]:
    places = [str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
    changed = {
        "NUMBA_CACHE_DIR": str(kernels),
        "PYTHONPYCACHEPREFIX": str(folder / "bytecode"),
        "PYTHONPATH": os.pathsep.join(filter(None, places)),
    }
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**kept, **changed}


def _report(figures: dict[str, Cost]) -> str:
    rows = [(name, f"{cost.seconds:.2f}", f"{cost.memory / 1e6:,.0f}") for name, cost in figures.items()]
    return "\n".join(
        [
            "## A cold start\n",
            "Processor seconds and peak memory of a fresh process. The session creates tables and snapshots, refreshes "
            "one, samples, explains two samplers and streams an epoch:\n",
            table(("process", "processor s", "peak MB"), rows),
            "### Where and when\n",
            machine_table(),
        ]
    )


if __name__ == "__main__":
    main()

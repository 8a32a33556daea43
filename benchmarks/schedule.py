"""Run two daemons on a growing graph, kill the leader twice with SIGKILL, and write SCHEDULE.md.

    python -m benchmarks.schedule [--seconds 300] [--every 10] [--folder DIR]

Five processes use one database: a writer that adds edges twice a second, two `snapdb schedule run` daemons, a trainer
that follows a snapshot, and this program, which kills the leader. The report is generated from the database and the
daemons' logs.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from datetime import UTC
from itertools import pairwise
from pathlib import Path
from typing import Any

import snapdb
from benchmarks.report import machine_table, table

RESULTS = Path(__file__).parent / "SCHEDULE.md"
LOAD = """
    CREATE TABLE node AS SELECT range AS id, range % 7 AS team, [range % 5, range % 3]::FLOAT[2] AS x FROM range(20000);
    CREATE TABLE edge AS SELECT hash(range) % 20000 AS a, hash(range + 1) % 20000 AS b, range AS t FROM range(200000);
    CREATE PROPERTY GRAPH web VERTEX TABLES (node KEY (id) FEATURES (x AS x) TARGET (team AS y))
      EDGE TABLES (edge SOURCE KEY (a) REFERENCES node DESTINATION KEY (b) REFERENCES node EVENT TIME (t));
    CREATE SNAPSHOT now OF web;
    CREATE SAMPLER train AS SAMPLE FROM now SEEDS (SELECT id FROM node WHERE id < 4096) AS node
      FANOUT (DEFAULT => [10, 5]) BATCH 512;
    ALTER PROPERTY GRAPH web SET RETENTION (all '{kept} seconds', keep_tagged);
    CREATE TASK periodic SCHEDULE EVERY INTERVAL '{every} seconds' WITH (retries = 2, timeout = '1 minute')
      AS $$ CREATE SNAPSHOT s_{{date}}_{{time}} OF web; REFRESH SNAPSHOT now $$;
"""
GROW = "INSERT INTO edge SELECT hash(range * ?) % 20000, hash(range + ?) % 20000, ? FROM range(500)"


def main() -> None:
    """Start all processes, kill the leader twice, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--every", type=int, default=10)
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()))
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="snapdb-bench-", dir=options.folder) as folder:
        report = _watched(Path(folder), options.seconds, options.every)
    options.out.write_text(report)
    print(f"wrote {options.out}")


def _watched(folder: Path, seconds: float, every: int) -> str:
    path = folder / "web.snapdb"
    kept = max(2 * every, round(seconds / 5))
    with snapdb.connect(path) as db:
        db.script(LOAD.format(kept=kept, every=every))
    context = multiprocessing.get_context("spawn")
    stop, followed = context.Event(), context.Queue()
    grower = context.Process(target=_grow, args=(path, stop))
    trainer = context.Process(target=_train, args=(path, stop, followed))
    logs = [folder / f"daemon{i}.jsonl" for i in range(4)]
    daemons = [_daemon(path, logs[0])]
    _until(lambda: _events(logs[0], "leader.won"), 30)
    daemons.append(_daemon(path, logs[1]))
    grower.start()
    trainer.start()
    began, takeovers = time.time(), []
    for kill in (1, 2):
        time.sleep(max(0.0, began + seconds * kill / 3 - time.time()))
        takeovers.append(_killed(path, daemons))
        daemons.append(_daemon(path, logs[kill + 1]))
    time.sleep(max(0.0, began + seconds - time.time()))
    with snapdb.connect(path, read_only=True) as db:
        due = db.execute("SHOW SNAPSHOTS").rowcount
    for daemon in daemons:
        if daemon.poll() is None:
            daemon.send_signal(signal.SIGTERM)
    codes = [daemon.wait(30) for daemon in daemons]
    stop.set()
    epochs = followed.get(timeout=60)
    grower.join(30)
    trainer.join(30)
    return _report(path, every, kept, takeovers, epochs, codes, logs, due)


def _daemon(path: Path, log: Path) -> subprocess.Popen[bytes]:
    with log.open("ab") as stream:
        command = [sys.executable, "-m", "snapdb_cli", "schedule", "run", str(path), "--log-format", "json"]
        return subprocess.Popen(command, stderr=stream, stdin=subprocess.DEVNULL)


def _killed(path: Path, daemons: list[subprocess.Popen[bytes]]) -> float:
    """Kill the leading daemon and return the seconds until another daemon leads."""
    with snapdb.connect(path, read_only=True) as db:
        leader = _leader(db)
        process = next(daemon for daemon in daemons if daemon.pid == leader)
        process.kill()
        killed = time.monotonic()
        process.wait()
        _until(lambda: _leader(db) not in (None, leader), 60)
        return time.monotonic() - killed


def _leader(db: snapdb.Database) -> int | None:
    rows = db.execute("SELECT pid FROM snapdb.leader").fetchall()
    return rows[0][0] if rows else None


def _until(holds: Any, patience: float) -> None:
    deadline = time.monotonic() + patience
    while not holds():
        if time.monotonic() > deadline:
            raise TimeoutError("it did not come to that")
        time.sleep(0.05)


def _grow(path: Path, stop: Any) -> None:
    """Add 500 edges twice a second."""
    with snapdb.connect(path) as db:
        for number in range(1, 1_000_000):
            if stop.wait(0.5):
                return
            db.execute(GROW, [number, number, 200_000 + number]).fetchall()


def _train(path: Path, stop: Any, followed: Any) -> None:
    """Train one epoch per publication of `now`, and send the statistics of each epoch."""
    import torch  # noqa: PLC0415  # only in this process

    torch.manual_seed(0)
    model = torch.nn.Linear(2, 7)
    optimizer = torch.optim.Adam(model.parameters(), 0.01)
    seen: list[tuple[int, int, int, float]] = []
    with snapdb.connect(path, read_only=True) as db, db.stream("train", follow=True) as stream:
        published = db.wait_for("now")
        while not stop.is_set():
            edges, losses = 0, []
            for batch in stream:
                loss = torch.nn.functional.cross_entropy(
                    model(batch.only.x[: batch.only.batch_size]), batch.only.y.long()
                )
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                edges += batch.only.edge_index.shape[1]
                losses.append(float(loss.detach()))
            seen.append((stream.lineage["version"], len(losses), edges, sum(losses) / len(losses)))
            while not stop.is_set():
                try:
                    published = db.wait_for("now", newer_than=published, timeout=0.5)
                    break
                except TimeoutError:
                    continue
    followed.put(seen)


def _events(log: Path, event: str) -> list[dict[str, Any]]:
    if not log.exists():
        return []
    lines = [line for line in log.read_text().splitlines() if line.startswith("{")]
    return [found for found in map(json.loads, lines) if found.get("event") == event]


def _report(
    path: Path,
    every: int,
    kept: int,
    takeovers: list[float],
    epochs: list[tuple[int, int, int, float]],
    codes: list[int],
    logs: list[Path],
    standing: int,
) -> str:
    with snapdb.connect(path) as db:
        runs = db.execute("SELECT * FROM snapdb.task_runs ORDER BY scheduled, attempt").arrow().to_pylist()
        snapshots = [row["name"] for row in db.execute("SHOW SNAPSHOTS").arrow().to_pylist()]
        damage = db.execute("CHECK DATABASE").arrow().num_rows
    firings = sorted({run["scheduled"] for run in runs})
    gaps = [(b - a).total_seconds() for a, b in pairwise(firings)]
    ok = Counter(run["scheduled"] for run in runs if run["state"] == "ok")
    facts = [
        ("firings on record", len(firings)),
        (f"largest and smallest step between firings, s (planned: {every})", f"{max(gaps):g}, {min(gaps):g}"),
        ("of them: ended ok", len(ok)),
        ("ended ok more than once", sum(n > 1 for n in ok.values())),
        ("failed for good", len({r["scheduled"] for r in runs if r["state"] in ("failed", "timeout")} - set(ok))),
        ("missed by policy (catch_up none)", sum(run["state"] == "missed" for run in runs)),
        ("attempts beyond the first", sum(run["attempt"] > 1 for run in runs)),
        ("takeover after kill -9, s", ", ".join(f"{seconds:.1f}" for seconds in takeovers)),
        ("exit codes of the daemons (-9: killed, 0: SIGTERM)", ", ".join(map(str, codes))),
        (
            f"snapshots made; there when it ended (retention: all '{kept} seconds')",
            f"{len(ok)}; {standing - 1} and now",
        ),
        ("what CHECK DATABASE lists afterwards", damage),
        (
            "epochs of the trainer that followed, each on another version",
            f"{len(epochs)}, {len({e[0] for e in epochs})}",
        ),
    ]
    heads = ("run", "attempt", "scheduled", "started after, s", "took, s", "state", "error")
    said = (
        f"Two daemons, a writer (1,000 edges a second), a trainer that follows `now`, and a task every {every} "
        "seconds: `CREATE SNAPSHOT s_{date}_{time} OF web; REFRESH SNAPSHOT now`, `retries = 2`. The daemon that led "
        "was killed with -9 twice, and another started in its place as a standby.\n\n"
    )
    head = "# Tasks by the clock\n\nGenerated by `python -m benchmarks.schedule`; do not edit.\n\n"
    trained = [(v, n, f"{e:,}", f"{loss:.3f}") for v, n, e, loss in epochs]
    left = f"Snapshots that were left: {', '.join(sorted(snapshots))}.\n\n"
    return (
        f"{head}{said}{table(('what', 'measured'), [(a, str(b)) for a, b in facts])}\n## Runs\n\n"
        f"{table(heads, [_row(run) for run in runs])}\n{left}## The trainer\n\n"
        f"{table(('version', 'batches', 'edges sampled', 'mean loss'), [tuple(map(str, row)) for row in trained])}\n"
        f"## Machine\n\n{machine_table()}"
    )


def _row(run: dict[str, Any]) -> tuple[str, ...]:
    started, ended = run["started"], run["ended"]
    late = f"{(started - run['scheduled']).total_seconds():.2f}" if started else ""
    took = f"{(ended - started).total_seconds():.2f}" if started and ended else ""
    scheduled = run["scheduled"].astimezone(UTC).strftime("%H:%M:%S.%f")[:-4]
    return (str(run["run"]), str(run["attempt"]), scheduled, late, took, run["state"], run["error"] or "")


if __name__ == "__main__":
    main()

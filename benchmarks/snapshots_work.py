"""The work of one process for the snapshot measurements: runs a function by name and prints its figures as JSON.

python -m benchmarks.snapshots_work statements '{"database": "phone.snapdb", "statements": ["SHOW SNAPSHOTS"]}'
"""

from __future__ import annotations

import tempfile
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import snapdb
from benchmarks.snapshots_data import GRAPH, write_calls
from benchmarks.snapshots_topology import METHODS, Edges, warm_up_rows
from benchmarks.storage_bench import Figures
from benchmarks.storage_work import main

_WARM = """
CREATE TABLE person AS SELECT range AS id FROM range(2000);
CREATE TABLE called AS SELECT hash(range) % 2000 AS source, hash(-1 - range) % 2000 AS destination,
  TIMESTAMP '2025-01-01' + INTERVAL 1 HOUR * range AS ts, CAST(range % 100 AS SMALLINT) AS kind FROM range(8000);
{graph};
CREATE SNAPSHOT whole OF phone;
CREATE SNAPSHOT half OF phone FOR EVENT_TIME AS OF TIMESTAMP '2025-07-01' WITH (layout = 'ends');
CREATE SNAPSHOT some OF phone WITH (layout = 'bitmap') WHERE called.kind >= 20;
CREATE SNAPSHOT own OF phone WITH (layout = 'materialized') WHERE called.kind >= 20;
INSERT INTO called SELECT * REPLACE (ts + INTERVAL 1 YEAR AS ts) FROM called LIMIT 80;
REFRESH SNAPSHOT whole;
INSERT INTO called SELECT * FROM called LIMIT 80;
DELETE FROM called WHERE hash(ts) % 500 = 7;
REFRESH SNAPSHOT whole;
INSERT INTO called SELECT * FROM called LIMIT 2000;
"""
"""All of the following kinds of work on a few rows, so that kernels are compiled before anything is timed."""


def rows(method: str, file: str, edges: int, nodes: int) -> Figures:
    """Time sorting edges with dense ids into rows, with a method of `benchmarks.snapshots_topology`."""
    with tempfile.TemporaryDirectory(dir=Path(file).parent) as folder:
        warm_up_rows(method, Path(folder))
        began = time.perf_counter()
        METHODS[method](Edges(Path(file), edges, nodes), Path(folder))
        return {"seconds": time.perf_counter() - began}


def statements(database: str, statements: list[str], ready: bool = False) -> Figures:
    """Run statements one after another. Return their total seconds and the bytes that they added to topologies."""
    if ready:
        _warm_up()
    spent, before = [], _topology_bytes(database)
    with snapdb.connect(database) as db:
        for sql in statements:
            began = time.perf_counter()
            db.execute(sql).arrow()
            spent.append(time.perf_counter() - began)
    return {"seconds": sum(spent), "bytes": _topology_bytes(database) - before}


def first_batch(database: str, sql: str, sample: str, times: int) -> Figures:
    """Time a CREATE OR REPLACE SNAPSHOT and the first batch of a sample of it, in a warm process."""
    _warm_up()
    spent = []
    with snapdb.connect(database) as db:
        for _ in range(times):
            began = time.perf_counter()
            db.execute(sql).arrow()
            created = time.perf_counter()
            _take(db, sample)
            spent.append((time.perf_counter() - began, created - began))
        name, form, bytes_ = _shown(db)[-1]
    both, alone = zip(*spent, strict=True)
    found = {"snapshot": name, "form": form, "bytes": bytes_, "topology_bytes": _topology_bytes(database)}
    return {"seconds": median(both), "created": median(alone), "first": both[0], **found}


def year(database: str, snapshots: dict[str, str], kept: bool) -> Figures:
    """Time a CREATE SNAPSHOT for each name. Unless `kept` is true, each is dropped once its bytes are known."""
    _warm_up()
    total, seconds, forms = 0, 0.0, []
    with snapdb.connect(database) as db:
        for name, sql in snapshots.items():
            began = time.perf_counter()
            db.execute(sql).arrow()
            seconds += time.perf_counter() - began
            found = next(row for row in _shown(db) if row[0] == name)
            total += found[2]
            forms.append(found[1])
            if not kept:
                db.execute(f"DROP SNAPSHOT {name}")
    return {"seconds": seconds, "bytes": total, "forms": forms, "topology_bytes": _topology_bytes(database)}


def refresh(database: str, steps: dict[str, str], sample: str) -> Figures:
    """Time REFRESH of `whole` after each change, and the first batch of a sample of it."""
    _warm_up()
    told = {}
    with snapdb.connect(database) as db:
        _take(db, sample)
        for name, change in steps.items():
            db.execute(change).arrow()
            before, began = _topology_bytes(database), time.perf_counter()
            result = db.execute("REFRESH SNAPSHOT whole")
            result.arrow()
            done = time.perf_counter()
            _take(db, sample)
            told[name] = {
                "seconds": done - began,
                "with_batch": time.perf_counter() - began,
                "bytes": _topology_bytes(database) - before,
                "message": result.message,
            }
    return {"seconds": sum(step["seconds"] for step in told.values()), "steps": told}


def sampling(database: str, before: list[str], samples: list[str], rounds: int) -> Figures:
    """Compare two samples in alternating passes: the ratio of their times, and the seconds per batch."""
    _warm_up()
    with snapdb.connect(database) as db:
        for sql in before:
            db.execute(sql).arrow()
        streams = [db.stream(sample, threads=1) for sample in samples]
        if _sums(streams[0]) != _sums(streams[1]):
            raise SystemExit("the two snapshots deliver other batches")
        spent: list[list[tuple[float, float]]] = [[], []]
        for number in range(1, rounds + 1):
            for which in (0, 1) if number % 2 else (1, 0):
                spent[which].append(_pass(streams[which], number))
        clock, cpu = ([one[i] / other[i] for one, other in zip(*spent, strict=True)] for i in (0, 1))
        batches = len(streams[0])
        forms = {name: form for name, form, _ in _shown(db)}
        for stream in streams:
            stream.close()
    one, other = (median(seconds for seconds, _ in times) / batches for times in spent)
    ratios = {"ratio": median(clock), "ratios": clock, "cpu_ratio": median(cpu)}
    return {"seconds": one, "materialized": other, "forms": forms, **ratios}


def _warm_up() -> None:
    with snapdb.connect() as db:
        db.script(_WARM.format(graph=GRAPH))
        for snapshot in ("whole", "half", "some", "own"):
            for _ in range(2):
                fanouts = "FANOUT (called => [15, 10, 5]) BATCH 512"
                _take(db, f"SAMPLE FROM {snapshot} SEEDS (SELECT id FROM person WHERE id < 999) AS person {fanouts}")
                if snapshot == "whole":
                    db.execute("REFRESH SNAPSHOT whole")  # in the second iteration, the snapshot is merged


def _take(db: snapdb.Database, sample: str) -> None:
    """Read the first batch, except the user's own ids."""
    with db.stream(sample, threads=1) as stream:
        batch = next(iter(stream))
        if not sum(edges.shape[1] for edges in batch.edge_index.values()):
            raise SystemExit("a batch without an edge tells nothing")


def _sums(stream: Any) -> list[tuple[int, int]]:
    """Return, for each batch of the first epoch, the sum of its nodes and the sum of its edges' ends."""
    stream.set_epoch(0)
    return [(int(b.n_id["person"].sum()), sum(int(e.sum()) for e in b.edge_index.values())) for b in stream]


def _pass(stream: Any, epoch: int) -> tuple[float, float]:
    """Return the wall-clock seconds and the CPU seconds of an epoch."""
    stream.set_epoch(epoch)
    clock, cpu = time.perf_counter(), time.process_time()
    deque(stream, maxlen=0)
    return time.perf_counter() - clock, time.process_time() - cpu


def _shown(db: snapdb.Database) -> list[tuple[str, str, int]]:
    """Return the name, form and bytes of every snapshot in the order of creation."""
    found = db.execute("SHOW SNAPSHOTS").arrow().to_pylist()
    return [(row["name"], row["form"], row["bytes"]) for row in found]


def _topology_bytes(database: str) -> int:
    return sum(path.stat().st_size for path in (Path(database) / "topology").rglob("*.npy"))


WORK: dict[str, Callable[..., Figures]] = {
    "first_batch": first_batch,
    "refresh": refresh,
    "rows": rows,
    "sampling": sampling,
    "statements": statements,
    "write_calls": lambda edges, nodes, folder: write_calls(edges, nodes, Path(folder)),
    "year": year,
}
"""Name → a function that accepts plain values and returns figures."""


if __name__ == "__main__":
    main(WORK)

"""Train on a graph that grows: a daemon publishes its snapshot by the clock, and each publication is trained on.

    python examples/follow.py [--publications 4]   takes some ten seconds, most of which it waits
    python examples/follow.py --by-hand            without a daemon: who loads the edges refreshes the snapshot too

Three act here, each as if it knew nothing of the others. One thread loads new edges. A daemon, `snapdb schedule run` in
a process of its own, refreshes the snapshot every two seconds where something changed. The training loop reads a stream
that follows the snapshot: an epoch is of one publication, and the next one begins with the newest. The graph is made
up: 400 people of two clubs, who mostly meet their own, and of whom little is known before they have met somebody.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

import snapdb
from snapdb import train

MADE = """
CREATE TABLE person AS
  SELECT range AS id, range % 2 AS club, [(range % 2) + (hash(range) % 100) / 30.0, 1]::FLOAT[2] AS f FROM range(400);
CREATE TABLE met (a BIGINT, b BIGINT);
CREATE PROPERTY GRAPH town VERTEX TABLES (person KEY (id) FEATURES (f AS x) TARGET (club AS y))
  EDGE TABLES (met SOURCE KEY (a) REFERENCES person DESTINATION KEY (b) REFERENCES person);
CREATE SNAPSHOT now OF town;
CREATE SAMPLER people AS SAMPLE FROM now SEEDS (SELECT id FROM person WHERE id % 5 < 4) AS person
  FANOUT (met BOTH => [10, 10]) BATCH 32 REPEATABLE (1);
"""
MEET = """
INSERT INTO met SELECT a, (a + 2 * (hash(range * 3 + $day) % 50)) % 400
FROM (SELECT range, hash(range + 5 + $day * 1000) % 400 AS a FROM range(300)) MESSAGE 'a day more'
"""
TASK = """
CREATE TASK freshen SCHEDULE EVERY INTERVAL '2 seconds' WHEN (changed('town') > 0) AS REFRESH SNAPSHOT now
"""
TEST = "SELECT id FROM person WHERE id % 5 = 4"


def main(argv: Sequence[str] | None = None) -> dict[str, Any]:
    """Trains an epoch for each publication; answers the versions, how many edges each had, and the last accuracy."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--publications", type=int, default=4, help="how many are trained on")
    parser.add_argument("--by-hand", action="store_true", help="refresh the snapshot after each load, without a daemon")
    parser.add_argument("--patience", type=float, default=60.0, help="seconds to wait for a publication")
    options = parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "town.snapdb"
        with snapdb.connect(path) as db:
            db.script(MADE)
            first = db.wait_for("now")
            if not options.by_hand:
                db.execute(TASK)
            with fed(path, refresh=options.by_hand), daemon(None if options.by_hand else path):
                return follow(db, first, options.publications, options.patience)


def follow(db: snapdb.Database, empty: snapdb.Published, publications: int, patience: float) -> dict[str, Any]:
    """An epoch of each publication after the empty one."""
    model = train.GraphSAGE(features=2, classes=2, hidden=16)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    versions: list[int] = []
    edges: list[int] = []
    accuracy = 0.0
    seen = empty
    with (
        train.torch_threads(1),
        db.stream("people", follow=True) as stream,
        db.stream("people", seeds=TEST, follow=True) as tests,
    ):
        while len(versions) < publications:
            began = time.monotonic()
            db.wait_for("now", newer_than=seen, timeout=patience)
            waited = time.monotonic() - began
            for batch in stream:
                optimizer.zero_grad()
                torch.nn.functional.cross_entropy(model(batch), batch.y).backward()
                optimizer.step()
            assert stream.published is not None
            seen = stream.published
            tests.set_epoch(0)  # the same seeds in the same order, over what there is now
            accuracy = train.evaluate(model, tests, {"accuracy": train.accuracy})["accuracy"]
            versions.append(seen.version)
            edges += db.execute(f"SELECT count(*) FROM met AT (VERSION => {seen.version})").fetchall()[0]
            print(f"waited {waited:4.1f} s; version {seen.version}: {edges[-1]} edges, accuracy {accuracy:.3f}")
    return {"versions": versions, "edges": edges, "accuracy": accuracy}


@contextmanager
def fed(path: Path, *, refresh: bool) -> Iterator[None]:
    """People meet while the block runs."""
    over = threading.Event()

    def feed() -> None:
        with snapdb.connect(path) as db:
            day = 0
            while not over.wait(0.2 if refresh else 0.7):
                day += 1
                db.execute(MEET, {"day": day})
                if refresh:
                    db.execute("REFRESH SNAPSHOT now")

    feeding = threading.Thread(target=feed, name="feed")
    feeding.start()
    try:
        yield
    finally:
        over.set()
        feeding.join()


@contextmanager
def daemon(path: Path | None) -> Iterator[None]:
    """`snapdb schedule run` while the block runs; None: no daemon."""
    if path is None:
        yield
        return
    running = subprocess.Popen([sys.executable, "-m", "snapdb_cli", "schedule", "run", str(path)])
    try:
        yield
    finally:
        running.terminate()  # it finishes what it does, and says so
        running.wait()


if __name__ == "__main__":
    main()

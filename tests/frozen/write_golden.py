"""Writes the golden database: `python -m tests.frozen.write_golden`, by the commit whose files later ones must read.

It holds everything that the recorded surface holds, and what takes time or a process of its own: runs of tasks by hand
and by a daemon, loaded files, merged and dropped ones, reports of caches, a folder of batches. Beside it are states,
lineages and digests of streams. It is not written anew when the product changes; only another golden database may join.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import time
from itertools import islice
from pathlib import Path
from typing import Any

import snapdb
from snapdb import Database
from tests.frozen import catalog, stored, streams, world
from tests.frozen.prints import of_batches

GOLDEN = Path(__file__).resolve().parent / "golden"
PLACE = Path("/tmp/snapdb-golden")
"""Where it is written: lineages, tasks and loaded files hold this path."""
NAME = "golden.snapdb"
ARCHIVE = "golden.tar.xz"
BATCHES = "batches"
"""A folder of exported batches."""
BY_HAND = """
CREATE TABLE reading (at INTEGER, value DOUBLE);
CREATE TASK load SCHEDULE EVERY INTERVAL '1 day' AS COPY reading FROM 'in/*.csv' (NEW FILES ONLY);
CREATE TASK export SCHEDULE EVERY INTERVAL '1 day' AS COPY SNAPSHOT town_now TO 'out/{run}';
CREATE TASK broken SCHEDULE EVERY INTERVAL '1 day' WITH (retries = 1) AS $$
  INSERT INTO small VALUES ({run}); SELECT * FROM no_such_table
$$;
CREATE TASK slow SCHEDULE EVERY INTERVAL '1 day' WITH (timeout = '1 second')
  AS SELECT count(*) FROM range(100000000000) a, range(1000) b;
EXECUTE TASK load;
EXECUTE TASK load;
EXECUTE TASK export;
EXECUTE TASK steps;
EXECUTE TASK nightly;
DROP SNAPSHOT web_week;
CREATE OR REPLACE SNAPSHOT web_heavy OF web WHERE links.w > 2;
"""
BY_CLOCK = """
CREATE TASK ticking SCHEDULE EVERY INTERVAL '2 seconds' AS INSERT INTO small VALUES ({run});
CREATE TASK failing SCHEDULE EVERY INTERVAL '6 seconds' WITH (retries = 2) AS SELECT * FROM no_such_table;
"""


def fill(db: Database) -> None:
    """All that one process does."""
    world.fill(db)
    Path("in").mkdir()
    Path("out").mkdir()
    Path("in/a.csv").write_text("at,value\n1,0.5\n2,1.5\n")
    db.script(BY_HAND)
    for task in ("broken", "slow"):
        with contextlib.suppress(snapdb.SnapdbError):
            db.execute(f"EXECUTE TASK {task}")
    for number in range(12):
        db.execute(f"INSERT INTO small VALUES ({number})")
    db.execute("VACUUM").fetchall()


def by_clock(path: Path) -> None:
    """A daemon fires a task, is gone for a while, and fires it again: runs on schedule, and missed ones."""
    with snapdb.connect(path) as db:
        db.script(BY_CLOCK)
    for _ in range(2):
        command = [sys.executable, "-m", "snapdb_cli", "schedule", "run", str(path)]
        with subprocess.Popen(command) as daemon:
            time.sleep(9)
            daemon.send_signal(signal.SIGTERM)
        time.sleep(5)
    with snapdb.connect(path) as db:
        db.script("ALTER TASK ticking SUSPEND; ALTER TASK failing SUSPEND")


def expected(db: Database) -> dict[str, Any]:
    """Of each stream its lineage, its state in the middle of an epoch, and digests of what it gives."""
    found: dict[str, dict[str, Any]] = {}
    for name, query in streams.SEEN.items():
        with db.stream(query, threads=0) as stream:
            first = of_batches(stream, ids=True)
            taken = list(islice(stream, 2))
            state = stream.state_dict()
        with db.stream(query, threads=0) as stream:
            stream.load_state_dict(json.loads(json.dumps(state)))
            rest = of_batches(stream, ids=True)
        last = taken[-1]
        found[name] = {"query": query, "first": first, "state": state, "rest": rest}
        found[name] |= {"batch": last.index, "lineage": dict(last.lineage), "print": of_batches([last], ids=True)}
    return found


def main() -> None:
    """Write the archive and what stands beside it."""
    os.environ["SNAPDB_AUTHOR"] = "frozen"
    shutil.rmtree(PLACE, ignore_errors=True)
    PLACE.mkdir()
    os.chdir(PLACE)
    path = PLACE / NAME
    with snapdb.connect(path, threads=1) as db:
        fill(db)
    by_clock(path)
    with snapdb.connect(path, threads=1) as db:
        assert db.execute("CHECK DATABASE").fetchall() == []
        described = expected(db)
        db.execute(f"COPY (SAMPLE USING train) TO '{PLACE / BATCHES}'")
        lists = catalog.listed(db, catalog.LISTS, PLACE)
        exact = catalog.exactly(db)
    GOLDEN.mkdir(exist_ok=True)
    (GOLDEN / "streams.json").write_text(json.dumps(described, indent=1) + "\n")
    (GOLDEN / "lists.txt").write_text(lists)
    (GOLDEN / "exact.txt").write_text(exact)
    (GOLDEN / "fields.txt").write_text(stored.fields(path))
    with tarfile.open(GOLDEN / ARCHIVE, "w:xz", preset=9) as archive:
        for name in (NAME, BATCHES):
            archive.add(PLACE / name, name, filter=_plain)


def _plain(member: tarfile.TarInfo) -> tarfile.TarInfo:
    """A member without the names and numbers of this machine's users."""
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    return member


if __name__ == "__main__":
    main()

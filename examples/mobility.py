"""A snapshot for each of 836 days of travel between US states: made, read, sampled, compared and expired.

    python examples/mobility.py [--data ../shared/data] [--days 836]

All of them stand on one topology, sorted once. A day is a narrow window: it gets rows of its own, a few kilobytes each.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import snapdb

SHARED = os.environ.get("SNAPDB_DATA", str(Path(__file__).parents[2] / "shared" / "data"))

LOAD = """
CREATE TABLE state AS SELECT id, orig_id AS fips, features AS centroid FROM '{folder}/nodes.parquet';
CREATE TABLE flow AS SELECT src, dst, to_timestamp(ts)::DATE AS day, weight AS visitors FROM '{folder}/edges.parquet';
CREATE PROPERTY GRAPH mobility
  VERTEX TABLES (state KEY (id) FEATURES (centroid AS x))
  EDGE TABLES (flow SOURCE KEY (src) REFERENCES state DESTINATION KEY (dst) REFERENCES state
               EVENT TIME (day) WEIGHT (visitors));
"""

DAY = """
CREATE SNAPSHOT day_{i} OF mobility
  FOR EVENT_TIME FROM (DATE '2019-01-01' + {i}) TO (DATE '2019-01-01' + {end})
"""
READ = "SELECT count(*), sum(visitors), max(day) FROM day_{i}.flow"
SAMPLE = "SAMPLE FROM day_{i} SEEDS (SELECT id FROM day_{i}.state) AS state FANOUT (flow => [FULL]) BATCH 64"
COMPARE = "DIFF SNAPSHOT day_{i} WITH day_{before}"
EXPIRE = "EXPIRE SNAPSHOTS OF mobility RETAIN LAST {kept}"


def main(argv: Sequence[str] | None = None) -> dict[str, float]:
    """Makes the days and lets them go again; answers counts, bytes and seconds."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path(SHARED), help="folder that holds us-mobility-daily/")
    parser.add_argument("--days", type=int, default=836, help="how many days to take")
    parser.add_argument("--kept", type=int, default=7, help="how many snapshots to keep at the end")
    options = parser.parse_args(argv)
    folder = options.data / "us-mobility-daily"
    if not folder.exists():
        print(f"skipped: no data set at {folder}; pass --data", file=sys.stderr)
        return {}
    figures: dict[str, float] = {}
    with snapdb.connect() as db:
        db.script(LOAD.format(folder=folder))
        days = range(options.days)
        with timed(figures, "seconds: create"):
            for i in days:
                db.execute(DAY.format(i=i, end=i + 1))
        figures["bytes: topology"] = stored(db, "topology")
        figures["bytes: snapshots"] = stored(db, "snapshots")
        with timed(figures, "seconds: read by SQL"):
            read = [db.execute(READ.format(i=i)).fetchone() for i in days]
        with timed(figures, "seconds: sample"):
            sampled = [next(iter(db.stream(SAMPLE.format(i=i)))).only.edge_index.shape[1] for i in days]
        with timed(figures, "seconds: diff"):
            for i in days[1:]:
                added = db.execute(COMPARE.format(i=i, before=i - 1)).arrow()["added"].to_pylist()
                assert added == [0, sampled[i]], "all of a day's flows are that day's"
        with timed(figures, "seconds: expire"):
            gone = db.execute(EXPIRE.format(kept=options.kept)).arrow()["action"].to_pylist().count("expire")
        figures |= {"snapshots": len(days), "expired": gone, "bytes: snapshots kept": stored(db, "snapshots")}
    figures |= {"flows": sum(row[0] for row in read), "flows sampled": sum(sampled)}
    for name, figure in figures.items():
        print(f"{figure:>15,.2f}  {name}" if "seconds" in name else f"{figure:>15,}  {name}")
    return figures


def stored(db: snapdb.Database, folder: str) -> int:
    """The bytes of the files in one folder of the database."""
    return sum(file.stat().st_size for file in (db.path / folder).rglob("*") if file.is_file())


@contextmanager
def timed(figures: dict[str, float], name: str) -> Iterator[None]:
    """Note how long the block took."""
    started = time.perf_counter()
    yield
    figures[name] = time.perf_counter() - started


if __name__ == "__main__":
    main()

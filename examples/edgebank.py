"""Predict Wikipedia edits by memory alone (EdgeBank), reading the memory from snapshots.

    python examples/edgebank.py [--data ../shared/data]

The guess: a user edits a page again that he edited before. Every test event is scored beside the same user with a
random page; the score is 1 when the pair is in the bank. The bank is a snapshot of everything before the batch. Times
have ties, and a batch may end inside one, so the graph's event time is the event's number in the file: then
`AS OF n - 1` is exactly the first n events, and each snapshot is one offset a page instead of a copy of the graph.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

import snapdb
from snapdb.train import average_precision

SHARED = os.environ.get("SNAPDB_DATA", str(Path(__file__).parents[2] / "shared" / "data"))

LOAD = """
CREATE TABLE account AS SELECT id FROM '{folder}/nodes.parquet' WHERE type = 'user';
CREATE TABLE page AS SELECT id FROM '{folder}/nodes.parquet' WHERE type = 'page';
CREATE TABLE edit AS SELECT src, dst, ts, file_row_number AS n
  FROM read_parquet('{folder}/edges.parquet', file_row_number = true);
CREATE PROPERTY GRAPH wiki
  VERTEX TABLES (account KEY (id), page KEY (id))
  EDGE TABLES (edit SOURCE KEY (src) REFERENCES account (id) DESTINATION KEY (dst) REFERENCES page (id) EVENT TIME (n));
"""

FIRST_TEST = "SELECT count(*) FROM edit WHERE ts <= (SELECT quantile_cont(ts, 0.85) FROM edit)"

TRIALS = """
CREATE TABLE trial AS
  SELECT n, src, dst, 1 AS edited FROM edit WHERE n >= {first}
  UNION ALL
  SELECT n, src, 8228 + (hash(n) % 1000)::BIGINT, 0 FROM edit WHERE n >= {first}
"""

ADVANCE = "CREATE OR REPLACE SNAPSHOT bank OF wiki FOR EVENT_TIME AS OF {last}"

SCORE = """
SELECT edited, (src, dst) IN (SELECT (src, dst) FROM bank.edit) AS seen
  FROM trial WHERE n >= {n} AND n < {end}
"""


def main(argv: Sequence[str] | None = None) -> dict[str, float]:
    """Scores the test events twice: the AP with a bank that advances every batch, and with one that never does."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path(SHARED), help="folder that holds jodie-wikipedia/")
    parser.add_argument("--batch", type=int, default=200, help="test events between two snapshots")
    options = parser.parse_args(argv)
    folder = options.data / "jodie-wikipedia"
    if not folder.exists():
        print(f"skipped: no data set at {folder}; pass --data", file=sys.stderr)
        return {}
    with snapdb.connect() as db:
        for statement in LOAD.format(folder=folder).strip().split(";\n"):
            print(statement.strip())
            db.execute(statement)
        events, first = (db.execute(query).fetchall()[0][0] for query in ("SELECT count(*) FROM edit", FIRST_TEST))
        print(TRIALS.format(first=first).strip(), ADVANCE.format(last="…"), SCORE.strip(), sep="\n")
        db.execute(TRIALS.format(first=first))
        started = time.perf_counter()
        ap = precision(db, range(first, events, options.batch), events)
        seconds = time.perf_counter() - started
        static = precision(db, range(first, events, events), events)
    snapshots = len(range(first, events, options.batch))
    print(f"test AP {ap:.4f} with a snapshot every {options.batch} events ({snapshots} snapshots, {seconds:.1f} s)")
    print(f"test AP {static:.4f} with one snapshot, taken where the test events begin")
    return {"ap": ap, "ap_static": static, "snapshots": snapshots, "seconds": seconds}


def precision(db: snapdb.Database, starts: range, events: int) -> float:
    """The average precision over all trials, each batch scored by a bank of everything before it."""
    edited, seen = [], []
    for start in starts:
        db.execute(ADVANCE.format(last=start - 1))
        rows = db.execute(SCORE.format(n=start, end=min(start + starts.step, events))).arrow()
        edited.append(rows["edited"].to_numpy())
        seen.append(rows["seen"].to_numpy())
    return average_precision(np.concatenate(edited), np.concatenate(seen))


if __name__ == "__main__":
    main()

"""Sample a heterogeneous graph of questions, tags and users as it stood on a date, and check every sampled edge.

    python examples/askubuntu.py [--data ../shared/data]

The file counts milliseconds from the first tagged question; the example lays that moment on 2010-07-28, the site's
first day, to have dates to speak of. Two hops from questions walk both edge types in both directions. Then every
sampled edge is looked up in the Parquet file itself: it must be there, and no later than the snapshot's date.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

import snapdb

SHARED = os.environ.get("SNAPDB_DATA", str(Path(__file__).parents[2] / "shared" / "data"))
ORIGIN = "2010-07-28"

LOAD = """
CREATE TABLE question AS SELECT id FROM '{folder}/nodes.parquet' WHERE type = 'question';
CREATE TABLE tag AS SELECT id, name FROM '{folder}/nodes.parquet' WHERE type = 'tag';
CREATE TABLE member AS SELECT id FROM '{folder}/nodes.parquet' WHERE type = 'user';
CREATE TABLE has_tag AS SELECT src, dst, TIMESTAMP '{origin}' + to_milliseconds(ts) AS at_time
  FROM '{folder}/edges.parquet' WHERE type = 'has_tag';
CREATE TABLE participated AS SELECT src, dst, TIMESTAMP '{origin}' + to_milliseconds(ts) AS at_time
  FROM '{folder}/edges.parquet' WHERE type = 'participated';
CREATE PROPERTY GRAPH askubuntu
  VERTEX TABLES (question KEY (id), tag KEY (id), member KEY (id))
  EDGE TABLES (
    has_tag SOURCE KEY (src) REFERENCES question (id) DESTINATION KEY (dst) REFERENCES tag (id) EVENT TIME (at_time),
    participated SOURCE KEY (src) REFERENCES member (id) DESTINATION KEY (dst) REFERENCES question (id)
      EVENT TIME (at_time));
CREATE SNAPSHOT early OF askubuntu FOR EVENT_TIME AS OF TIMESTAMP '{date}';
"""

SAMPLE = """
SAMPLE FROM early SEEDS (SELECT DISTINCT src FROM early.has_tag WHERE src % 50 = 0) AS question
  FANOUT (has_tag BOTH => [5, 5], participated BOTH => [5, 5]) BATCH 512 REPEATABLE (1)
"""


def main(argv: Sequence[str] | None = None) -> dict[str, int]:
    """Samples once and checks the edges; answers the counts, or nothing when the data is absent."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path(SHARED), help="folder that holds askubuntu/")
    parser.add_argument("--date", default="2015-01-01", help="the day the snapshot stands at")
    options = parser.parse_args(argv)
    folder = options.data / "askubuntu"
    if not folder.exists():
        print(f"skipped: no data set at {folder}; pass --data", file=sys.stderr)
        return {}
    with snapdb.connect() as db:
        for statement in LOAD.format(folder=folder, origin=ORIGIN, date=options.date).strip().split(";\n"):
            print(statement.strip())
            db.execute(statement)
        print(SAMPLE.strip())
        counts = batch_counts(db)
        sampled = db.execute(SAMPLE).arrow()
    bad = strangers(sampled, pq.read_table(folder / "edges.parquet"), options.date)
    figures = {**counts, "sampled": len(sampled), "strangers": bad}
    for name, count in figures.items():
        print(f"{count:>9,}  {name}")
    print("strangers are sampled edges that the file does not hold, or only later: there must be none")
    return figures


def batch_counts(db: snapdb.Database) -> dict[str, int]:
    """Batches, and the nodes and edges of each type in them, from the stream of tensors."""
    counts: Counter[str] = Counter()
    for batch in db.stream(SAMPLE):
        counts["batches"] += 1
        counts.update({f"nodes: {kind}": len(ids) for kind, ids in batch.n_id.items()})
        counts.update({f"edges: {' '.join(key)}": index.shape[1] for key, index in batch.edge_index.items()})
    return dict(counts)


def strangers(sampled: pa.Table, file: pa.Table, date: str) -> int:
    """How many sampled edges are not that row of the file, or happened after `date`."""
    limit = int((np.datetime64(date, "ms") - np.datetime64(ORIGIN, "ms")).astype(np.int64))
    bad = 0
    for kind in ("has_tag", "participated"):
        rows = file.filter(pc.equal(file["type"].cast(pa.string()), kind))
        drawn = sampled.filter(pc.equal(sampled["type"], kind))
        there = rows.take(drawn["e_id"])  # an edge's id is its row number in the table that loaded it
        same = [drawn[a].to_numpy() == there[b].to_numpy() for a, b in (("source", "src"), ("destination", "dst"))]
        bad += int(np.sum(~(same[0] & same[1] & (there["ts"].to_numpy() <= limit))))
    return bad


if __name__ == "__main__":
    main()

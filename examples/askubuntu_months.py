"""A graph that grows month by month: each month is loaded as one version, tagged, refreshed into a snapshot, compared.

    python examples/askubuntu_months.py [--data ../shared/data]

REFRESH does work for the month that came, not for the years before; at the end the snapshot is built anew from the
tables, and must deliver the same batches.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import snapdb

SHARED = os.environ.get("SNAPDB_DATA", str(Path(__file__).parents[2] / "shared" / "data"))

STAGE = """
CREATE TABLE came AS SELECT type, src, dst, TIMESTAMP '2010-07-28' + to_milliseconds(ts) AS at_time,
    date_trunc('month', at_time)::DATE AS month FROM '{folder}/edges.parquet';
CREATE TABLE known AS SELECT n.id, n.type, n.name, coalesce(min(e.month), DATE '2010-07-01') AS month
    FROM '{folder}/nodes.parquet' n
    LEFT JOIN (SELECT src AS id, month FROM came UNION ALL SELECT dst, month FROM came) e USING (id) GROUP BY ALL;
CREATE TABLE question (id BIGINT);
CREATE TABLE tag (id BIGINT, name VARCHAR);
CREATE TABLE member (id BIGINT);
CREATE TABLE has_tag (src BIGINT, dst BIGINT, at_time TIMESTAMP);
CREATE TABLE participated (src BIGINT, dst BIGINT, at_time TIMESTAMP);
CREATE PROPERTY GRAPH askubuntu
  VERTEX TABLES (question KEY (id), tag KEY (id), member KEY (id))
  EDGE TABLES (
    has_tag SOURCE KEY (src) REFERENCES question DESTINATION KEY (dst) REFERENCES tag EVENT TIME (at_time),
    participated SOURCE KEY (src) REFERENCES member DESTINATION KEY (dst) REFERENCES question EVENT TIME (at_time));
CREATE SNAPSHOT now OF askubuntu;
"""

MONTH = """
BEGIN;
INSERT INTO question SELECT id FROM known WHERE type = 'question' AND month = DATE '{month}';
INSERT INTO tag SELECT id, name FROM known WHERE type = 'tag' AND month = DATE '{month}';
INSERT INTO member SELECT id FROM known WHERE type = 'user' AND month = DATE '{month}';
INSERT INTO has_tag SELECT src, dst, at_time FROM came WHERE type = 'has_tag' AND month = DATE '{month}';
INSERT INTO participated SELECT src, dst, at_time FROM came WHERE type = 'participated' AND month = DATE '{month}';
COMMIT MESSAGE 'askubuntu {month}';
CREATE TAG {tag}
"""

REFRESH = "REFRESH SNAPSHOT now"
COMPARE = "DIFF GRAPH askubuntu FROM TAG '{before}' TO TAG '{tag}'"
SAMPLE = """
SAMPLE FROM now SEEDS (SELECT id FROM now.question WHERE id % 100 = 0) AS question
  FANOUT (has_tag BOTH => [5, 5], participated BOTH => [5, 5]) BATCH 512 REPEATABLE (1)
"""


def main(argv: Sequence[str] | None = None) -> dict[str, float]:
    """Loads month after month; answers counts and seconds."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path(SHARED), help="folder that holds askubuntu/")
    parser.add_argument("--months", type=int, default=1000, help="how many months to load")
    options = parser.parse_args(argv)
    folder = options.data / "askubuntu"
    if not folder.exists():
        print(f"skipped: no data set at {folder}; pass --data", file=sys.stderr)
        return {}
    with snapdb.connect() as db:
        db.script(STAGE.format(folder=folder))
        months = [row[0] for row in db.execute("SELECT DISTINCT month FROM came ORDER BY month").fetchall()]
        seconds, before = 0.0, None
        print("month      questions      tags   members   has_tag particip. tags' degree refresh")
        for month in months[: options.months]:
            tag = f"m_{month:%Y_%m}"
            db.script(MONTH.format(month=month, tag=tag))
            started = time.perf_counter()
            db.execute(REFRESH)
            seconds += (taken := time.perf_counter() - started)
            if before is not None:
                report(db, str(month), COMPARE.format(before=before, tag=tag), taken)
            before = tag
        refreshed = batches(db)
        started = time.perf_counter()
        db.execute(f"{REFRESH} FULL")
        full = time.perf_counter() - started
        same = batches(db) == refreshed
        edges = db.execute("SHOW SNAPSHOTS").arrow()["edges"].to_pylist()[0]
        print(db.execute("SHOW TAGS LIKE 'm_201%_01'"))
    count = min(len(months), options.months)
    print(f"{count} refreshes took {seconds:.2f} s; building anew what they gave takes {full:.2f} s a time")
    print("built anew, the snapshot delivers", "the same batches" if same else "OTHER BATCHES")
    return {"months": count, "edges": edges, "seconds": seconds, "full": full, "same": same}


def report(db: snapdb.Database, month: str, compare: str, seconds: float) -> None:
    """A line that says what a month brought."""
    rows = {row["element"]: row for row in db.execute(compare).arrow().to_pylist()}
    counts = [f"{rows[name]['added']:>9,}" for name in ("question", "tag", "member", "has_tag", "participated")]
    print(month, *counts, f"{rows['has_tag']['degree_after']:>12.1f} {seconds:>7.2f}s")


def batches(db: snapdb.Database) -> str:
    """A digest of all batches of the sample."""
    digest = hashlib.sha256()
    for batch in db.stream(SAMPLE):
        for values in (*batch.n_id.values(), *batch.edge_index.values(), *batch.e_id.values()):
            digest.update(values.numpy().tobytes())
    return digest.hexdigest()


if __name__ == "__main__":
    main()

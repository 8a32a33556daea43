"""What statements that look around give: lists, descriptions, system tables, differences, plans."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from snapdb import Database
from tests.frozen.prints import normal

LISTS = """
SHOW TABLES;
SHOW TABLES AT (TAG => 'built');
SHOW TABLES LIKE '%o%';
SHOW COLUMNS;
SHOW COLUMNS OF kinds LIKE 't%';
SHOW GRAPHS;
SHOW SNAPSHOTS;
SHOW SNAPSHOTS OF shop;
SHOW SAMPLERS;
SHOW CACHES;
SHOW TASKS;
SHOW TASK RUNS;
SHOW TAGS;
SHOW VERSIONS;
SHOW VERSIONS OF road;
DESCRIBE TABLE kinds;
DESCRIBE TABLE road AT (VERSION => 14);
DESCRIBE kinds;
DESCRIBE SELECT * FROM shop_some.bought;
DESCRIBE shop_some.customer;
DESCRIBE town_now.road;
DESCRIBE GRAPH web;
DESCRIBE GRAPH shop;
DESCRIBE GRAPH segments;
DESCRIBE GRAPH town;
DESCRIBE SNAPSHOT web_past;
DESCRIBE SNAPSHOT web_heavy;
DESCRIBE SNAPSHOT shop_some;
DESCRIBE SNAPSHOT town_now;
DESCRIBE SNAPSHOT town_third;
DESCRIBE SAMPLER train;
DESCRIBE SAMPLER valid;
DESCRIBE SAMPLER pairs;
DESCRIBE SAMPLER turns;
DESCRIBE CACHE near;
DESCRIBE CACHE far;
DESCRIBE CACHE all_rows;
DESCRIBE TASK nightly;
DESCRIBE TASK steps;
DESCRIBE TASK paused;
SELECT * FROM snapdb.tables;
SELECT * FROM snapdb.columns WHERE "table" IN ('kinds', 'customer');
SELECT * FROM snapdb.graphs;
SELECT * FROM snapdb.elements;
SELECT * FROM snapdb.features;
SELECT * FROM snapdb.snapshots;
SELECT * FROM snapdb.samplers;
SELECT * FROM snapdb.caches;
SELECT * FROM snapdb.tasks;
SELECT * FROM snapdb.task_runs;
SELECT * FROM snapdb.leader;
SELECT * FROM snapdb.versions;
SELECT * FROM snapdb.loaded_files;
SELECT * FROM snapdb.tags;
SELECT code, kind FROM snapdb.errors ORDER BY code
"""
ROWS = """
SELECT * FROM kinds ORDER BY i;
SELECT * FROM road AT (VERSION => 15) WHERE t > 590;
SELECT * FROM town_now.road ORDER BY e_id DESC LIMIT 20;
SELECT * FROM town_last.house WHERE id % 29 = 3;
SELECT * FROM shop_some.customer LIMIT 5;
SELECT * FROM shop_full.store;
SELECT * FROM shop_full.product LIMIT 3;
SELECT * FROM shop_window.rents ORDER BY e_id LIMIT 8;
SUMMARIZE SNAPSHOT web_full;
SUMMARIZE SNAPSHOT shop_full;
SUMMARIZE SNAPSHOT town_now;
DIFF TABLE road FROM VERSION 16;
DIFF TABLE kinds FROM VERSION 24 TO VERSION 29;
DIFF TABLE house FROM TAG 'built' ROWS;
DIFF SNAPSHOT town_now WITH town_then;
DIFF SNAPSHOT town_past WITH town_tagged ROWS;
DIFF SNAPSHOT web_range WITH web_past FEATURES;
DIFF SNAPSHOT shop_full WITH shop_past;
DIFF GRAPH town FROM TAG 'built';
DIFF GRAPH town FROM VERSION 19 TO VERSION 21 FEATURES;
CHECK DATABASE;
VACUUM DRY RUN;
REFRESH SNAPSHOT town_now DRY RUN;
EXPIRE SNAPSHOTS OF town OLDER THAN INTERVAL '0 days' DRY RUN;
EXPIRE SNAPSHOTS OF town RETAIN LAST 2 DRY RUN;
EXPIRE SNAPSHOTS BY RETENTION DRY RUN;
ALTER PROPERTY GRAPH shop SET RETENTION (all '1 day', yearly '9 years') DRY RUN;
AUDIT SAMPLE USING train;
AUDIT SAMPLE USING pairs;
SAMPLE FROM town_now SEEDS (VALUES (3), (90)) AS house FANOUT (road BOTH => [3, 1]) BATCH 1;
SAMPLE USING valid BATCH 30 EPOCHS 1;
SAMPLE USING pairs FANOUT (bought BOTH => [2, 1], knows => [1, 0])
  SEEDS EDGES bought (SELECT e_id, day AS seed_time FROM shop_full.bought WHERE day > 990)
"""
PLANS = """
SAMPLE USING train;
SAMPLE USING valid;
SAMPLE USING pairs;
SAMPLE FROM town_now SEEDS (SELECT id FROM house) AS house FANOUT (road BOTH => [3, 1]) METHOD PRIORITY LAYOUT BLOCKS;
CREATE SNAPSHOT x OF web FOR EVENT_TIME AS OF DATE '2001-01-20';
CREATE SNAPSHOT x OF town AT (VERSION => 19) WHERE road.w > 1;
REFRESH SNAPSHOT web_week;
REFRESH SNAPSHOT town_now FULL;
SELECT count(*) FROM web_full.links WHERE w > 2;
INSERT INTO small VALUES (3);
UPDATE road SET w = 1 WHERE t < 5;
DELETE FROM road WHERE t < 5;
CREATE TABLE y AS SELECT * FROM small;
ALTER TABLE small ADD COLUMN m INTEGER;
DROP TABLE small;
DROP GRAPH town CASCADE;
COPY SNAPSHOT town_now TO 'out';
COPY (SAMPLE USING train) TO 'out';
COPY small TO 'small.csv';
AUDIT SAMPLE USING train;
CREATE SAMPLER z AS SAMPLE USING train BATCH 5;
CREATE CACHE z ON SAMPLER valid;
REFRESH CACHE near;
CREATE TAG z;
CREATE TASK z SCHEDULE EVERY INTERVAL '1 day' AS VACUUM;
EXECUTE TASK nightly;
ALTER TASK nightly SUSPEND;
DIFF SNAPSHOT town_now WITH town_then;
DIFF TABLE road FROM VERSION 16;
SUMMARIZE SNAPSHOT town_now;
SHOW TABLES;
DESCRIBE SNAPSHOT town_now;
EXPIRE SNAPSHOTS OF town RETAIN LAST 2;
BACKUP DATABASE TO 'copy';
CHECK DATABASE;
VACUUM
"""
EXACT = """
SELECT version, time, message, author, "table", rows_added, rows_removed FROM snapdb.versions ORDER BY version, "table";
SELECT name, version, from_time, to_time, created, refreshed FROM snapdb.snapshots ORDER BY name;
SELECT name, created FROM snapdb.samplers ORDER BY name;
SELECT name, generation, created FROM snapdb.caches ORDER BY name;
SELECT name, created, suspended, folder, body FROM snapdb.tasks ORDER BY name;
SELECT * FROM snapdb.task_runs ORDER BY task, run, attempt;
SELECT * FROM snapdb.loaded_files;
SELECT * FROM snapdb.tags
"""
"""Of the golden database, whose moments are always the same."""
MEASURED = re.compile(r"(seconds|batch_gain) -?[\d.,e-]*\d|(, )?break_even [\d.,e]*\d")
CHANGING = frozenset({"age", "beat", "host", "pid", "seconds", "log"})
"""Columns that differ from run to run."""
PARQUET = frozenset({"snapdb.tables", "SHOW TABLES", "snapdb.loaded_files", "VACUUM"})
"""Statements whose bytes are those of files that DuckDB writes."""


def statements(text: str) -> list[str]:
    """The statements of a text, one a line."""
    return [one.strip() for one in text.split(";\n") if one.strip()]


def exactly(db: Database) -> str:
    """What was stored of moments, versions and runs, as it was stored."""
    lines = []
    for statement in statements(EXACT):
        lines += [f"## {statement}", *(repr(row) for row in db.execute(statement).fetchall()), ""]
    return "\n".join(lines)


def listed(db: Database, text: str, *folders: Path) -> str:
    """What each statement of a text gives: its columns with their types, its rows, and what it says of itself."""
    return "\n".join(line for statement in statements(text) for line in _result(db, statement, *folders))


def _result(db: Database, statement: str, *folders: Path) -> Iterator[str]:
    result = db.execute(statement)
    table = result.arrow()
    yield f"## {statement}"
    if result.is_query:
        yield "# " + ", ".join(f"{field.name} {field.type}" for field in table.schema)
    rows = [normal(_row(statement, table, number), *folders) for number in range(table.num_rows)]
    yield from sorted(rows) if statement.startswith("VACUUM") else rows
    if result.message is not None:
        message = re.sub(r"\([\d.,]+ \w+\)", "(<bytes>)", normal(result.message, *folders))
        yield f"-> {message} ({result.rowcount})"
    yield ""


def _row(statement: str, table: pa.Table, number: int) -> str:
    parquet = any(word in statement for word in PARQUET)
    values = [_value(field, table.column(field.name)[number].as_py(), parquet) for field in table.schema]
    return json.dumps(values, ensure_ascii=False, default=str)


def _value(field: pa.Field, value: Any, parquet: bool) -> Any:
    if value is None:
        return None
    if field.name in CHANGING or (parquet and field.name == "bytes"):
        return f"<{field.name}>"
    return value


def explained(db: Database, folder: Path) -> str:
    """Every plan as text, and as JSON its names; what was measured is left out."""
    lines = []
    for statement in statements(PLANS):
        text = "\n".join(line for (line,) in db.execute(f"EXPLAIN {statement}").fetchall())
        text = MEASURED.sub(lambda found: found[1] or "", " ".join(normal(text, folder).replace("│", " ").split()))
        lines += [f"## {statement}", re.sub(r" (├|└|Rules:|Plan) ", r"\n\1 ", text)]
        (row,) = db.execute(f"EXPLAIN (FORMAT json) {statement}").arrow().to_pylist()
        lines += [json.dumps(_names(json.loads(row["plan"])), ensure_ascii=False), ""]
    for statement in ("SAMPLE USING valid", "SELECT 1", "AUDIT SAMPLE USING valid"):
        (row,) = db.execute(f"EXPLAIN ANALYZE (FORMAT json) {statement}").arrow().to_pylist()
        lines += [f"## ANALYZE {statement}", json.dumps(_names(json.loads(row["plan"])), ensure_ascii=False), ""]
    return normal("\n".join(lines), folder)


def _names(value: Any) -> Any:
    """Names, operators and kinds of values; not what depends on time, nor what the text says already."""
    match value:
        case dict():
            left = {"break_even", "batch_gain"}
            return {name: one if name == "operator" else _names(one) for name, one in value.items() if name not in left}
        case list():
            return [_names(one) for one in value]
        case _:
            return type(value).__name__

"""Codes of DataError: the rows break a rule of the graph, or of a statement."""

from __future__ import annotations

from snapdb.error_codes.code import GRAPH, SAMPLE, Code

_KIND = "DataError"
_BETWEEN = "SOURCE KEY (a) REFERENCES person DESTINATION KEY (b) REFERENCES person"


def _vertices(rows: str, clauses: str = "") -> str:
    """Statements that make vertices of these rows."""
    return f"CREATE TABLE odd AS {rows}; CREATE PROPERTY GRAPH h VERTEX TABLES (odd KEY (id){clauses})"


def _edges(rows: str, clauses: str = "") -> str:
    """Statements that make edges of these rows."""
    graph = f"{GRAPH} EDGE TABLES (odd {_BETWEEN}{clauses})"
    return f"CREATE TABLE odd AS {rows}; {graph}"


def _seeds(query: str) -> str:
    return SAMPLE.replace("SELECT id FROM person", query)


ROWS = (
    Code("data", _KIND, "Rows break a rule.", "Read the message.", unshown="Every such error has a code of its own."),
    Code(
        "null-key",
        _KIND,
        "Rows have NULL as key.",
        "Delete them, or give them one.",
        _vertices("SELECT NULL::INTEGER AS id"),
    ),
    Code(
        "duplicate-key",
        _KIND,
        "Keys occur more than once.",
        "Make them unique, or say ON DUPLICATE KEY FIRST or LAST.",
        _vertices("SELECT 1 AS id FROM range(2)"),
    ),
    Code(
        "undeclared-class",
        _KIND,
        "Rows have a target that is none of the CLASSES of the graph.",
        "Change the rows, or replace the graph by one that names these classes too.",
        _vertices("SELECT 1 AS id, 'c' AS label", " TARGET (label CLASSES ('a', 'b') AS y)"),
    ),
    Code(
        "dangling-edges",
        _KIND,
        "Edges lead to vertices that are not there.",
        "Add the vertices, or say ON DANGLING SKIP.",
        _edges("SELECT 1 AS a, 9 AS b"),
    ),
    Code(
        "no-event-time",
        _KIND,
        "Rows have NULL or infinity as event time.",
        "Give them a time or delete them; NULLS STATIC means always there.",
        _edges("SELECT 1 AS a, 2 AS b, NULL::INTEGER AS at", " EVENT TIME (at)"),
    ),
    Code(
        "ends-before-it-begins",
        _KIND,
        "Edges end before they begin.",
        "Swap the times, or delete them.",
        _edges("SELECT 1 AS a, 2 AS b, 9 AS since, 3 AS until", " EVENT TIME (since, until)"),
    ),
    Code(
        "bad-weight",
        _KIND,
        "Weights are NULL, NaN, negative or infinite.",
        "Correct them, or weigh by another column.",
        _edges("SELECT 1 AS a, 2 AS b, NULL::DOUBLE AS w", " WEIGHT (w)"),
    ),
    Code(
        "bad-negatives",
        _KIND,
        "A column by which negatives are weighed has values that are no weights, or none above 0.",
        "Correct them, or weigh by another column.",
        "CREATE TABLE place AS SELECT 1 AS id, -1.0 AS size; CREATE TABLE road AS SELECT 1 AS a, 1 AS b; "
        "CREATE PROPERTY GRAPH h VERTEX TABLES (place KEY (id)) "
        "EDGE TABLES (road SOURCE KEY (a) REFERENCES place DESTINATION KEY (b) REFERENCES place); "
        "CREATE SNAPSHOT q OF h; SAMPLE FROM q SEEDS EDGES road (SELECT e_id FROM q.road) FANOUT (road => [1]) "
        "NEGATIVES 1 PER POSITIVE WEIGHTED BY size",
    ),
    Code(
        "ragged-feature",
        _KIND,
        "The lists of a feature differ in length.",
        "Give them one length, or make the feature SPARSE.",
        _vertices("SELECT 1 AS id, [1.0] AS x UNION ALL SELECT 2, [1.0, 2.0]", " FEATURES (x)"),
    ),
    Code(
        "bad-feature",
        _KIND,
        "Values of a feature are missing, not finite, beyond its type, or not as SPARSE takes them.",
        "Correct them, or say DEFAULT.",
        _vertices("SELECT 1 AS id, NULL::FLOAT AS x", " FEATURES (x)"),
    ),
    Code(
        "missing-feature",
        _KIND,
        "Vertices have no value of a feature yet at the time that is asked for.",
        "Add rows to its history, or say DEFAULT.",
        "CREATE TABLE size AS SELECT 1 AS id, 50 AS at, 1.0 AS cm; "
        "CREATE PROPERTY GRAPH h VERTEX TABLES (person KEY (id) FEATURES (cm FROM size KEY (id) EVENT TIME (at))); "
        "CREATE SNAPSHOT q OF h FOR EVENT_TIME AS OF 10",
    ),
    Code(
        "not-null-broken",
        _KIND,
        "A column is NOT NULL, and rows have NULL in it.",
        "Give them a value.",
        "CREATE TABLE t (a INTEGER NOT NULL); INSERT INTO t VALUES (NULL)",
    ),
    Code(
        "ambiguous-update",
        _KIND,
        "UPDATE … FROM meets a row more than once.",
        "Make the rows of FROM distinct, or aggregate them.",
        "UPDATE person SET age = at FROM (VALUES (1, 3), (1, 4)) v(pid, at) WHERE id = pid",
    ),
    Code(
        "unknown-seed",
        _KIND,
        "Seeds are not in the snapshot.",
        "Choose them from the snapshot.",
        _seeds("SELECT 99 AS id"),
    ),
    Code(
        "duplicate-seeds",
        _KIND,
        "Seeds are given more than once.",
        "Select DISTINCT ones, or say ALLOW DUPLICATES.",
        _seeds("SELECT 1 AS id FROM range(2)"),
    ),
    Code(
        "seed-time",
        _KIND,
        "Seeds have no time, or one that no event can have.",
        "Give each a time, or leave them out.",
        _seeds("SELECT id, NULL::INTEGER AS seed_time FROM person") + " TEMPORAL < SEED_TIME",
    ),
    Code(
        "seed-not-there-yet",
        _KIND,
        "Seeds are younger than their time.",
        "Give them a later seed_time, or leave them out.",
        "CREATE TABLE baby AS SELECT 1 AS id, 50 AS born; CREATE TABLE met AS SELECT 1 AS a, 1 AS b; "
        "CREATE PROPERTY GRAPH h VERTEX TABLES (baby KEY (id) EVENT TIME (born)) "
        "EDGE TABLES (met SOURCE KEY (a) REFERENCES baby DESTINATION KEY (b) REFERENCES baby); CREATE SNAPSHOT q OF h; "
        "SAMPLE FROM q SEEDS (SELECT 1 AS id, 5 AS seed_time) AS baby FANOUT (met => [1]) TEMPORAL < SEED_TIME",
    ),
    Code(
        "other-seeds",
        _KIND,
        "A batch is replayed, and its seeds are others than then.",
        "Give the same ids again; let SEEDS read tables, which keep their versions.",
        unshown="It is about a call from Python.",
    ),
    Code(
        "other-codes",
        _KIND,
        "A batch is replayed, and its classes have other codes than then, or its sparse features another width.",
        "Replay it with the snapdb that its lineage names.",
        unshown="It needs a database of an older snapdb.",
    ),
    Code(
        "seed-null",
        _KIND,
        "A column of SEEDS is NULL.",
        "Say coalesce, or leave those seeds out.",
        _seeds("SELECT id, nullif(id, 2) AS weight FROM person"),
    ),
    Code(
        "seed-range",
        _KIND,
        "A number of SEEDS is too large to be held.",
        "Scale it.",
        _seeds("SELECT id, 1e300 AS y FROM person"),
    ),
    Code(
        "ties-in-order",
        _KIND,
        "The order of IN ORDER leaves it open which seed comes first.",
        "Add the key to ORDER BY.",
        _seeds("SELECT id, 1 AS y FROM person ORDER BY y") + " IN ORDER",
    ),
    Code(
        "bad-split",
        _KIND,
        "The column that SPLIT names holds values that make no masks.",
        "Name a column of a few words such as train, val and test, or leave SPLIT out.",
        _vertices("SELECT 1 AS id, 'part one' AS fold")
        + "; CREATE SNAPSHOT parted OF h; COPY SNAPSHOT parted TO 'out' (FORMAT npz, SPLIT fold)",
    ),
)

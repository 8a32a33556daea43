"""Codes of BindError about tables, graphs, snapshots and versions."""

from __future__ import annotations

from snapdb.error_codes.code import GRAPH, Code

__all__ = ["GRAPHS"]

_KIND = "BindError"
_FILE = "It is about a file."

GRAPHS = (
    Code(
        "column-count",
        _KIND,
        "A query gives another number of columns than is needed.",
        "Select as many as the message says.",
        "INSERT INTO film VALUES ('x')",
    ),
    Code(
        "column-type",
        _KIND,
        "A column's type cannot serve as what it is named for.",
        "Take another column, or cast it when loading.",
        "CREATE TABLE t AS SELECT 1 AS id, DATE '2000-01-01' AS born; "
        "CREATE PROPERTY GRAPH h VERTEX TABLES (t KEY (id) TARGET (born))",
    ),
    Code(
        "unstorable-type",
        _KIND,
        "Tables keep no columns of this type.",
        "Cast the column.",
        "CREATE TABLE t AS SELECT '101'::BIT AS a",
    ),
    Code(
        "null-column",
        _KIND,
        "A column holds only NULL, so that it has no type.",
        "Cast it, as in NULL::VARCHAR.",
        "CREATE TABLE t AS SELECT NULL AS a",
    ),
    Code(
        "constraint",
        _KIND,
        "A table is to keep a constraint other than NOT NULL.",
        "Leave it out; a graph checks that its keys are unique.",
        "CREATE TABLE t (a INTEGER PRIMARY KEY)",
    ),
    Code(
        "bad-default",
        _KIND,
        "A DEFAULT is computed.",
        "Give a constant.",
        "CREATE TABLE t (a INTEGER, b INTEGER DEFAULT a)",
    ),
    Code(
        "not-null",
        _KIND,
        "A new column is NOT NULL, and rows are there that would have no value in it.",
        "Give it a DEFAULT.",
        "ALTER TABLE person ADD COLUMN born INTEGER NOT NULL",
    ),
    Code(
        "one-column",
        _KIND,
        "ADD COLUMN is to add several.",
        "Write an ALTER TABLE for each.",
        unshown="The grammar refuses it before.",
    ),
    Code(
        "last-column",
        _KIND,
        "A table's only column is to go.",
        "Drop the table.",
        "CREATE TABLE t (a INTEGER); ALTER TABLE t DROP COLUMN a",
    ),
    Code(
        "not-supported",
        _KIND,
        "This version does not do that.",
        "Go the way round that the message names.",
        "CREATE TABLE t (a VARCHAR COLLATE NOCASE)",
    ),
    Code(
        "bad-length",
        _KIND,
        "What stands for a length of time is none, or not greater than zero.",
        "Write a number and a unit, such as '7 days'.",
        "ALTER PROPERTY GRAPH g SET RETENTION (all 'for ever')",
    ),
    Code(
        "no-retention",
        _KIND,
        "The graph does not say how long which of its snapshots stay.",
        "Say it with ALTER PROPERTY GRAPH … SET RETENTION.",
        "EXPIRE SNAPSHOTS OF g BY RETENTION",
    ),
    Code("bad-path", _KIND, "COPY is given no path.", "Name a file.", "COPY person FROM ''"),
    Code(
        "file-columns",
        _KIND,
        "A file's columns are not the table's.",
        "Name the columns, rename those of the file, or say HEADER.",
        unshown=_FILE,
    ),
    Code(
        "key-mismatch",
        _KIND,
        "Columns that refer to a key are not as many as the key's, or of other types.",
        "Name them in the key's order; cast one of them when loading.",
        f"{GRAPH} EDGE TABLES (likes SOURCE KEY (person) REFERENCES person DESTINATION KEY (film) REFERENCES person)",
    ),
    Code(
        "mixed-times",
        _KIND,
        "Event times that are compared are numbers here, and timestamps there.",
        "Load one in the other's kind, or choose with ELEMENTS.",
        "CREATE TABLE met AS SELECT 1 AS a, 2 AS b, 3 AS since, DATE '2026-01-01' AS until; "
        f"{GRAPH} EDGE TABLES (met SOURCE KEY (a) REFERENCES person DESTINATION KEY (b) REFERENCES person "
        "EVENT TIME (since, until))",
    ),
    Code(
        "feature-default",
        _KIND,
        "A feature's DEFAULT does not fit its type.",
        "Give one that does, or leave it out.",
        f"{GRAPH[:-1]} FEATURES (age TYPE int8 DEFAULT 1000))",
    ),
    Code(
        "feature-mix",
        _KIND,
        "Columns of one feature differ in what is said of them.",
        "Say the same of each.",
        "CREATE PROPERTY GRAPH h VERTEX TABLES (person KEY (id) FEATURES (age AS x TYPE int8, id AS x))",
    ),
    Code(
        "sparse-columns",
        _KIND,
        "SPARSE is given more than two columns.",
        "Write (indices, values) AS name SPARSE, or indices AS name SPARSE where each value is 1.",
        f"{GRAPH[:-1]} FEATURES ((age, age, age) AS x SPARSE))",
    ),
    Code(
        "does-not-fit",
        _KIND,
        "At that version the tables are not those that the graph needs.",
        "Take a version that fits, or create the graph anew.",
        "CREATE SNAPSHOT q OF g AT (VERSION => 1)",
    ),
    Code(
        "layout-does-not-fit",
        _KIND,
        "The layout that is asked for cannot hold what the snapshot leaves out.",
        "Take another layout, or leave WITH out.",
        "CREATE SNAPSHOT q OF g FOR EVENT_TIME FROM 15 TO 25 WITH (layout = 'full')",
    ),
    Code(
        "mixed-condition",
        _KIND,
        "A part of WHERE between two ANDs is about several elements, or about none.",
        "Split it, one element each.",
        "CREATE SNAPSHOT q OF g WHERE person.age > knows.w",
    ),
    Code(
        "subquery-here",
        _KIND,
        "A condition that is stored holds a subquery, whose rows would not be pinned.",
        "Load its result as a column.",
        "CREATE SNAPSHOT q OF g WHERE person.id IN (SELECT 1)",
    ),
    Code(
        "empty-window",
        _KIND,
        "A window of times ends before it begins.",
        "Write the earlier time first.",
        "CREATE SNAPSHOT q OF g FOR EVENT_TIME FROM 20 TO 10",
    ),
    Code(
        "time-kind",
        _KIND,
        "A time is written as a number where the graph's are timestamps, or the other way.",
        "Write it as the message says.",
        "CREATE SNAPSHOT q OF g FOR EVENT_TIME AS OF DATE '2026-01-01'",
    ),
    Code(
        "not-finite",
        _KIND,
        "A time, a length or a version is NULL, infinite or beyond 64 bits.",
        "Give one that is not.",
        "CREATE SNAPSHOT q OF g FOR EVENT_TIME AS OF (NULL::BIGINT)",
    ),
    Code(
        "needs-event-time",
        _KIND,
        "A clause goes by event times, and no element has any.",
        "Name them in the graph with EVENT TIME, or leave the clause out.",
        "CREATE PROPERTY GRAPH h VERTEX TABLES (person KEY (id)); CREATE SNAPSHOT q OF h FOR EVENT_TIME AS OF 3",
    ),
    Code(
        "not-repeatable",
        _KIND,
        "What is stored, or drawn again, holds a function that gives something else each time.",
        "Write its value.",
        "CREATE SNAPSHOT q OF g WHERE person.age > random()",
    ),
    Code(
        "nothing-in-common",
        _KIND,
        "Two snapshots to be compared share no element.",
        "Compare others.",
        "CREATE PROPERTY GRAPH h VERTEX TABLES (film AS movie KEY (code)); "
        "CREATE SNAPSHOT q OF h; DIFF SNAPSHOT s WITH q",
    ),
    Code(
        "misplaced-at",
        _KIND,
        "AT (…) stands after something that has no versions.",
        "Put it right after a table's own name.",
        "SELECT * FROM s.person AT (VERSION => 1)",
    ),
    Code(
        "explained-twice",
        _KIND,
        "EXPLAIN and DRY RUN both tell without doing.",
        "Keep one of them.",
        "EXPLAIN REFRESH SNAPSHOT s DRY RUN",
    ),
    Code(
        "not-in-transaction",
        _KIND,
        "An open transaction holds statements about tables, and queries, only.",
        "COMMIT it first.",
        "BEGIN; CREATE SNAPSHOT q OF g",
    ),
    Code(
        "missing-key",
        _KIND,
        "A vertex has no KEY, or an edge's ends are not told apart.",
        "Write KEY (columns), or SOURCE KEY and DESTINATION KEY.",
        "CREATE PROPERTY GRAPH h VERTEX TABLES (person)",
    ),
)

"""Codes of BindError about names: what is not there, what is there already, what may not be called so."""

from __future__ import annotations

from snapdb.error_codes.code import GRAPH, SAMPLE, Code

_KIND = "BindError"
_LOOK = "Look at the spelling; the message names the nearest, or what there is."

NAMES = (
    Code(
        "bind",
        _KIND,
        "Something in the statement does not fit; DuckDB says what.",
        "Read the message.",
        "SELECT unnest(id) FROM person",
    ),
    Code(
        "unknown-table",
        _KIND,
        "No table or snapshot has this name, or not at that version.",
        _LOOK,
        "SELECT * FROM persn",
    ),
    Code("unknown-graph", _KIND, "No property graph has this name.", _LOOK, "CREATE SNAPSHOT q OF h"),
    Code("unknown-snapshot", _KIND, "No snapshot has this name.", _LOOK, "DROP SNAPSHOT t"),
    Code("unknown-sampler", _KIND, "No sampler has this name.", _LOOK, "SAMPLE USING nearby"),
    Code("unknown-cache", _KIND, "No cache has this name.", _LOOK, "DESCRIBE CACHE near"),
    Code("unknown-task", _KIND, "No task has this name.", _LOOK, "EXECUTE TASK nightly"),
    Code("unknown-tag", _KIND, "No tag has this name.", _LOOK, "DROP TAG jun"),
    Code(
        "unknown-version",
        _KIND,
        "There is no such version, or none yet at that time.",
        "Take one that the message names; SHOW VERSIONS lists them.",
        "SELECT * FROM person AT (VERSION => 99)",
    ),
    Code(
        "unknown-column",
        _KIND,
        "A table, a file or a query has no column of this name.",
        _LOOK,
        "SELECT agee FROM person",
    ),
    Code(
        "unknown-vertex-type",
        _KIND,
        "The graph has no vertex type of this name.",
        _LOOK,
        SAMPLE.replace("AS person", "AS persn"),
    ),
    Code(
        "unknown-edge-type", _KIND, "The graph has no edge type of this name.", _LOOK, SAMPLE.replace("knows", "nows")
    ),
    Code(
        "unknown-element",
        _KIND,
        "The graph has no vertex or edge type of this name.",
        _LOOK,
        "CREATE SNAPSHOT q OF g ELEMENTS (persn)",
    ),
    Code("unknown-function", _KIND, "There is no such function.", _LOOK, "SELECT lenght(name) FROM person"),
    Code("unknown-type", _KIND, "There is no such type of columns.", _LOOK, "CREATE TABLE t (a INTEGR)"),
    Code(
        "unknown-feature-type",
        _KIND,
        "TYPE names none that features have.",
        _LOOK,
        f"{GRAPH[:-1]} FEATURES (age TYPE flot))",
    ),
    Code("unknown-field", _KIND, "A struct has no field of this name.", _LOOK, "SELECT {'a': 1}.b"),
    Code(
        "unknown-setting",
        _KIND,
        "DuckDB has no setting of this name.",
        "Look at the spelling.",
        "SELECT current_setting('thread')",
    ),
    Code(
        "unknown-parameter",
        _KIND,
        "A function that reads files has no parameter of this name.",
        "Look at the spelling.",
        "SELECT * FROM read_csv('people.csv', heder = true)",
    ),
    Code(
        "unknown-format",
        _KIND,
        "COPY or a SELECT is given a file of a format that it does not read.",
        "Name one with FORMAT, or call its reader.",
        "COPY person FROM 'people.csv' (FORMAT xlsx)",
    ),
    Code("unknown-device", _KIND, "ON names no device.", "Write 'cpu', 'cuda' or 'cuda:1'.", f"{SAMPLE} ON 'gpu'"),
    Code(
        "not-in-query",
        _KIND,
        "A column is qualified by a name that the query does not read.",
        _LOOK,
        "SELECT q.id FROM person p",
    ),
    Code(
        "ambiguous-column",
        _KIND,
        "Several tables of the query have a column of this name.",
        "Write table.column.",
        "SELECT age FROM person, person AS p",
    ),
    Code(
        "ambiguous-weight",
        _KIND,
        "WEIGHT BY names several columns without saying whose they are.",
        "Write edge_type.column.",
        f"{SAMPLE} WEIGHT BY w, w",
    ),
    Code(
        "ambiguous-degree",
        _KIND,
        "WEIGHTED BY DEGREE could mean how many edges a vertex has, or its column of that name.",
        "Rename the column.",
        'CREATE TABLE place AS SELECT 1 AS id, 1 AS "DEGREE"; '
        "CREATE TABLE road AS SELECT 1 AS a, 1 AS b; "
        "CREATE PROPERTY GRAPH h VERTEX TABLES (place KEY (id)) "
        "EDGE TABLES (road SOURCE KEY (a) REFERENCES place DESTINATION KEY (b) REFERENCES place); "
        "CREATE SNAPSHOT q OF h; SAMPLE FROM q SEEDS EDGES road (SELECT e_id FROM q.road) FANOUT (road => [1]) "
        'NEGATIVES 1 PER POSITIVE WEIGHTED BY "DEGREE"',
    ),
    Code(
        "exists",
        _KIND,
        "Something has this name already.",
        "Choose another name, or drop what has it.",
        "CREATE TABLE g (a INTEGER)",
    ),
    Code(
        "duplicate-name",
        _KIND,
        "A name is given twice where each must be another; case does not tell names apart.",
        "Rename one, or leave it out.",
        "CREATE TABLE t (a INTEGER, A INTEGER)",
    ),
    Code(
        "reserved-name",
        _KIND,
        "The name is needed for something else.",
        "Choose another.",
        "CREATE TABLE snapdb (a INTEGER)",
    ),
    Code(
        "bad-name",
        _KIND,
        "The name is too long, or has characters that names of its kind have not.",
        "Choose another.",
        f'{GRAPH[:-1]} FEATURES (age AS "x y"))',
    ),
    Code("null-name", _KIND, "A name is NULL.", "Give a name.", unshown="It takes a parameter from Python."),
    Code(
        "in-use",
        _KIND,
        "A graph, snapshot, sampler or cache stands on what is to go.",
        "Drop those first, or write CASCADE.",
        "DROP TABLE person",
    ),
)

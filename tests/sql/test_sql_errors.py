"""Errors of the language say what was expected, what was found and what to do, and show the place."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from snapdb.error_codes import load_codes
from snapdb.errors import ParseError, SnapdbError
from snapdb.sql import parse, parse_one
from snapdb.types import did_you_mean
from tests.support.inside.sql import Name, SqlFragment, identifier, scan

SAMPLE = "SAMPLE FROM s SEEDS (SELECT 1) AS v FANOUT (a => [1]) "
SNAPSHOT = "CREATE SNAPSHOT s OF g "
EDGES = (
    "CREATE PROPERTY GRAPH g VERTEX TABLES (a KEY (b)) EDGE TABLES (e SOURCE KEY (s) REFERENCES a"
    " DESTINATION KEY (d) REFERENCES a"
)
PARSING = {code.code for code in load_codes() if code.kind == "ParseError"} - {"parse", "refused"}
VERTICES = "CREATE PROPERTY GRAPH g VERTEX TABLES (a KEY (b)"


def failure(text: str) -> ParseError:
    with pytest.raises(ParseError) as caught:
        parse(text)
    assert caught.value.text == text
    return caught.value


def shown(error: ParseError) -> str:
    """What the carets stand under."""
    assert error.span is not None
    assert error.text is not None
    return error.text[slice(*error.span)]


@pytest.mark.parametrize(
    ("text", "place", "message"),
    [
        ("SAMPLE FROM s SEEDS (SELECT 1) AS v FANUOT (a => [1])", "FANUOT", 'did you mean "FANOUT"?'),
        ("SAMPLE FROM s SEEDS (SELECT 1) AS v BATCH 10", "", "expected a FANOUT clause"),
        ("SAMPLE FROM s FANOUT (a => [1])", "", "expected a SEEDS clause"),
        (SAMPLE + "BATCH 10 EPOCHS 2 BATCH 20", "BATCH 20", "BATCH is given twice"),
        (SAMPLE + "IN ORDER SHUFFLE", "SHUFFLE", "the order of the seeds is given twice"),
        (SAMPLE + "BATCH 10.5", "10.5", "BATCH takes a whole number, found 10.5"),
        (SAMPLE + "BATCH 10x", "x", "expected ALLOW, BATCH, EPOCHS"),
        (SAMPLE + "BATCH ten", "ten", "expected a number, found ten"),
        (SAMPLE + "BATCH", "", "unexpected end of the statement: expected a number"),
        (SAMPLE + "BATCH ?", "?", "parameters stand only inside queries"),
        (SAMPLE + "METHOD LATES", "LATES", 'did you mean "LATEST"?'),
        (SAMPLE + "METHOD UNIFORM DEPENDENT BATCHES 3", "DEPENDENT", "expected ALLOW"),
        (SAMPLE + "METHOD LABOR DEPENDENT BATCHES 1.5", "1.5", "DEPENDENT BATCHES takes a whole number"),
        (SAMPLE + "METHOD LATEST METHOD TOPK", "METHOD TOPK", "METHOD is given twice"),
        (SAMPLE + "WEIGHT BY", "", "unexpected end of the statement: expected a name"),
        (SAMPLE + "WEIGHT BY a.b.c", ".", 'expected ","'),
        (SAMPLE + "WITH REPLACEMNT", "REPLACEMNT", 'did you mean "REPLACEMENT"?'),
        (SAMPLE + "WITH REPLACEMENT WITHOUT REPLACEMENT", "WITHOUT REPLACEMENT", "REPLACEMENT is given twice"),
        (SAMPLE + "WITH numba WITH torch", "WITH torch", "WITH numba or torch is given twice"),
        (SAMPLE + "WITH jax", "jax", 'expected "(", NUMBA, REPLACEMENT or TORCH'),
        (SAMPLE + "WITH (memry = '2GB')", "memry", 'did you mean "memory"?'),
        (SAMPLE + "WITH (layout = 'x')", "layout", "no option layout in WITH; SAMPLE takes memory"),
        (SAMPLE + "WITH (memory = '2GB', memory = '3GB')", "memory = '3GB'", "memory is given twice"),
        (SAMPLE + "WITH (memory = '2GB') WITH (memory = '2GB')", "WITH (memory = '2GB')", "WITH is given twice"),
        (SAMPLE + "WITH (memory = '2')", "'2'", "a size such as '2GB', in B, KB, MB, GB, TB, KiB"),
        (SAMPLE + "WITH (memory = '0GB')", "'0GB'", "a size such as '2GB'"),
        (SAMPLE + "WITH (memory = '-1GB')", "'-1GB'", "a size such as '2GB'"),
        (SAMPLE + "WITH (memory = '99999999999TB')", "'99999999999TB'", "a size such as '2GB'"),
        (SAMPLE + "WITH (memory = 2)", "2", "expected a string in single quotes"),
        (SAMPLE + "TEMPORAL > SEED_TIME", ">", 'expected "<" or "<=", found >'),
        (SAMPLE + "TEMPORAL < t", "t", "expected SEED_TIME"),
        (SAMPLE + "WITHIN 'a day'", "'a day'", "expected a number or INTERVAL"),
        (SAMPLE + "WITHIN ?", "?", "parameters stand only inside queries"),
        (SAMPLE + "WITHIN 3 WITHIN 4", "WITHIN 4", "WITHIN is given twice"),
        (SAMPLE + "NEGATIVES 3", "", "expected PER"),
        (SAMPLE + "NEGATIVES 1.5 PER POSITIVE", "1.5", "NEGATIVES takes a whole number"),
        (SAMPLE + "EXCLUDE KNWN", "KNWN", 'did you mean "KNOWN"?'),
        (SAMPLE + "EXCLUDE KNOWN EXCLUDE KNOWN EVER", "EXCLUDE KNOWN EVER", "EXCLUDE KNOWN is given twice"),
        (SAMPLE + "EXCLUDE KNOWN AT", "", "expected SEED_TIME"),
        (SAMPLE + "EXCLUDE SEEDS KEEP SEEDS", "KEEP SEEDS", "EXCLUDE SEEDS or KEEP SEEDS is given twice"),
        (SAMPLE + "SEEDS EDGES e (SELECT 1)", "SEEDS EDGES e (SELECT 1)", "SEEDS is given twice"),
        (SAMPLE + "SUBSET 10 PERCENT", "", "expected PER"),
        (SAMPLE + "SUBSET 0x10 PERCENT PER EPOCH", "0x10", "SUBSET takes a decimal number"),
        (SAMPLE + "LAYOUT BLOCK", "BLOCK", 'did you mean "BLOCKS"?'),
        (SAMPLE + "ON cuda", "cuda", "expected a string in single quotes"),
        (SAMPLE + "TEMPROAL < SEED_TIME", "TEMPROAL", 'did you mean "TEMPORAL"?'),
        ("SAMPLE FROM s SEEDS EDGES (SELECT 1) FANOUT (a => [1])", "(", "expected a name"),
        ("SAMPLE FROM s SEEDS EDGES e (SELET 1) FANOUT (a => [1])", "SELET", 'did you mean "SELECT"?'),
        (SAMPLE + "BATCHH 3", "BATCHH", 'BATCHH is not expected here; did you mean "BATCH"?'),
        ("EXPLAIN SAMPLE FROM s", "", "unexpected end of the statement"),
        ("EXPLAIN ANALYSE " + SAMPLE, "ANALYSE", "is spelled EXPLAIN ANALYZE here"),
        ("EXPLAIN ANALYSE SELECT 1", "ANALYSE", "is spelled EXPLAIN ANALYZE here"),
        ("EXPLAIN () " + SAMPLE, ")", "takes its options as (FORMAT text), (FORMAT json) or (ANALYZE)"),
        ("EXPLAIN (CREATE SNAPSHOT s OF g)", "CREATE", "takes its options as (FORMAT text)"),
        ("EXPLAIN EXPLAIN SELECT 1", "EXPLAIN", "expected a statement"),
        ("EXPLAIN", "", "expected a statement"),
        ("EXPLAIN (FROMAT json) " + SAMPLE, "FROMAT", "takes its options as (FORMAT text)"),
        ("EXPLAIN (FORMAT text, FORMAT json) " + SAMPLE, "json", "beside another FORMAT; keep one"),
        ("AUDIT SELECT 1", "SELECT", "expected SAMPLE, found SELECT"),
        ("SAMPLE FROM s SEEDS (SELECT 1) AS v FANOUT (a => [1.5])", "1.5", "FANOUT takes a whole number"),
        ("SAMPLE FROM s SEEDS (SELECT 1) AS v FANOUT (a => [])", "]", "expected a number or FULL, found ]"),
        ("SAMPLE FROM s SEEDS (SELECT 1) AS v FANOUT (key => [1])", "key", 'KEY is reserved, write "key"'),
        ("SAMPLE FROM s SEEDS (SELECT 1 AS v FANOUT (a => [1])", "(", "never closed"),
        ("SAMPLE FROM s SEEDS () AS v FANOUT (a => [1])", ")", "expected a query"),
        ("SAMPLE FROM s SEEDS SELECT 1 AS v FANOUT (a => [1])", "SELECT", 'expected "(" or EDGES, found SELECT'),
        ("CREATE", "", "expected TABLE, PROPERTY GRAPH, SNAPSHOT, SAMPLER, TAG, CACHE or TASK"),
        ("CREATE TABEL t (a INT)", "TABEL", 'did you mean "TABLE"?'),
        ("CREATE TABLE AS SELECT 1", "AS", "expected a name"),
        ("CREATE TABLE t", "", 'expected "(" or AS'),
        ("CREATE TABLE t ()", ")", "expected columns with their types"),
        ("SHOW", "", "expected CACHES, COLUMNS, GRAPHS"),
        ("DESCRIBE", "", "expected a name, CACHE, GRAPH"),
        ("SAMPLE FROM s SEEDS (SELECT 1) AS v FANOUT [5, 5]", "[", 'expected "(", found [; write FANOUT (DEFAULT => '),
        ("CREATE SNAPSHOT s OF g CREATE SNAPSHOT t OF g", "CREATE", 'end the statement before it with ";"'),
        ("\\dt", "\\", "commands are of the prompt"),
        (".tables", ".", "commands are of the prompt"),
        ("CREATE TABLE t AS MESSAGE 'x'", "MESSAGE", "expected a query"),
        ("CREATE GRAPH g VERTEX TABLES (a KEY (b))", "GRAPH", "write CREATE PROPERTY GRAPH"),
        ("SELCT 1", "SELCT", 'did you mean "SELECT"?'),
        ("inser INTO t SELECT 1", "inser", 'did you mean "INSERT"?'),
        ("42", "42", "no statement starts with 42"),
        ("INSERT INTO t (a, b)", "", "expected a query"),
        ("INSERT INTO t (a b) SELECT 1", "b", 'expected ")" or ",", found b'),
        ("INSERT INTO a.t SELECT 1", ".", 'expected a query or "(", found .'),
        ("INSERT INTO t SELCT 1", "SELCT", 'did you mean "SELECT"?'),
        ("SAMPLE FROM s SEEDS (SELET 1) AS v FANOUT (a => [1])", "SELET", 'did you mean "SELECT"?'),
        ("CREATE TABLE t AS 42", "42", "expected a query, found 42"),
        ("DELETE FROM t WHERE", "", "expected a condition"),
        ("DELETE FROM t USING", "", "expected tables or queries"),
        ("DELETE FROM t WHER a = 1", "a", 'WHER was read as a name; did you mean "WHERE"?'),
        ("UPDTE t SET a = 1", "UPDTE", 'did you mean "UPDATE"?'),
        ("UPDATE t ST a = 1", "a", 'expected SET, found a; ST was read as a name; did you mean "SET"?'),
        ("UPDATE t SET a", "", 'expected "="'),
        ("CREATE CACHE ON SAMPLER t", "SAMPLER", "expected ON, found SAMPLER"),
        (
            "SAMPLE USING t REFRESH FBL SHARED",
            "SHARED",
            "it is a part of REFRESH FCR or OTF, and stands right after it",
        ),
        ("SAMPLE USING t REFRESH FCR EVERY 5 BATCHES FETCH 9 PERCENT", "FETCH", "it is a part of REFRESH OTF"),
        ("UPDATE t SET a = WHERE b", "WHERE", "expected an expression, found WHERE"),
        ("UPDATE t SET a = , b = 2", ",", "expected an expression, found ,"),
        ("UPDATE t SET a = 1, WHERE b", "WHERE", "expected a name"),
        ("UPDATE t SET a = 1 FROM WHERE b", "WHERE", "expected tables or queries"),
        ("UPDATE t SET a = 1 WHERE", "", "expected a condition"),
        ("UPDATE ? SET a = 1", "?", "parameters stand only inside queries"),
        ("ALTER", "", "expected TABLE"),
        ("ALTER TABEL t DROP a", "TABEL", 'did you mean "TABLE"?'),
        ("ALTER TABLE t", "", "expected ADD, DROP or RENAME"),
        ("ALTER TABLE t ADDD a INT", "ADDD", 'did you mean "ADD"?'),
        ("ALTER TABLE t ADD COLUMN", "", "expected columns with their types"),
        ("ALTER TABLE t RENAME a b", "b", "expected TO"),
        ("CREATE TAG ?", "?", "parameters stand only inside queries"),
        ("CREATE TAG x AT (TAG => y)", "y", "TAG takes a name in single quotes, found y"),
        ("CREATE TAG x AT (VERSION => )", ")", "VERSION => lacks its value"),
        ("DIFF t FROM VERSION 1", "t", "expected GRAPH, PROPERTY, SNAPSHOT or TABLE"),
        ("DIFF GRAPH g", "", "expected FROM"),
        ("DIFF SNAPSHOT a b", "b", "expected WITH"),
        ("DIFF SNAPSHOT a WITH b COLUMNS", "COLUMNS", "expected FEATURES, ROWS or the end of the statement"),
        ("DIFF TABLE t FROM VERSION 1 TO TAG 'x' FEATURES", "'x' FEATURES", "TAG takes a name in single quotes"),
        ("REFRESH s", "s", "REFRESH knows SNAPSHOT and CACHE, found s"),
        ("REFRESH SNAPSHT s", "SNAPSHT", 'did you mean "SNAPSHOT"?'),
        ("REFRESH SNAPSHOT s FUL", "FUL", 'did you mean "FULL"?'),
        ("REFRESH SNAPSHOT s DRY", "", "expected RUN"),
        (
            "EXPIRE SNAPSHOTS",
            "",
            "EXPIRE SNAPSHOTS lacks which: OLDER THAN INTERVAL '30 days', RETAIN LAST 10, both, or BY RETENTION",
        ),
        ("EXPIRE SNAPSHOTS OF g DRY RUN", "", "lacks which"),
        ("EXPIRE SNAPSHOTS OLDER INTERVAL '1 day'", "INTERVAL", "expected THAN"),
        ("EXPIRE SNAPSHOTS OLDER THAN", "", "expected a time (a number"),
        ("EXPIRE SNAPSHOTS OLDER THAN now()", "now", "expected a time"),
        ("EXPIRE SNAPSHOTS OLDER THAN $age", "$age", "parameters stand only inside"),
        ("EXPIRE SNAPSHOTS RETAIN LAST ten", "ten", "expected a number, found ten"),
        ("EXPIRE SNAPSHOTS RETAIN LAST 1.5", "1.5", "RETAIN LAST takes a whole number"),
        ("EXPIRE SNAPSHOTS RETAIN LAST 1 RETAIN LAST 2", "RETAIN LAST 2", "RETAIN LAST is given twice"),
        ("DROP TABLE t CASCADES", "CASCADES", 'did you mean "CASCADE"?'),
        ("EXPLAIN (FORMAT jsn) REFRESH SNAPSHOT s", "jsn", 'did you mean "JSON"?'),
        ("EXPLAIN (FORMAT json, FORMAT text) REFRESH SNAPSHOT s", "text", "given twice"),
        ("EXPLAIN CREATE SNAPSHOT s", "", "expected OF"),
        ("DIFF TABLE t", "", "expected FROM"),
        ("DIFF TABLE t FROM 3 TO 4", "3", "expected TAG, TIMESTAMP or VERSION"),
        ("DIFF TABLE t FROM VERSION TO VERSION 4", "TO", "expected an expression"),
        ("DIFF TABLE t FROM TAG june", "june", "TAG takes a name in single quotes"),
        ("CHECK TABLE t", "TABLE", "expected DATABASE"),
        ("VACUUM RETAIN DRY RUN", "DRY", "expected an expression"),
        ("START", "", "expected TRANSACTION"),
        ("COMIT", "COMIT", 'did you mean "COMMIT"?'),
        ("SELECT * FROM t AS a AT (VERSION => 3)", "AT", "AT stands before the alias: write t AT (…) AS a"),
        ("SELECT 1; SELECT * FROM t AT (TAG => x)", "x", "TAG takes a name in single quotes"),
        ("INSERT INTO t FROM u AT (VERSION => )", ")", "VERSION => lacks its value"),
        ("COPY t FROM x", "x", "expected a string in single quotes"),
        (SNAPSHOT + "FOR EVENT_TIME AS OF now()", "now", "expected a time"),
        (SNAPSHOT + "FOR EVENT_TIME AS OF 3 + 4", "+", "put an expression in parentheses"),
        (SNAPSHOT + "AT (VERSION = 3)", "=", 'expected "=>"'),
        (SNAPSHOT + "AT (TAGS => 'x')", "TAGS", 'did you mean "TAG"?'),
        (SNAPSHOT + "ELEMENTS (a) ELEMENTS (b)", "ELEMENTS (b)", "ELEMENTS is given twice"),
        (SNAPSHOT + "FOR EVENT_TIME AS OF 1 FOR EVENT_TIME AS OF 2", "FOR EVENT_TIME AS OF 2", "given twice"),
        (SNAPSHOT + "FOR EVENT_TIME WINDOW", "", 'expected a number, an expression, "(" or INTERVAL'),
        (SNAPSHOT + "FOR EVENT_TIME WINDOW INTERVAL 7", "", "expected a name"),
        (SNAPSHOT + "FOR EVENT_TIME WINDOW INTERVAL '7 days' ENDNG 5", "5", 'did you mean "ENDING"?'),
        (SNAPSHOT + "FOR EVENT_TIME WINDOW 7 ENDING", "", "expected a time"),
        (SNAPSHOT + "WITH (layout 'full')", "'full'", 'expected "="'),
        (SNAPSHOT + "WITH (layuot = 'full')", "layuot", 'no option layuot in WITH; did you mean "layout"?'),
        (SNAPSHOT + "WITH (colour = 'full')", "colour", "it takes layout"),
        (SNAPSHOT + "WITH (layout = 'bitmp')", "'bitmp'", 'no layout "bitmp"; did you mean "bitmap"?'),
        (SNAPSHOT + "WITH (layout = zip)", "zip", "layout is one of full, ends, bitmap, materialized"),
        (SNAPSHOT + "WITH (layout = full, layout = ends)", "layout = ends", "layout is given twice"),
        (SNAPSHOT + "WITH (layout = full) WITH (layout = full)", "WITH (layout = full)", "WITH is given twice"),
        (SNAPSHOT + "WHERE", "", "expected a condition"),
        (VERTICES + " FEATURES (x) TARGET (y) FEATURES (z))", "FEATURES (z)", "FEATURES is given twice"),
        (VERTICES + " FEATURES ((x, y)))", "(x, y)", "expected AS and a name for the feature after (x, y)"),
        (VERTICES + " FEATURES (x AS a AS b))", "AS b", "AS is given twice"),
        (VERTICES + " FEATURES (x TYPE int8 TYPE int8))", "TYPE int8", "TYPE is given twice"),
        (VERTICES + " FEATURES ((x, y) AS a SPARSE [0]))", "0", "SPARSE takes a width from 1 to 2147483647, found 0"),
        (VERTICES + " FEATURES ((x, y) AS a SPARSE [1.5]))", "1.5", "SPARSE takes a whole number"),
        (VERTICES + " FEATURES (x FROM h KEY (k)))", ")", "expected EVENT"),
        (VERTICES + " FEATURES (x FROM h KEY (k) EVENT TIME (a, b)))", "b", "a history has one EVENT TIME"),
        (VERTICES + " EVENT TIME (t, u))", "u", "EVENT TIME takes one column here: a vertex is born once; leave u out"),
        (VERTICES + " EVENT TIME (t) NULLS STATC)", "STATC", 'did you mean "STATIC"?'),
        (EDGES + " EVENT TIME (t, u, v))", "v", "EVENT TIME takes one column or two here"),
        (VERTICES + " FEATURES (x DEFAULT 1e999))", "1e999", "not a number that can be held"),
        (VERTICES + " TARGET (c AS z))", "z", "write AS y"),
        (VERTICES + ", c AS)", ")", "expected a name"),
        (VERTICES + ") EDGE TABLES (e SOURCE KEY (a) REFERENCES a)", ")", "expected"),
        ("DROP TABLE a, b", ",", "expected CASCADE, RESTRICT or the end of the statement"),
        ('DROP TABLE ""', '""', "a name cannot be empty"),
        ("SELECT (1", "(", "never closed"),
        ("SELECT 1)", ")", "closes nothing"),
        ("SELECT [1)", "[", 'expected "]"'),
        ("SELECT 'abc", "'", "this string is never closed"),
        ('SELECT "abc', '"', "this name is never closed"),
        ("SELECT /* a", "/*", "this comment is never closed"),
    ],
)
def test_a_mistake_is_named_and_shown(text: str, place: str, message: str) -> None:
    error = failure(text)
    assert message in error.message
    assert shown(error) == place
    assert error.code in PARSING


def test_no_error_uses_the_names_of_the_parser() -> None:
    for word in ["SAMPLE FROM s (", SNAPSHOT + ",", VERTICES + ",", "COPY t FROM 'x' (", "INSERT INTO t (", "SHOW"]:
        message = failure(word + ")" * word.count("(")).message
        assert not any(name in message for name in ("$END", "LPAR", "RPAR", "COMMA", "__ANON", "MINUS", "NAME"))


def test_an_error_in_a_script_shows_its_line() -> None:
    assert str(failure("SELECT 1;\nDROP TABLE x y;\nSELECT 2")) == (
        "ParseError: expected CASCADE, RESTRICT or the end of the statement, found y\n"
        "  line 2:\n  DROP TABLE x y;\n               ^"
    )


@pytest.mark.parametrize(
    ("text", "place", "way"),
    [
        ("UPDATE t SET (a, b) = (1, 2)", "(", "write a = …, b = …"),
        ("UPDATE t SET a = f(1, 2), t.b = 2", "t.b", "write SET c = …"),
        ("UPDATE t SET a = 1 RETURNING a", "RETURNING", "SELECT the rows first"),
        ("UPDATE t AT (VERSION => 3) SET a = 1", "AT", "leave it out"),
        ("DELETE FROM t AT (TAG => 'x') WHERE a", "AT", "leave it out"),
        ("INSERT INTO t AT (VERSION => 3) SELECT 1", "AT", "leave it out"),
        ("MERGE INTO t USING u ON a", "MERGE", "UPDATE t SET"),
        ("UPSERT INTO t SELECT 1", "UPSERT", "WHERE NOT EXISTS"),
        ("INSERT INTO t SELECT 1 ON CONFLICT DO NOTHING", "ON CONFLICT", "ON DUPLICATE KEY"),
        ("INSERT INTO t VALUES (1) RETURNING a", "RETURNING", "SELECT the rows first"),
        ("INSERT OR REPLACE INTO t SELECT 1", "OR", "INSERT INTO"),
        ("INSERT INTO t DEFAULT VALUES", "DEFAULT", "VALUES"),
        ("INSERT INTO t BY NAME SELECT 1 AS a", "BY", "name the columns"),
        ("DELETE FROM t WHERE a RETURNING *", "RETURNING", "SELECT the rows first"),
        ("CREATE VIEW v AS SELECT 1", "VIEW", "CREATE TABLE"),
        ("CREATE OR REPLACE MACRO f(x) AS x", "MACRO", "in the query"),
        ("CREATE TEMP TABLE t (a INT)", "TEMP", "WITH"),
        ("CREATE TYPE t AS INT", "TYPE", "column's definition"),
        ("CREATE SCHEMA s", "SCHEMA", "table's name"),
        ("CREATE UNIQUE INDEX i ON t (a)", "UNIQUE", "leave it out"),
        ("CREATE SEQUENCE s", "SEQUENCE", "row_number"),
        ("CREATE FUNCTION f() AS 1", "FUNCTION", "in the query"),
        ("DROP VIEW v", "VIEW", "DROP knows TABLE"),
        ("ATTACH 'x.db'", "ATTACH", "snapdb.connect"),
        ("DETACH x", "DETACH", "close"),
        ("INSTALL httpfs", "INSTALL", "Parquet"),
        ("LOAD httpfs", "LOAD", "Parquet"),
        ("SET threads = 1", "SET", "leave it out"),
        ("RESET threads", "RESET", "leave it out"),
        ("PRAGMA version", "PRAGMA", "SHOW"),
        ("USE x", "USE", "snapdb.connect"),
        ("CALL f()", "CALL", "SELECT"),
        ("ALTER TABLE t RENAME TO u", "RENAME", "CREATE TABLE new AS"),
        ("ALTER TABLE t ALTER COLUMN a TYPE INT", "ALTER", "CAST(old AS …)"),
        ("ALTER TABLE IF EXISTS t ALTER a SET DATA TYPE INT", "ALTER", "CAST(old AS …)"),
        ("ALTER TABLE t ALTER a SET NOT NULL", "ALTER", "UPDATE or DELETE the rows"),
        ("ALTER TABLE t ALTER COLUMN a DROP NOT NULL", "ALTER", "CREATE OR REPLACE TABLE"),
        ("ALTER TABLE t ALTER a SET DEFAULT 1", "ALTER", "name the value in INSERT"),
        ("ALTER TABLE t ADD CONSTRAINT c CHECK (a > 0)", "ADD", "with a SELECT"),
        ("ALTER TABLE t ADD PRIMARY KEY (a)", "ADD", "with a SELECT"),
        ("ALTER TABLE t ADD a INT, DROP b", ",", "one ALTER TABLE each"),
        ("ALTER SNAPSHOT s SET x", "SNAPSHOT", "CREATE OR REPLACE SNAPSHOT"),
        ("ALTER GRAPH g ADD x", "GRAPH", "CREATE OR REPLACE PROPERTY GRAPH"),
        ("SAVEPOINT a", "SAVEPOINT", "ROLLBACK and begin again"),
        ("RELEASE SAVEPOINT a", "RELEASE", "ROLLBACK and begin again"),
        ("ROLLBACK TO SAVEPOINT a", "TO", "ROLLBACK and begin again"),
        ("DESCRIBE TAG june", "TAG", "SHOW TAGS"),
        ("WITH a AS (SELECT 1) UPDATE t SET b = 1", "UPDATE", "start with UPDATE"),
        ("EXPORT DATABASE 'x'", "EXPORT", "copy the directory"),
        ("IMPORT DATABASE 'x'", "IMPORT", "COPY t FROM"),
        ("TRUNCATE t", "TRUNCATE", "DELETE FROM t"),
        ("SHOW INDEXES", "INDEXES", "TABLES | COLUMNS | GRAPHS | PROPERTY GRAPHS | SNAPSHOTS | SAMPLERS | TAGS"),
        ("SHOW TABELS", "TABELS", 'did you mean "TABLES"?'),
        ("EXPLAIN VACUUM t; EXPLAIN MERGE INTO t", "MERGE", "write UPDATE"),
        ("SUMMARIZE GRAPH g", "GRAPH", "write SUMMARIZE SNAPSHOT s"),
        ("EXECUTE p", "EXECUTE", "EXECUTE TASK name"),
        ("EXPLAIN CREATE SNAPSHOT s OF g WHERE a = $x", "$x", "write the value itself"),
        ("WITH a AS (SELECT 1) INSERT INTO t FROM a", "INSERT", "INSERT INTO t WITH"),
        ("WITH a(x) AS NOT MATERIALIZED (SELECT 1), b AS (SELECT 2) DELETE FROM t", "DELETE", "start with DELETE"),
        ("(DELETE FROM t)", "DELETE", "start with DELETE"),
        ("SELECT $a, ? FROM t", "?", "? beside $name is refused: values are given by place or by name"),
        ("DELETE FROM t WHERE a = ? AND b = $b", "?", "write $name for each of them"),
        (SNAPSHOT + "WHERE a = $x", "$x", "write the value itself"),
        (SNAPSHOT + "AT (VERSION => ?)", "?", "write the value itself"),
        (VERTICES + " FEATURES (x DEFAULT ?))", "?", "write the value itself"),
    ],
)
def test_what_is_not_allowed_is_refused_by_name(text: str, place: str, way: str) -> None:
    error = failure(text)
    assert error.code == "refused"
    assert way in error.message
    assert shown(error) == place


@pytest.mark.parametrize(
    ("name", "candidates", "hint"),
    [
        ("bougt", ["bought", "viewed"], '; did you mean "bought"?'),
        ("BOUGHT", ["Bought"], '; did you mean "Bought"?'),
        ("x", ["bought"], ""),
        ("x", [], ""),
    ],
)
def test_the_nearest_name_is_suggested(name: str, candidates: list[str], hint: str) -> None:
    assert did_you_mean(name, candidates) == hint


STATEMENTS = [
    SAMPLE + "BATCH 10 REPEATABLE (7) IN ORDER EPOCHS 2",
    SAMPLE + "METHOD LABOR DEPENDENT BATCHES 3 WEIGHT BY a.b, c WITH REPLACEMENT TEMPORAL <= SEED_TIME"
    " WITHIN INTERVAL (1) DAYS ON 'cuda' WITH torch WITH (memory = '2GB') SUBSET 1.5 PERCENT PER EPOCH"
    " ALLOW DUPLICATES LAYOUT BLOCKS REUSE HOPS",
    "EXPLAIN ANALYZE SAMPLE FROM s SEEDS EDGES e (SELECT 1) FANOUT (a => [1]) NEGATIVES 3 PER POSITIVE"
    " WEIGHTED BY DEGREE EXCLUDE KNOWN AT SEED_TIME EXCLUDE SEEDS BOTH DIRECTIONS",
    "AUDIT SAMPLE FROM s SEEDS (FROM t) AS v FANOUT (a => [1])",
    SNAPSHOT + "AT (VERSION => 4) FOR EVENT_TIME FROM (1) TO 2 ELEMENTS (a, b) WHERE a.x > 0",
    VERTICES + " FEATURES (x AS y DEFAULT -1, (a, b) AS c) TARGET (y)) EDGE TABLES (e SOURCE KEY (s) REFERENCES a"
    " DESTINATION KEY (d) REFERENCES a (b) EVENT TIME (t) WEIGHT (w) ON DANGLING SKIP)",
    "CREATE OR REPLACE TABLE \"t\" AS SELECT 'x' FROM y MESSAGE 'm'",
    "CREATE TABLE IF NOT EXISTS t (a INT NOT NULL, b DECIMAL(3, 1))",
    "INSERT INTO t (a, b) WITH q AS (SELECT 1, 2) FROM q MESSAGE $$m$$",
    "DELETE FROM t WHERE a IN (SELECT 1) MESSAGE E'm\\n'",
    "UPDATE t AS u SET a = 1, b = extract(year FROM c) FROM v AT (TAG => 'x') w WHERE u.a = ? MESSAGE 'm'",
    "DELETE FROM t u USING v JOIN w USING (k) WHERE u.at IS DISTINCT FROM v.at",
    "ALTER TABLE IF EXISTS t ADD COLUMN IF NOT EXISTS c DECIMAL(9, 2) DEFAULT 0; ALTER TABLE t RENAME a TO b",
    "CREATE OR REPLACE TAG x AT (TIMESTAMP => now() - INTERVAL '1 day'); DROP TAG IF EXISTS x; SHOW TAGS LIKE 'x'",
    "DIFF TABLE t FROM VERSION 1 + 2 TO TAG 'x' ROWS; CHECK DATABASE; VACUUM t RETAIN INTERVAL '7 days' DRY RUN",
    "BEGIN TRANSACTION; COMMIT WORK MESSAGE 'm'; START TRANSACTION; ROLLBACK; SHOW VERSIONS OF t",
    "SHOW TABLES AT (VERSION => 2); DESCRIBE TABLE t AT (VERSION => 2)",
    "COPY t (a) FROM 'x' WITH (FORMAT csv, HEADER true, SKIP -1)",
    "SHOW PROPERTY GRAPHS LIKE 'a%'; DESCRIBE GRAPH g; DROP SNAPSHOT IF EXISTS s",
    SNAPSHOT
    + "FOR EVENT_TIME WINDOW INTERVAL (1 + 2) DAYS ENDING DATE '2026-01-01' WITH (layout = 'ends') WHERE a > 0",
    SNAPSHOT + "FOR EVENT_TIME WINDOW INTERVAL '7 days' WITH (layout = bitmap); REFRESH SNAPSHOT s FULL DRY RUN",
    "EXPIRE SNAPSHOTS OF g OLDER THAN INTERVAL 3 DAYS RETAIN LAST 3 DRY RUN; SHOW SNAPSHOTS OF g; DROP TAG t RESTRICT",
    "DIFF SNAPSHOT a WITH b ROWS; DIFF PROPERTY GRAPH g FROM VERSION 1 TO TAG 'x' FEATURES; DROP GRAPH g CASCADE",
    "EXPLAIN ANALYZE (FORMAT json) REFRESH SNAPSHOT s; EXPLAIN (ANALYZE, FORMAT text) CREATE SNAPSHOT s OF g",
    VERTICES
    + " EVENT TIME (t) NULLS STATIC FEATURES (x FROM h KEY (b) EVENT TIME (t) TYPE int8, (i, v) AS w SPARSE [9]))",
    "EXPLAIN ANALYZE WITH a AS (SELECT ?) SELECT * FROM a -- end",
]
WORDS = sorted({token.text for statement in STATEMENTS for token in scan(statement)})
WORDS += [
    ";",
    "'",
    '"',
    "$$",
    "/*",
    "--",
    "\n",
    "§",
    "\x00",
    "😀",
    "E'\\",
    "AND",
    "OF",
    "=>",
    "٣",
    "9" * 5000,
    "TO",
    "?",
]


@st.composite
def mutated(draw: st.DrawFn) -> str:
    """A statement with some tokens dropped, doubled, replaced or swapped."""
    pieces = [token.text for token in scan(draw(st.sampled_from(STATEMENTS)))]
    for _ in range(draw(st.integers(0, 4))):
        place = draw(st.integers(0, len(pieces)))
        change = draw(st.sampled_from(["drop", "add", "replace", "cut"]))
        word = [draw(st.sampled_from(WORDS))] if change in ("add", "replace") else []
        stop = len(pieces) if change == "cut" else place + (change != "add")
        pieces[place:stop] = word
    return draw(st.sampled_from([" ", "\n", ""])).join(pieces)


def places(value: object) -> Iterator[Name | SqlFragment]:
    if isinstance(value, Name | SqlFragment):
        yield value
    elif is_dataclass(value):
        for field in fields(value):
            yield from places(getattr(value, field.name))
    elif isinstance(value, tuple):
        for item in value:
            yield from places(item)


@settings(max_examples=500, deadline=None, database=None)
@given(mutated())
def test_any_text_parses_or_fails_with_a_place(text: str) -> None:
    try:
        statements = parse(text)
    except SnapdbError as error:
        assert_it_shows_a_place(error, text)
        return
    for statement in statements:
        assert statement.text == statement.text.strip()
        for place in places(statement):
            written = text[slice(*place.span)]
            assert place.text == (written if isinstance(place, SqlFragment) else identifier(scan(written)[0]))
            assert statement.span.start <= place.span.start < place.span.stop <= statement.span.stop


def assert_it_shows_a_place(error: SnapdbError, text: str) -> None:
    assert isinstance(error, ParseError)
    assert error.text == text.replace("\0", "\ufffd")  # what nothing can show
    assert error.span is not None
    assert 0 <= error.span.start <= error.span.stop <= len(text)
    assert str(error).endswith("^")


@pytest.mark.parametrize(
    ("text", "said", "place"),
    [
        ("", "found an empty text", (0, 0)),
        (" \n ", "found an empty text", (0, 0)),
        (" -- later", "found only comments or semicolons", (1, 9)),
        (";", "found only comments or semicolons", (0, 1)),
        ("SELECT 1; SELECT 2", "found 2; use script for several", (10, 18)),
    ],
)
def test_a_text_without_one_statement_is_shown_with_what_to_write(text: str, said: str, place: tuple[int, int]) -> None:
    with pytest.raises(ParseError, match=said) as caught:
        parse_one(text)
    assert (caught.value.span, caught.value.code) == (place, "several-statements")
    if not text.strip(" \n;") or text.startswith(" --"):
        assert "such as SHOW TABLES" in caught.value.message

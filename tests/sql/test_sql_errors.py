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
from tests.support.inside.sql import Name, SqlFragment, scan
from tests.support.refusals import refused
from tests.support.thoroughness import examples

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
    ("text", "place", "code"),
    [
        ("SAMPLE FROM s SEEDS (SELECT 1) AS v FANUOT (a => [1])", "FANUOT", "unexpected-word"),
        ("SAMPLE FROM s SEEDS (SELECT 1) AS v BATCH 10", "", "missing-clause"),
        ("SAMPLE FROM s FANOUT (a => [1])", "", "missing-clause"),
        (SAMPLE + "BATCH 10 EPOCHS 2 BATCH 20", "BATCH 20", "duplicate-clause"),
        (SAMPLE + "IN ORDER SHUFFLE", "SHUFFLE", "duplicate-clause"),
        (SAMPLE + "BATCH 10.5", "10.5", "bad-number"),
        (SAMPLE + "BATCH 10x", "x", "unexpected-word"),
        (SAMPLE + "BATCH ten", "ten", "unexpected-word"),
        (SAMPLE + "BATCH", "", "unexpected-end"),
        (SAMPLE + "BATCH ?", "?", "unexpected-word"),
        (SAMPLE + "METHOD LATES", "LATES", "unexpected-word"),
        (SAMPLE + "METHOD UNIFORM DEPENDENT BATCHES 3", "DEPENDENT", "unexpected-word"),
        (SAMPLE + "METHOD LABOR DEPENDENT BATCHES 1.5", "1.5", "bad-number"),
        (SAMPLE + "METHOD LATEST METHOD TOPK", "METHOD TOPK", "duplicate-clause"),
        (SAMPLE + "WEIGHT BY", "", "unexpected-end"),
        (SAMPLE + "WEIGHT BY a.b.c", ".", "unexpected-word"),
        (SAMPLE + "WITH REPLACEMNT", "REPLACEMNT", "unexpected-word"),
        (SAMPLE + "WITH REPLACEMENT WITHOUT REPLACEMENT", "WITHOUT REPLACEMENT", "duplicate-clause"),
        (SAMPLE + "WITH numba WITH torch", "WITH torch", "duplicate-clause"),
        (SAMPLE + "WITH jax", "jax", "unexpected-word"),
        (SAMPLE + "WITH (memry = '2GB')", "memry", "unknown-option"),
        (SAMPLE + "WITH (layout = 'x')", "layout", "unknown-option"),
        (SAMPLE + "WITH (memory = '2GB', memory = '3GB')", "memory = '3GB'", "duplicate-clause"),
        (SAMPLE + "WITH (memory = '2GB') WITH (memory = '2GB')", "WITH (memory = '2GB')", "duplicate-clause"),
        (SAMPLE + "WITH (memory = '2')", "'2'", "bad-size"),
        (SAMPLE + "WITH (memory = '0GB')", "'0GB'", "bad-size"),
        (SAMPLE + "WITH (memory = '-1GB')", "'-1GB'", "bad-size"),
        (SAMPLE + "WITH (memory = '99999999999TB')", "'99999999999TB'", "bad-size"),
        (SAMPLE + "WITH (memory = 2)", "2", "unexpected-word"),
        (SAMPLE + "TEMPORAL > SEED_TIME", ">", "unexpected-word"),
        (SAMPLE + "TEMPORAL < t", "t", "unexpected-word"),
        (SAMPLE + "WITHIN 'a day'", "'a day'", "unexpected-word"),
        (SAMPLE + "WITHIN ?", "?", "unexpected-word"),
        (SAMPLE + "WITHIN 3 WITHIN 4", "WITHIN 4", "duplicate-clause"),
        (SAMPLE + "NEGATIVES 3", "", "unexpected-end"),
        (SAMPLE + "NEGATIVES 1.5 PER POSITIVE", "1.5", "bad-number"),
        (SAMPLE + "EXCLUDE KNWN", "KNWN", "unexpected-word"),
        (SAMPLE + "EXCLUDE KNOWN EXCLUDE KNOWN EVER", "EXCLUDE KNOWN EVER", "duplicate-clause"),
        (SAMPLE + "EXCLUDE KNOWN AT", "", "unexpected-end"),
        (SAMPLE + "EXCLUDE SEEDS KEEP SEEDS", "KEEP SEEDS", "duplicate-clause"),
        (SAMPLE + "SEEDS EDGES e (SELECT 1)", "SEEDS EDGES e (SELECT 1)", "duplicate-clause"),
        (SAMPLE + "SUBSET 10 PERCENT", "", "unexpected-end"),
        (SAMPLE + "SUBSET 0x10 PERCENT PER EPOCH", "0x10", "bad-number"),
        (SAMPLE + "LAYOUT BLOCK", "BLOCK", "unexpected-word"),
        (SAMPLE + "ON cuda", "cuda", "unexpected-word"),
        (SAMPLE + "TEMPROAL < SEED_TIME", "TEMPROAL", "unexpected-word"),
        ("SAMPLE FROM s SEEDS EDGES (SELECT 1) FANOUT (a => [1])", "(", "unexpected-word"),
        ("SAMPLE FROM s SEEDS EDGES e (SELET 1) FANOUT (a => [1])", "SELET", "unexpected-word"),
        (SAMPLE + "BATCHH 3", "BATCHH", "unexpected-word"),
        ("EXPLAIN SAMPLE FROM s", "", "unexpected-end"),
        ("EXPLAIN ANALYSE " + SAMPLE, "ANALYSE", "explain-option"),
        ("EXPLAIN ANALYSE SELECT 1", "ANALYSE", "explain-option"),
        ("EXPLAIN () " + SAMPLE, ")", "explain-option"),
        ("EXPLAIN (CREATE SNAPSHOT s OF g)", "CREATE", "explain-option"),
        ("EXPLAIN EXPLAIN SELECT 1", "EXPLAIN", "unexpected-word"),
        ("EXPLAIN", "", "unexpected-end"),
        ("EXPLAIN (FROMAT json) " + SAMPLE, "FROMAT", "explain-option"),
        ("EXPLAIN (FORMAT text, FORMAT json) " + SAMPLE, "json", "duplicate-clause"),
        ("AUDIT SELECT 1", "SELECT", "unexpected-word"),
        ("SAMPLE FROM s SEEDS (SELECT 1) AS v FANOUT (a => [1.5])", "1.5", "bad-number"),
        ("SAMPLE FROM s SEEDS (SELECT 1) AS v FANOUT (a => [])", "]", "unexpected-word"),
        ("SAMPLE FROM s SEEDS (SELECT 1) AS v FANOUT (where => [1])", "where", "unexpected-word"),
        ("SAMPLE FROM s SEEDS (SELECT 1 AS v FANOUT (a => [1])", "(", "unclosed-bracket"),
        ("SAMPLE FROM s SEEDS () AS v FANOUT (a => [1])", ")", "unexpected-word"),
        ("SAMPLE FROM s SEEDS SELECT 1 AS v FANOUT (a => [1])", "SELECT", "unexpected-word"),
        ("CREATE", "", "unexpected-end"),
        ("CREATE TABEL t (a INT)", "TABEL", "unknown-kind"),
        ("CREATE TABLE AS SELECT 1", "AS", "unexpected-word"),
        ("CREATE TABLE t", "", "unexpected-end"),
        ("CREATE TABLE t ()", ")", "unexpected-word"),
        ("SHOW", "", "unexpected-end"),
        ("DESCRIBE", "", "unexpected-end"),
        ("SAMPLE FROM s SEEDS (SELECT 1) AS v FANOUT [5, 5]", "[", "unexpected-word"),
        ("CREATE SNAPSHOT s OF g CREATE SNAPSHOT t OF g", "CREATE", "unexpected-word"),
        ("\\dt", "\\", "unknown-statement"),
        (".tables", ".", "unknown-statement"),
        ("CREATE TABLE t AS MESSAGE 'x'", "MESSAGE", "unexpected-word"),
        ("CREATE GRAPH g VERTEX TABLES (a KEY (b))", "GRAPH", "unknown-kind"),
        ("SELCT 1", "SELCT", "unknown-statement"),
        ("inser INTO t SELECT 1", "inser", "unknown-statement"),
        ("42", "42", "unknown-statement"),
        ("INSERT INTO t (a, b)", "", "unexpected-end"),
        ("INSERT INTO t (a b) SELECT 1", "b", "unexpected-word"),
        ("INSERT INTO t SELCT 1", "SELCT", "unexpected-word"),
        ("SAMPLE FROM s SEEDS (SELET 1) AS v FANOUT (a => [1])", "SELET", "unexpected-word"),
        ("CREATE TABLE t AS 42", "42", "unexpected-word"),
        ("DELETE FROM t WHERE", "", "unexpected-end"),
        ("DELETE FROM t USING", "", "unexpected-end"),
        ("DELETE FROM t WHER a = 1", "a", "unexpected-word"),
        ("UPDTE t SET a = 1", "UPDTE", "unknown-statement"),
        ("UPDATE t ST a = 1", "a", "unexpected-word"),
        ("UPDATE t SET a", "", "unexpected-end"),
        ("CREATE CACHE ON SAMPLER t", "SAMPLER", "unexpected-word"),
        ("SAMPLE USING t REFRESH FBL SHARED", "SHARED", "unexpected-word"),
        ("SAMPLE USING t REFRESH FCR EVERY 5 BATCHES FETCH 9 PERCENT", "FETCH", "unexpected-word"),
        ("UPDATE t SET a = WHERE b", "WHERE", "unexpected-word"),
        ("UPDATE t SET a = , b = 2", ",", "unexpected-word"),
        ("UPDATE t SET a = 1, WHERE b", "WHERE", "unexpected-word"),
        ("UPDATE t SET a = 1 FROM WHERE b", "WHERE", "unexpected-word"),
        ("UPDATE t SET a = 1 WHERE", "", "unexpected-end"),
        ("UPDATE ? SET a = 1", "?", "unexpected-word"),
        ("ALTER", "", "unexpected-end"),
        ("ALTER TABEL t DROP a", "TABEL", "unknown-kind"),
        ("ALTER TABLE t", "", "unexpected-end"),
        ("ALTER TABLE t ADDD a INT", "ADDD", "unexpected-word"),
        ("ALTER TABLE t ADD COLUMN", "", "unexpected-end"),
        ("ALTER TABLE t RENAME a b", "b", "unexpected-word"),
        ("CREATE TAG ?", "?", "unexpected-word"),
        ("CREATE TAG x AT (TAG => y)", "y", "bad-bound"),
        ("CREATE TAG x AT (VERSION => )", ")", "bad-bound"),
        ("DIFF t FROM VERSION 1", "t", "unexpected-word"),
        ("DIFF GRAPH g", "", "unexpected-end"),
        ("DIFF SNAPSHOT a b", "b", "unexpected-word"),
        ("DIFF SNAPSHOT a WITH b COLUMNS", "COLUMNS", "unexpected-word"),
        ("DIFF TABLE t FROM VERSION 1 TO TAG 'x' FEATURES", "'x' FEATURES", "bad-bound"),
        ("REFRESH s", "s", "unknown-kind"),
        ("REFRESH SNAPSHT s", "SNAPSHT", "unknown-kind"),
        ("REFRESH SNAPSHOT s FUL", "FUL", "unexpected-word"),
        ("REFRESH SNAPSHOT s DRY", "", "unexpected-end"),
        ("EXPIRE SNAPSHOTS", "", "missing-clause"),
        ("EXPIRE SNAPSHOTS OF g DRY RUN", "", "missing-clause"),
        ("EXPIRE SNAPSHOTS OLDER INTERVAL '1 day'", "INTERVAL", "unexpected-word"),
        ("EXPIRE SNAPSHOTS OLDER THAN", "", "unexpected-end"),
        ("EXPIRE SNAPSHOTS OLDER THAN now()", "now", "unexpected-word"),
        ("EXPIRE SNAPSHOTS OLDER THAN $age", "$age", "unexpected-word"),
        ("EXPIRE SNAPSHOTS RETAIN LAST ten", "ten", "unexpected-word"),
        ("EXPIRE SNAPSHOTS RETAIN LAST 1.5", "1.5", "bad-number"),
        ("EXPIRE SNAPSHOTS RETAIN LAST 1 RETAIN LAST 2", "RETAIN LAST 2", "duplicate-clause"),
        ("DROP TABLE t CASCADES", "CASCADES", "unexpected-word"),
        ("EXPLAIN (FORMAT jsn) REFRESH SNAPSHOT s", "jsn", "unexpected-word"),
        ("EXPLAIN (FORMAT json, FORMAT text) REFRESH SNAPSHOT s", "text", "duplicate-clause"),
        ("EXPLAIN CREATE SNAPSHOT s", "", "unexpected-end"),
        ("DIFF TABLE t", "", "unexpected-end"),
        ("DIFF TABLE t FROM 3 TO 4", "3", "unexpected-word"),
        ("DIFF TABLE t FROM VERSION TO VERSION 4", "TO", "unexpected-word"),
        ("DIFF TABLE t FROM TAG june", "june", "bad-bound"),
        ("CHECK TABLE t", "TABLE", "unexpected-word"),
        ("VACUUM RETAIN DRY RUN", "DRY", "unexpected-word"),
        ("START", "", "unexpected-end"),
        ("COMIT", "COMIT", "unknown-statement"),
        ("SELECT * FROM t AS a AT (VERSION => 3)", "AT", "at-place"),
        ("SELECT 1; SELECT * FROM t AT (TAG => x)", "x", "bad-bound"),
        ("INSERT INTO t FROM u AT (VERSION => )", ")", "bad-bound"),
        ("COPY t FROM x", "x", "unexpected-word"),
        (SNAPSHOT + "FOR EVENT_TIME AS OF now()", "now", "unexpected-word"),
        (SNAPSHOT + "FOR EVENT_TIME AS OF 3 + 4", "+", "unexpected-word"),
        (SNAPSHOT + "AT (VERSION = 3)", "=", "unexpected-word"),
        (SNAPSHOT + "AT (TAGS => 'x')", "TAGS", "unexpected-word"),
        (SNAPSHOT + "ELEMENTS (a) ELEMENTS (b)", "ELEMENTS (b)", "duplicate-clause"),
        (SNAPSHOT + "FOR EVENT_TIME AS OF 1 FOR EVENT_TIME AS OF 2", "FOR EVENT_TIME AS OF 2", "duplicate-clause"),
        (SNAPSHOT + "FOR EVENT_TIME WINDOW", "", "unexpected-end"),
        (SNAPSHOT + "FOR EVENT_TIME WINDOW INTERVAL 7", "", "unexpected-end"),
        (SNAPSHOT + "FOR EVENT_TIME WINDOW INTERVAL '7 days' ENDNG 5", "5", "unexpected-word"),
        (SNAPSHOT + "FOR EVENT_TIME WINDOW 7 ENDING", "", "unexpected-end"),
        (SNAPSHOT + "WITH (layout 'full')", "'full'", "unexpected-word"),
        (SNAPSHOT + "WITH (layuot = 'full')", "layuot", "unknown-option"),
        (SNAPSHOT + "WITH (colour = 'full')", "colour", "unknown-option"),
        (SNAPSHOT + "WITH (layout = 'bitmp')", "'bitmp'", "unknown-layout"),
        (SNAPSHOT + "WITH (layout = zip)", "zip", "unknown-layout"),
        (SNAPSHOT + "WITH (layout = full, layout = ends)", "layout = ends", "duplicate-clause"),
        (SNAPSHOT + "WITH (layout = full) WITH (layout = full)", "WITH (layout = full)", "duplicate-clause"),
        (SNAPSHOT + "WHERE", "", "unexpected-end"),
        (VERTICES + " FEATURES (x) TARGET (y) FEATURES (z))", "FEATURES (z)", "duplicate-clause"),
        (VERTICES + " FEATURES ((x, y)))", "(x, y)", "feature-name-missing"),
        (VERTICES + " FEATURES (x AS a AS b))", "AS b", "duplicate-clause"),
        (VERTICES + " FEATURES (x TYPE int8 TYPE int8))", "TYPE int8", "duplicate-clause"),
        (VERTICES + " FEATURES ((x, y) AS a SPARSE [0]))", "0", "bad-number"),
        (VERTICES + " FEATURES ((x, y) AS a SPARSE [1.5]))", "1.5", "bad-number"),
        (VERTICES + " FEATURES (x FROM h KEY (k)))", ")", "unexpected-word"),
        (VERTICES + " FEATURES (x FROM h KEY (k) EVENT TIME (a, b)))", "b", "event-time-columns"),
        (VERTICES + " EVENT TIME (t, u))", "u", "event-time-columns"),
        (VERTICES + " EVENT TIME (t) NULLS STATC)", "STATC", "unexpected-word"),
        (EDGES + " EVENT TIME (t, u, v))", "v", "event-time-columns"),
        (VERTICES + " FEATURES (x DEFAULT 1e999))", "1e999", "bad-number"),
        (VERTICES + " TARGET (c AS z))", "z", "target-name"),
        (VERTICES + ", c AS)", ")", "unexpected-word"),
        (VERTICES + ") EDGE TABLES (e SOURCE KEY (a) REFERENCES a)", ")", "unexpected-word"),
        ("DROP TABLE a, b", ",", "unexpected-word"),
        ("MERGE INTO t USING u ON a", "", "unexpected-end"),
        ("MERGE INTO t USING u ON a WHEN NOT MATCHED THEN DELETE", "DELETE", "bad-merge"),
        ("MERGE INTO t USING u ON a WHEN MATCHED THEN INSERT", "INSERT", "bad-merge"),
        (
            "MERGE INTO t USING u ON a WHEN MATCHED THEN DELETE WHEN MATCHED AND b THEN DELETE",
            "WHEN MATCHED AND b THEN DELETE",
            "bad-merge",
        ),
        ("MERGE INTO t USING u ON a WHEN MATCHED THEN DROP", "DROP", "unexpected-word"),
        ("INSERT INTO t BY NAMES SELECT 1", "NAMES", "unexpected-word"),
        ("INSERT OR UPDATE INTO t SELECT 1", "UPDATE", "unexpected-word"),
        ("INSERT OR IGNORE INTO t SELECT 1 ON CONFLICT DO NOTHING", "ON CONFLICT DO NOTHING", "duplicate-clause"),
        ("INSERT INTO t SELECT 1 ON CONFLICT (a) DO UPDATE SET", "", "unexpected-end"),
        ("UPDATE t SET (a, b) = (1, 2, 3)", "(1, 2, 3)", "unexpected-word"),
        ("UPDATE t SET (a, b) = ?", "?", "unexpected-word"),
        ('DROP TABLE ""', '""', "empty-name"),
        ("SELECT (1", "(", "unclosed-bracket"),
        ("SELECT 1)", ")", "unclosed-bracket"),
        ("SELECT [1)", "[", "unclosed-bracket"),
        ("SELECT 'abc", "'", "unclosed-quote"),
        ('SELECT "abc', '"', "unclosed-quote"),
        ("SELECT /* a", "/*", "unclosed-comment"),
    ],
)
def test_a_mistake_is_named_and_shown(text: str, place: str, code: str) -> None:
    assert code in PARSING | {"refused"}
    with refused(code, at=place):
        parse(text)


def test_no_error_uses_the_names_of_the_parser() -> None:
    for word in ["SAMPLE FROM s (", SNAPSHOT + ",", VERTICES + ",", "COPY t FROM 'x' (", "INSERT INTO t (", "SHOW"]:
        message = failure(word + ")" * word.count("(")).message
        assert not any(name in message for name in ("$END", "LPAR", "RPAR", "COMMA", "__ANON", "MINUS", "NAME"))


def test_an_error_in_a_script_shows_its_line() -> None:
    assert str(failure("SELECT 1;\nDROP TABLE x y;\nSELECT 2")) == (
        "expected CASCADE, RESTRICT or the end of the statement, found y\n"
        "  line 2:\n  DROP TABLE x y;\n               ^"
    )


@pytest.mark.parametrize(
    ("text", "place", "code"),
    [
        ("UPDATE t SET a = f(1, 2), t.b = 2", "t.b", "refused"),
        ("UPDATE t AT (VERSION => 3) SET a = 1", "AT", "refused"),
        ("WITH x AS (SELECT 1) UPDATE t AT (VERSION => 3) SET a = 1", "AT", "refused"),
        ("EXPLAIN ANALYZE (WITH a AS (SELECT 1) DELETE FROM t)", "DELETE", "refused"),
        ("DELETE FROM t AT (TAG => 'x') WHERE a", "AT", "refused"),
        ("INSERT INTO t AT (VERSION => 3) SELECT 1", "AT", "refused"),
        ("MERGE INTO t AT (VERSION => 3) USING u ON a WHEN MATCHED THEN DELETE", "AT", "refused"),
        ("UPSERT INTO t SELECT 1", "UPSERT", "refused"),
        ("CREATE UNIQUE INDEX i ON t (a)", "UNIQUE", "refused"),
        ("CREATE VIEW v AS SELECT $1", "$1", "refused"),
        ("CREATE MACRO f(a) AS a + $b", "$b", "refused"),
        ("ATTACH 'x.db'", "ATTACH", "refused"),
        ("DETACH x", "DETACH", "refused"),
        ("INSTALL httpfs", "INSTALL", "refused"),
        ("LOAD httpfs", "LOAD", "refused"),
        ("SET threads = 1", "SET", "refused"),
        ("RESET threads", "RESET", "refused"),
        ("PRAGMA version", "PRAGMA", "refused"),
        ("USE x", "USE", "refused"),
        ("CALL f()", "CALL", "refused"),
        ("ALTER TABLE t RENAME TO u", "RENAME", "refused"),
        ("ALTER TABLE t ALTER COLUMN a TYPE INT", "ALTER", "refused"),
        ("ALTER TABLE IF EXISTS t ALTER a SET DATA TYPE INT", "ALTER", "refused"),
        ("ALTER TABLE t ALTER a SET DEFAULT 1", "ALTER", "refused"),
        ("ALTER TABLE t ADD a INT, DROP b", ",", "refused"),
        ("ALTER SNAPSHOT s SET x", "SNAPSHOT", "refused"),
        ("ALTER GRAPH g ADD x", "GRAPH", "refused"),
        ("SAVEPOINT a", "SAVEPOINT", "refused"),
        ("RELEASE SAVEPOINT a", "RELEASE", "refused"),
        ("ROLLBACK TO SAVEPOINT a", "TO", "refused"),
        ("DESCRIBE TAG june", "TAG", "refused"),
        ("EXPORT DATABASE 'x'", "EXPORT", "refused"),
        ("IMPORT DATABASE 'x'", "IMPORT", "refused"),
        ("SHOW INDEXES", "INDEXES", "refused"),
        ("SHOW TABELS", "TABELS", "refused"),
        ("EXPLAIN VACUUM t; EXPLAIN UPSERT INTO t", "UPSERT", "refused"),
        ("SUMMARIZE GRAPH g", "GRAPH", "refused"),
        ("EXPLAIN CREATE SNAPSHOT s OF g WHERE a = $x", "$x", "refused"),
        ("(DELETE FROM t)", "DELETE", "refused"),
        ("SELECT $a, ? FROM t", "?", "refused"),
        ("DELETE FROM t WHERE a = ? AND b = $b", "?", "refused"),
        (SNAPSHOT + "WHERE a = $x", "$x", "refused"),
        (SNAPSHOT + "AT (VERSION => ?)", "?", "refused"),
        (VERTICES + " FEATURES (x DEFAULT ?))", "?", "refused"),
    ],
)
def test_what_is_not_allowed_is_refused_by_name(text: str, place: str, code: str) -> None:
    with refused(code, at=place):
        parse(text)


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


@settings(max_examples=examples(500), deadline=None, database=None)
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
            assert place.text == (written if isinstance(place, SqlFragment) else scan(written)[0].identifier)
            assert statement.span.start <= place.span.start < place.span.stop <= statement.span.stop


def assert_it_shows_a_place(error: SnapdbError, text: str) -> None:
    assert isinstance(error, ParseError)
    assert error.text == text.replace("\0", "\ufffd")  # what nothing can show
    assert error.span is not None
    assert 0 <= error.span.start <= error.span.stop <= len(text)
    assert str(error).endswith("^")


@pytest.mark.parametrize(
    ("text", "place"),
    [("", (0, 0)), (" \n ", (0, 0)), (" -- later", (1, 9)), (";", (0, 1)), ("SELECT 1; SELECT 2", (10, 18))],
)
def test_a_text_without_one_statement_is_shown_with_what_to_write(text: str, place: tuple[int, int]) -> None:
    with refused("several-statements") as caught:
        parse_one(text)
    assert caught.value.span == place

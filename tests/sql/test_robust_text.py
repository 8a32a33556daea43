"""Texts beyond all measure end in a result or in an error that is placed, never in a crash."""

from __future__ import annotations

import subprocess
import sys

import pytest

import snapdb
from snapdb.sql import parse
from tests.support.refusals import refused
from tests.support.waiting import PATIENCE

DEEP = 10_000
OPEN, CLOSE = "(" * DEEP, ")" * DEEP
SHOP = """
CREATE TABLE t AS SELECT range::BIGINT AS a, range AS b FROM range(4); CREATE TABLE u AS FROM t;
CREATE PROPERTY GRAPH g VERTEX TABLES (t KEY (a)) EDGE TABLES (u SOURCE KEY (a) REFERENCES t (a)
  DESTINATION KEY (b) REFERENCES t (a));
CREATE SNAPSHOT q OF g;
"""
NESTED = [
    f"SELECT {OPEN}1{CLOSE}",
    f"{OPEN}SELECT 1{CLOSE}",
    f"EXPLAIN {OPEN}SELECT 1{CLOSE}",
    f"DELETE FROM t WHERE {OPEN}a{CLOSE}",
    f"UPDATE t SET a = {OPEN}a{CLOSE}",
    f"CREATE TABLE z (a INTEGER{'[]' * DEEP})",
    f"SELECT {'[' * DEEP}1{']' * DEEP}",
    f"SELECT {'NOT ' * DEEP}true",
    f"SELECT {'(SELECT ' * DEEP}1{CLOSE}",
    f"SAMPLE FROM q SEEDS (SELECT {OPEN}a{CLOSE} FROM t) AS t FANOUT (DEFAULT => [1])",
    f"SAMPLE FROM q SEEDS (SELECT a FROM t) AS t FANOUT {OPEN}DEFAULT => [1]{CLOSE}",
    f"CREATE PROPERTY GRAPH h VERTEX TABLES {OPEN}t KEY (a){CLOSE}",
    f"CREATE SNAPSHOT s OF g WHERE u.a > {OPEN}1{CLOSE}",
    f"CREATE TAG x AT (VERSION => {OPEN}1{CLOSE})",
    "SELECT count(*) FROM t " + "AT (VERSION => (SELECT max(a) FROM t " * DEEP + "AT (VERSION => 1)" + "))" * DEEP,
    f"EXPIRE SNAPSHOTS OLDER THAN {OPEN}now(){CLOSE} DRY RUN",
    f"{'EXPLAIN ' * DEEP}SELECT 1",
    f"{'CREATE TASK x SCHEDULE EVERY INTERVAL 1 day AS ' * DEEP}SELECT 1",
]
WORK = """
import sys, snapdb
with snapdb.connect() as db:
    db.script(sys.stdin.readline().replace(chr(1), chr(10)))
    for line in sys.stdin:
        try:
            db.execute(line.rstrip()).fetchall()
            print("ran")
        except snapdb.SnapdbError as error:
            print(type(error).__name__, bool(str(error)), error.span is not None)
    print(db.execute("SELECT count(*) FROM t").fetchone()[0], "rows")
"""


@pytest.mark.slow
def test_ten_thousand_brackets_are_answered_and_the_process_lives() -> None:
    lines = [SHOP.replace("\n", "\x01"), *NESTED]
    done = subprocess.run(
        [sys.executable, "-c", WORK],
        input="\n".join(lines) + "\n",
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    answers = done.stdout.splitlines()
    assert (done.returncode, len(answers)) == (0, len(NESTED) + 1), done.stderr[-2000:]
    assert answers.pop() == "4 rows"
    assert set(answers) <= {"ran", "ParseError True True", "BindError True True"}


@pytest.mark.parametrize(
    "text",
    [
        f"SELECT '{'a' * 10**6}'",
        f"INSERT INTO t SELECT 1 MESSAGE '{chr(39) * 10**6}'",
        f'DROP TABLE "{"a" * 10**6}"',
        f"SELECT {'1+' * 10_000}1",
        f"INSERT INTO t ({'a,' * 4_000}a) SELECT 1",
        f"CREATE SNAPSHOT s OF g ELEMENTS ({'a,' * 4_000}a)",
        f"SELECT * FROM {'t AT (VERSION => 1), ' * 2_000}t",
        f"{'/*' * DEEP}{'*/' * DEEP}SELECT 1",
    ],
    ids=range(8),
)
def test_a_long_text_is_read_and_printed(text: str) -> None:
    (tree,) = parse(text)
    assert parse(tree.to_sql()) == (tree,)


@pytest.mark.parametrize("text", ["a" * 10**6, f"DROP {'a' * 10**6}", "/*" * 10**5, '"' * 999_999, "'" * 999_999])
def test_a_long_mistake_is_shown_shortly(text: str) -> None:
    with pytest.raises(snapdb.ParseError) as error:
        parse(text)
    assert len(str(error.value)) < 1000


@pytest.mark.parametrize(
    "space", ["\r\n", "\t", "\ufeff", "\u00a0", "\u3000", "\u200b", "\f", " /* a /* b */ c */ ", "--x\n"]
)
def test_what_separates_words_is_no_part_of_them(space: str) -> None:
    assert parse(f"{space}DROP{space}TABLE{space}IF{space}EXISTS{space}t{space};{space}") == parse(
        "DROP TABLE IF EXISTS t"
    )


def test_letters_that_only_look_like_a_keyword_are_none() -> None:
    with refused("unknown-statement", at="\u017fHOW"):
        parse("\u017fHOW TABLES")

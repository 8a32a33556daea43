"""The clock stands still from BEGIN to COMMIT; long VALUES are read quickly, and NUL is kept or refused in words."""

from __future__ import annotations

from typing import Any

import pytest

from snapdb import Database, SnapdbError
from tests.support.inside.sql import first_row
from tests.support.refusals import refused

CLOCKS = (
    *("now()", "current_timestamp", "transaction_timestamp()", "get_current_timestamp()", "current_date", "today()"),
    *("current_time", "get_current_time()", "localtime", "localtimestamp", "current_localtime()"),
    "current_localtimestamp()",
)
EVERY = f"SELECT {', '.join(CLOCKS)}"


def times(db: Database) -> tuple[Any, ...]:
    (row,) = db.execute(EVERY).fetchall()
    return row


def test_every_clock_gives_one_time_in_a_transaction(db: Database) -> None:
    outside = db.execute(EVERY).arrow().schema
    db.execute("CREATE TABLE t (at TIMESTAMPTZ, day DATE)")
    before = times(db)
    db.execute("BEGIN")
    first = times(db)
    db.execute("INSERT INTO t VALUES (now(), current_date)")
    db.execute("UPDATE t SET at = now() WHERE at <= current_timestamp")
    db.execute("INSERT INTO t SELECT transaction_timestamp(), today() FROM t")
    assert times(db) == first
    assert db.execute(EVERY).arrow().schema == outside
    db.execute("COMMIT")
    assert db.execute("SELECT DISTINCT at, day FROM t").fetchall() == [(first[0], first[4])]
    after = times(db)
    assert before[0] < first[0] < after[0]


@pytest.mark.parametrize("end", ["ROLLBACK", "COMMIT"])
def test_the_clock_goes_on_after_any_end_of_a_transaction(end: str, db: Database) -> None:
    db.execute("BEGIN")
    held = times(db)[0]
    if end == "ROLLBACK":
        with pytest.raises(SnapdbError):
            db.execute("SELECT nope")
    db.execute(end)
    assert times(db)[0] > held
    with db.transaction():
        inner = times(db)
        assert times(db) == inner
    assert inner[0] > held


@pytest.mark.parametrize(
    "query", ["VALUES (1, 'it''s', -2.5e3, NULL, true, .5), (2, '), (', +1, 'b', FALSE, 1.)", "values\n( 1 )\t,\n(2 ) "]
)
def test_values_of_literals_are_known(query: str, db: Database) -> None:
    assert (row := first_row(query)) is not None
    assert db.execute(row).columns == db.execute(query).columns
    assert db.execute(query).fetchall()[:1] == db.execute(row).fetchall()


@pytest.mark.parametrize(
    "query",
    [
        "VALUES (a)",
        "VALUES (1), (now())",
        "VALUES (1) LIMIT 1",
        "VALUES (?)",
        "SELECT 1",
        "VALUES (1), (-- x\n2)",
        "VALUES (1), (e'\\'')",
        "VALUES ((1))",
        "VALUES (1), ",
        "VALUES ('open), (2)",
        "VALUES (1 AT)",
    ],
)
def test_other_values_are_read_word_by_word(query: str) -> None:
    assert first_row(query) is None


def test_values_of_literals_are_inserted_as_others_are(db: Database) -> None:
    db.execute("CREATE TABLE t (a BIGINT, b VARCHAR, c DOUBLE)")
    rows = ", ".join(f"({i}, 'it''s {i}', {i}.5)" for i in range(5000))
    assert db.execute(f"INSERT INTO t VALUES {rows}").rowcount == 5000
    assert db.execute("SELECT count(*), sum(a), max(c) FROM t").fetchall() == [(5000, 12497500, 4999.5)]
    for values, code in {
        "(1, 'x')": "column-count",
        "(1, 'x', 2), ('many', 'y', 3)": "bad-value",
        "(1, 'x', 2), (3, 'y')": "parse",
    }.items():
        with refused(code) as error:
            db.execute(f"INSERT INTO t VALUES {values}")
        assert error.value.span is not None
    assert db.execute("SELECT count(*) FROM t").fetchall() == [(5000,)]


def test_nul_in_a_string_is_kept_and_in_a_statement_is_refused_with_the_way_round(db: Database) -> None:
    db.execute("CREATE TABLE t AS SELECT 'a' || chr(0) || 'b' AS s")
    db.execute("INSERT INTO t VALUES (?)", ["c\0"])
    assert db.execute("SELECT s, length(s) FROM t ORDER BY s").fetchall() == [("a\0b", 3), ("c\0", 2)]
    assert db.execute("SELECT s FROM t WHERE s = ?", ["c\0"]).arrow()["s"].to_pylist() == ["c\0"]
    with refused("bad-character", "NUL", at="�") as error:
        db.execute("SELECT 'a\0b'")
    assert (error.value.code, error.value.column) == ("bad-character", 10)

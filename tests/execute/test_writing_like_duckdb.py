"""Statements that write give the same rows, and are accepted or refused, as in DuckDB."""

from __future__ import annotations

from typing import Any

import duckdb
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import snapdb

START = "CREATE TABLE t (a INTEGER NOT NULL, b INTEGER DEFAULT 5, s VARCHAR)"
RETURNED = ["*", "a, b + 1 AS c", "t.*, upper(s) AS u", "a"]
rows = st.tuples(st.integers(0, 3), st.sampled_from(["DEFAULT", "NULL", "1", "2"]), st.sampled_from(["'x'", "NULL"]))
values = st.lists(rows, min_size=1, max_size=3).map(
    lambda many: "VALUES " + ", ".join(f"({', '.join(map(str, row))})" for row in many)
)
conditions = st.sampled_from(["", " WHERE a > 1", " WHERE b IS NULL", " WHERE a IN (SELECT k FROM x)"])
writes = st.one_of(
    values.map("INSERT INTO t {}".format),
    st.sampled_from(["INSERT INTO t BY NAME SELECT 'n' AS s, 2 AS a", "INSERT INTO t BY NAME SELECT 1 AS z"]),
    st.sampled_from(["INSERT INTO t DEFAULT VALUES", "WITH x AS (SELECT 3 AS k) INSERT INTO t (a) SELECT k FROM x"]),
    conditions.map("WITH x AS (SELECT 2 AS k) UPDATE t SET (b, s) = (a + 1, 'u'){}".format),
    conditions.map("WITH x AS (SELECT 1 AS k) DELETE FROM t{}".format),
    st.just("TRUNCATE t"),
)
statements = st.lists(st.tuples(writes, st.sampled_from(["", *RETURNED])), min_size=1, max_size=6)


def outcome(run: Any, error: type[Exception], text: str) -> list[Any] | None:
    """The rows of a statement in order of their values, or None if it is refused."""
    try:
        return sorted(run(text), key=repr)
    except error:
        return None


@settings(max_examples=12, deadline=None, database=None, suppress_health_check=list(HealthCheck))
@given(statements)
def test_the_same_statements_give_the_same_rows(many: list[tuple[str, str]]) -> None:
    peer = duckdb.connect()
    peer.execute(START)
    with snapdb.connect() as db:
        db.execute(START)
        for write, listed in many:
            returns = bool(listed) and not write.startswith("TRUNCATE")
            text = f"{write} RETURNING {listed}" if returns else write
            ours = outcome(lambda text: db.execute(text).fetchall(), snapdb.SnapdbError, text)
            theirs = outcome(lambda text: peer.execute(text).fetchall(), duckdb.Error, text)
            assert (ours is None) == (theirs is None), text
            assert not returns or ours == theirs, text
            read = "SELECT * FROM t ORDER BY ALL"
            assert db.execute(read).fetchall() == peer.execute(read).fetchall(), text


@pytest.mark.parametrize("params", [[1, 10, 100], {"a": 1, "b": 10, "c": 100}], ids=["positional", "named"])
def test_parameters_of_a_list_are_those_of_the_statement(params: Any) -> None:
    marks = ("?", "?", "?") if isinstance(params, list) else ("$a", "$b", "$c")
    with snapdb.connect() as db:
        db.execute("CREATE TABLE t (a INTEGER, b INTEGER)")
        insert = "INSERT INTO t VALUES ({}, {}) RETURNING a + {} AS c".format(*marks)
        assert db.execute(insert, params).fetchall() == [(101,)]
        update = "UPDATE t SET b = {} WHERE b = {} RETURNING b + {} AS c".format(*marks)
        assert db.execute(update, params).fetchall() == [(101,)]


def test_a_result_has_rows_and_a_message() -> None:
    with snapdb.connect() as db:
        db.execute("CREATE TABLE t (a INTEGER)")
        result = db.execute("INSERT INTO t VALUES (1), (2) RETURNING a * 2 AS twice")
        assert result.is_query
        assert result.columns == ["twice"]
        assert result.fetchall() == [(2,), (4,)]
        assert result.message == "version 2: 2 rows added to t"
        db.execute("DELETE FROM t RETURNING a").close()  # rows that are not read
        assert db.execute("SELECT count(*) FROM t").fetchone() == (0,)


KEYED = "CREATE TABLE t (a INTEGER PRIMARY KEY, b INTEGER DEFAULT 5, s VARCHAR, u INTEGER UNIQUE)"
keyed_rows = st.lists(
    st.tuples(st.integers(1, 4), st.sampled_from(["DEFAULT", "NULL", "1"]), st.integers(1, 6)), min_size=1, max_size=3
).map(lambda many: "VALUES " + ", ".join(f"({a}, {b}, 'v', {u})" for a, b, u in many))
actions = st.sampled_from(
    [
        "ON CONFLICT (a) DO NOTHING",
        "ON CONFLICT (a) DO UPDATE SET b = excluded.b, s = t.s || excluded.s",
        "ON CONFLICT (u) DO UPDATE SET b = b + 1 WHERE excluded.a > 2",
        "ON CONFLICT (a) DO UPDATE SET u = excluded.u",
    ]
)


@settings(max_examples=12, deadline=None, database=None, suppress_health_check=list(HealthCheck))
@given(st.lists(st.tuples(keyed_rows, actions), min_size=2, max_size=6))
def test_conflicts_are_resolved_as_in_duckdb(many: list[tuple[str, str]]) -> None:
    peer = duckdb.connect()
    peer.execute(KEYED)
    with snapdb.connect() as db:
        db.execute(KEYED)
        for listed, action in many:
            text = f"INSERT INTO t {listed} {action} RETURNING a, b, s, u"
            ours = outcome(lambda text: db.execute(text).fetchall(), snapdb.SnapdbError, text)
            theirs = outcome(lambda text: peer.execute(text).fetchall(), duckdb.Error, text)
            assert ours == theirs, text
            read = "SELECT * FROM t ORDER BY ALL"
            assert db.execute(read).fetchall() == peer.execute(read).fetchall(), text


sources = st.lists(
    st.tuples(st.integers(1, 6), st.integers(0, 3)), min_size=1, max_size=4, unique_by=lambda row: row[0]
)
clauses = st.lists(
    st.sampled_from(
        [
            "WHEN MATCHED AND x.b > 1 THEN DELETE",
            "WHEN MATCHED THEN UPDATE SET b = t.b + x.b, s = 'm'",
            "WHEN MATCHED AND t.a = 2 THEN DO NOTHING",
            "WHEN NOT MATCHED AND x.a < 4 THEN INSERT (a, b) VALUES (x.a, x.b)",
            "WHEN NOT MATCHED THEN INSERT BY NAME",
            "WHEN NOT MATCHED BY SOURCE AND t.a > 3 THEN DELETE",
            "WHEN NOT MATCHED BY SOURCE THEN UPDATE SET b = 0",
        ]
    ),
    min_size=1,
    max_size=4,
)


@settings(max_examples=15, deadline=None, database=None, suppress_health_check=list(HealthCheck))
@given(sources, clauses)
def test_merge_does_what_duckdb_does(rows: list[tuple[int, int]], many: list[str]) -> None:
    listed = ", ".join(f"({a}, {b})" for a, b in rows)
    text = f"MERGE INTO t USING (VALUES {listed}) AS x(a, b) ON t.a = x.a {' '.join(many)} RETURNING merge_action, *"
    start = "INSERT INTO t SELECT range, range % 3, 'o' FROM range(1, 6)"
    peer = duckdb.connect()
    peer.execute(START)
    peer.execute(start)
    with snapdb.connect() as db:
        db.execute(START)
        db.execute(start)
        ours = outcome(lambda text: db.execute(text).fetchall(), snapdb.SnapdbError, text)
        assert ours == outcome(lambda text: peer.execute(text).fetchall(), duckdb.Error, text), text
        read = "SELECT * FROM t ORDER BY ALL"
        assert db.execute(read).fetchall() == peer.execute(read).fetchall(), text

"""A statement that an interrupt does not end is left behind, and the next one runs."""

from __future__ import annotations

import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import duckdb
import pytest

import snapdb
from snapdb.sql_engine import SqlEngine, engine
from tests.support.refusals import refused
from tests.support.waiting import PATIENCE, interrupting


class Deaf:
    """A cursor that does not listen, as DuckDB's when it has lost a task."""

    def __init__(self) -> None:
        self.told = 0
        self.over = threading.Event()

    def execute(self, sql: str, parameters: Any) -> None:
        self.over.wait(PATIENCE)

    def fetchall(self) -> list[Any]:
        return []

    def interrupt(self) -> None:
        self.told += 1


def test_what_does_not_end_is_abandoned(monkeypatch: pytest.MonkeyPatch) -> None:
    cursor, stopped, left = Deaf(), threading.Event(), list[Deaf]()
    monkeypatch.setattr(engine, "time", SimpleNamespace(monotonic=lambda: 60.0 if cursor.told > 1 else 0.0))
    stopped.set()
    with pytest.raises(duckdb.InterruptException):
        engine._run_apart(cursor, "COPY", None, stopped, lambda: left.append(cursor))
    assert left == [cursor]
    assert cursor.told > 1
    cursor.over.set()


def test_an_error_and_rows_come_back_as_from_the_cursor_itself() -> None:
    with duckdb.connect() as cursor:
        assert engine._run_apart(cursor, "SELECT ?", [7], threading.Event(), pytest.fail) == [(7,)]
        with pytest.raises(duckdb.BinderException):
            engine._run_apart(cursor, "SELECT nothing", None, threading.Event(), pytest.fail)


def test_sessions_after_an_abandoned_one_have_another_engine(tmp_path: Path) -> None:
    sql_engine = SqlEngine(tmp_path)
    with sql_engine.session() as session:
        session.abandon()
    assert engine._ABANDONED
    with sql_engine.session() as session:
        assert session.rows("SELECT 42") == [(42,)]
    sql_engine.close()


@pytest.mark.parametrize("statement", ["CREATE TABLE t AS {}", "COPY ({}) TO 't.parquet'"])
def test_a_stopped_write_leaves_the_database_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, statement: str
) -> None:
    monkeypatch.chdir(tmp_path)
    rows = "SELECT a.range AS x, b.range AS y FROM range(1000000) a, range(100000) b"
    with snapdb.connect("test.snapdb") as db:
        with interrupting(db.interrupt), refused("interrupted"):
            db.execute(statement.format(rows))
        assert db.execute("SELECT count(*) FROM snapdb.tables").fetchone() == (0,)
        assert db.execute("CHECK DATABASE").fetchall() == []
        assert not Path("t.parquet").exists()

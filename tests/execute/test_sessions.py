"""Sessions of the SQL engine end at any moment: the garbage collector and signal handlers run in whichever thread."""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from types import FrameType
from typing import Any

import pytest

import snapdb
from snapdb import Database
from tests.support.waiting import PATIENCE


def while_a_session_begins(act: Callable[[], object]) -> Callable[[FrameType, str, Any], None]:
    """A profile function that calls `act` whenever the SQL engine looks for a session, which it does alone."""

    def profile(frame: FrameType, event: str, _: Any) -> None:
        caller = frame.f_back
        if event == "call" and caller is not None and caller.f_code.co_name == "_acquire":
            act()

    return profile


def in_time(run: Callable[[], None], profile: Callable[[FrameType, str, Any], None]) -> None:
    """Run it in a thread that calls `profile`, and fail where it never ends."""
    failures: list[BaseException] = []

    def target() -> None:
        sys.setprofile(profile)
        try:
            run()
        except BaseException as error:
            failures.append(error)
        finally:
            sys.setprofile(None)

    thread = threading.Thread(target=target, daemon=True)
    thread.start()
    thread.join(PATIENCE)
    assert not thread.is_alive(), "the statement never ended"
    if failures:
        raise failures[0]


@pytest.fixture
def snap() -> Any:
    with snapdb.connect() as db:
        db.execute("SELECT 1").fetchall()  # leaves an idle session, which the next one looks at
        yield db


def test_results_that_nobody_reads_to_their_end_are_collected_while_a_session_begins(snap: Database) -> None:
    def leave_half_read() -> None:
        rows = iter(snap.execute("SELECT range FROM range(500_000)"))
        next(rows)
        cycle: list[Any] = [rows]
        cycle.append(cycle)

    collected: list[int] = []

    def run() -> None:
        for number in range(5):
            leave_half_read()
            assert snap.execute(f"SELECT {number}").fetchall() == [(number,)]

    gc.disable()  # they are collected where the test says
    gc.freeze()  # what other tests left need not be looked at each time
    try:
        in_time(run, while_a_session_begins(lambda: collected.append(gc.collect())))
    finally:
        gc.unfreeze()
        gc.enable()
    assert sum(count > 0 for count in collected) >= 5
    assert snap.execute("SELECT count(*) FROM duckdb_databases() WHERE database_name LIKE 'snapdb_%'").fetchone() <= (
        9,
    )


def test_a_signal_handler_interrupts_while_a_session_begins(snap: Database) -> None:
    pressed: list[None] = []

    def run() -> None:
        with suppress(snapdb.QueryError):  # whether the statement still hears of it is another matter
            snap.execute("SELECT 2").fetchall()

    in_time(run, while_a_session_begins(lambda: pressed.append(snap.interrupt())))
    assert pressed
    assert snap.execute("SELECT 1").fetchall() == [(1,)]

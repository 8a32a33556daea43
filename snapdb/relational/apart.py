"""Writing files with DuckDB in a thread apart, which is left behind when an interrupt does not end it.

DuckDB writes a file's row groups in tasks. An interrupt may lose one of them, and then DuckDB waits for it for ever; an
error in the query does not. Whoever asked must get the session back all the same.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import duckdb

_PATIENCE = 3.0
"""Seconds after an interrupt in which a statement that is well has ended."""
_PULSE = 0.05
"""Seconds between two looks whether somebody interrupts; the end of the statement wakes at once."""


def run_apart(
    cursor: Any, sql: str, parameters: Any, stopped: threading.Event, abandon: Callable[[], None]
) -> list[Any]:
    """The rows that a statement gives.

    Args:
        stopped: Set when somebody wants it to end.
        abandon: Called when the statement does not end: neither it nor the cursor may be touched again.

    Raises:
        InterruptException: of DuckDB's; also what the statement raises.
    """
    done = threading.Event()
    found: list[Any] = []
    failed: list[BaseException] = []

    def run() -> None:
        try:
            cursor.execute(sql, parameters)
            found.extend(cursor.fetchall())
        except BaseException as error:
            failed.append(error)
        finally:
            done.set()

    threading.Thread(target=run, name="snapdb-writer", daemon=True).start()
    try:
        while not done.wait(_PULSE) and not stopped.is_set():
            pass
    except BaseException:  # Ctrl-C, where nobody turns it into an interrupt
        _end(cursor, done, abandon)
        raise
    if not done.is_set() and not _end(cursor, done, abandon):
        raise duckdb.InterruptException("INTERRUPT")
    if failed:
        raise failed[0]
    return found


def _end(cursor: Any, done: threading.Event, abandon: Callable[[], None]) -> bool:
    """Whether the statement ends; it is told more than once, because one that has not begun yet does not listen."""
    last = time.monotonic() + _PATIENCE
    while not done.is_set() and time.monotonic() < last:
        cursor.interrupt()
        done.wait(_PULSE)
    if not done.is_set():
        abandon()
    return done.is_set()

"""Catalog rows of alerts: the outbox of failed and missed task runs, which the leader of the schedulers sends.

The table is created with the first alert. It adds to the catalog's format without changing it, so databases without
alerts need no upgrade, and an attached publication has none.
"""

import json
import sqlite3
import uuid
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Literal, NamedTuple

from snapdb.types import TaskRun

AlertState = Literal["pending", "sent", "given_up"]

_TABLE = """
    CREATE TABLE IF NOT EXISTS alerts (
        id      TEXT PRIMARY KEY,                 -- the same in every try
        task    INTEGER NOT NULL,                 -- task, run, attempt: of runs
        run     INTEGER NOT NULL,
        attempt INTEGER NOT NULL,
        address TEXT NOT NULL,                    -- the name of the address, which only the environment contains
        content TEXT NOT NULL,                    -- JSON
        state   TEXT NOT NULL CHECK (state IN ('pending', 'sent', 'given_up')),
        due     INTEGER NOT NULL,                 -- these two in microseconds since 1970 UTC: the next try
        since   INTEGER,                          -- the first try
        tries   INTEGER NOT NULL DEFAULT 0,
        UNIQUE (task, run, attempt)
    ) WITHOUT ROWID
"""
_INDEX = "CREATE INDEX IF NOT EXISTS pending_alerts ON alerts (address, due) WHERE state = 'pending'"
_1970 = datetime(1970, 1, 1, tzinfo=UTC)
_HOUR = 3_600_000_000
_DAY = 24 * _HOUR


class Alert(NamedTuple):
    """An alert that has not been sent yet."""

    id: str
    address: str
    """The name of the address."""
    content: str
    """The JSON object to send, without the id and the database."""
    since: int | None
    """The time of the first try, in microseconds since 1970 UTC, or None before it."""
    tries: int
    """The number of tries so far."""


@dataclass(frozen=True, slots=True)
class AlertRows:
    """The alerts of a catalog, read and changed inside a transaction."""

    connection: sqlite3.Connection

    def queue(self, run: TaskRun, address: str, code: str | None = None) -> None:
        """Add the alert of a run that failed for good or was missed, inside the transaction that records its end.

        Args:
            run: The run, as it is recorded.
            address: The name of the address.
            code: The code of the error with which the run failed, if it has one.
        """
        self.connection.execute(_TABLE)
        self.connection.execute(_INDEX)
        due = run.scheduled if run.ended is None else run.ended
        row = (uuid.uuid4().hex, run.task, run.run, run.attempt, address, _content(run, code), due)
        self.connection.execute(
            "INSERT INTO alerts (id, task, run, attempt, address, content, state, due) "
            "VALUES (?, ?, ?, ?, ?, ?, 'pending', ?) ON CONFLICT DO NOTHING",
            row,
        )

    def addresses(self) -> list[str]:
        """Return the names of the addresses for which alerts are pending."""
        if not self._exist():
            return []
        rows = self.connection.execute("SELECT DISTINCT address FROM alerts WHERE state = 'pending' ORDER BY address")
        return [address for (address,) in rows]

    def due(self, address: str, now: int, limit: int) -> list[Alert]:
        """Return the oldest pending alerts for an address whose next try is due."""
        # A try that is due in more than an hour was planned before the clock was set back.
        rows = self.connection.execute(
            "SELECT id, address, content, since, tries FROM alerts WHERE state = 'pending' AND address = ? "
            "AND (due <= ? OR due > ?) ORDER BY due LIMIT ?",
            (address, now, now + _HOUR, limit),
        )
        return [Alert(*row) for row in rows]

    def note_try(self, alert: Alert, state: AlertState, tried: int, due: int) -> None:
        """Record a try, and the time of the next one if the alert is still pending, inside a transaction."""
        self.connection.execute(
            "UPDATE alerts SET state = ?, since = coalesce(since, ?), tries = tries + 1, due = ? WHERE id = ?",
            (state, tried, due, alert.id),
        )

    def states(self) -> dict[tuple[int, int, int], AlertState]:
        """Map task, run and attempt to the state of the alert, for all attempts that have one."""
        if not self._exist():
            return {}
        rows = self.connection.execute("SELECT task, run, attempt, state FROM alerts")
        return {(task, run, attempt): state for task, run, attempt, state in rows}

    def pending(self) -> dict[tuple[str, str], int]:
        """Map the name of a task and the state of its runs to the number of their pending alerts."""
        if not self._exist():
            return {}
        rows = self.connection.execute(
            "SELECT r.name, r.state, count(*) FROM alerts a JOIN runs r USING (task, run, attempt) "
            "WHERE a.state = 'pending' GROUP BY r.name, r.state"
        )
        return {(name, state): number for name, state, number in rows}

    def forget(self, task: int, run: int, now: int) -> None:
        """Delete the alerts of a task's runs up to this one, except those that have been pending for less than a day.

        Call it inside the transaction that deletes these runs.
        """
        if self._exist():
            sql = "DELETE FROM alerts WHERE task = ? AND run <= ? AND (state <> 'pending' OR due < ?)"
            self.connection.execute(sql, (task, run, now - _DAY))

    def _exist(self) -> bool:
        """Return whether the database has ever had an alert."""
        query = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'alerts'"
        return self.connection.execute(query).fetchone() is not None


def _content(run: TaskRun, code: str | None) -> str:
    """Return the JSON object that describes how a run ended. The names are those of the system table task_runs."""
    content = {
        "task": run.name,
        "run": run.run,
        "state": run.state,
        "scheduled": _iso(run.scheduled),
        "started": _iso(run.started),
        "ended": _iso(run.ended),
        "attempts": 0 if run.started is None else run.attempt,
        "error": {"code": code, "message": run.error},
        "version": run.version,
    }
    return json.dumps(content, ensure_ascii=False)


def _iso(moment: int | None) -> str | None:
    """Return a time in UTC as ISO 8601, to the microsecond.

    >>> _iso(1_795_316_400_312_999), _iso(None)
    ('2026-11-22T03:00:00.312999Z', None)
    """
    if moment is None:
        return None
    return f"{_1970 + timedelta(microseconds=moment):%Y-%m-%dT%H:%M:%S.%f}Z"

"""The one process that fires a database's tasks: a row that beats while it lives."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass

from snapdb.errors import CommitConflict
from snapdb.storage.ledger import Ledger

LAPSE = 6.0
"""Seconds without a beat after which a leader is taken for dead: by others, by clocks of their own, and by itself."""


@dataclass(frozen=True, slots=True)
class Leader:
    """Who leads, or would."""

    holder: str
    """A token that no other process has."""
    beat: int
    """Grows while it lives; no clock is in it, so that none can be wrong."""
    host: str
    pid: int
    since: int
    """Microseconds since 1970 UTC."""


def leader_of(ledger: Ledger) -> Leader | None:
    """Who leads now, dead or alive; None: nobody does."""
    rows = ledger.rows("SELECT holder, beat, host, pid, since FROM leader")
    return Leader(*rows[0]) if rows else None


def campaign(ledger: Ledger, me: Leader, silent: Leader | None) -> bool:
    """Lead, where nobody does or `silent` still does, without another beat since it was read; whether it came to that.

    The row is compared and replaced in one transaction: of several who try, one wins.
    """
    with ledger.writing(counted=False) as connection:
        row = connection.execute("SELECT holder, beat FROM leader").fetchone()
        if row is not None and (silent is None or tuple(row) != (silent.holder, silent.beat)):
            return False
        connection.execute(
            "INSERT OR REPLACE INTO leader (one, holder, beat, host, pid, since) VALUES (1, ?, ?, ?, ?, ?)",
            (me.holder, me.beat, me.host, me.pid, me.since),
        )
    return True


def beat(ledger: Ledger, holder: str) -> bool:
    """Tell the others that the leader lives; False when it leads no longer."""
    with ledger.writing(counted=False) as connection:
        return bool(connection.execute("UPDATE leader SET beat = beat + 1 WHERE holder = ?", (holder,)).rowcount)


def check_leads(connection: sqlite3.Connection, holder: str) -> None:
    """Nothing when the holder leads, inside a transaction: what it is about to write is the leader's word.

    Raises:
        CommitConflict: another took over.
    """
    if connection.execute("SELECT 1 FROM leader WHERE holder = ?", (holder,)).fetchone() is None:
        raise CommitConflict("another daemon leads this database now; this one waits", code="leader-lost")


def resign(ledger: Ledger, holder: str) -> None:
    """Lead no longer: the next one need not wait."""
    with ledger.writing(counted=False) as connection:
        connection.execute("DELETE FROM leader WHERE holder = ?", (holder,))

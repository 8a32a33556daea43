"""Who fires the tasks: one leader that beats, and others that wait for it to fall silent."""

from __future__ import annotations

import os
import socket
import threading
import uuid
from collections.abc import Callable
from contextlib import suppress

from snapdb.daemon.clock import Clock, Pace
from snapdb.daemon.log import Log
from snapdb.errors import SnapdbError
from snapdb.storage.catalog_db.connection import Ledger
from snapdb.storage.catalog_db.db_dir import Home
from snapdb.storage.catalog_db.task_rows import Leader, acquire_lease, heartbeat, read_leader, release_lease


class Heart:
    """Beats from a thread of its own, from when this process was made the leader until it leads no longer.

    It has a connection of its own to the catalog: no statement of the loop's keeps it waiting.
    """

    def __init__(self, home: Home, holder: str, since: float, clock: Clock, pace: Pace) -> None:
        """`since` is the clock's monotonic time before the row was written."""
        self.holder = holder
        self._clock, self._pace = clock, pace
        self._ledger = Ledger(home)
        self._told = since
        self._deposed = False
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._beat, name="snapdb-heart", daemon=True)
        self._thread.start()

    def lost(self) -> str | None:
        """Why this process leads no longer; None while it does.

        Who cannot tell the others that it lives has to take itself for dead: they do.
        """
        if self._deposed:
            return "another daemon took over"
        silent = self._clock.monotonic() - self._told
        return f"the catalog took no beat for {silent:.0f} s" if silent >= self._pace.lapse else None

    def stop(self) -> None:
        """Beat no more. The row stays."""
        self._still(lambda: None)

    def resign(self) -> None:
        """Beat no more, and let the next one lead at once."""
        self._still(lambda: release_lease(self._ledger, self.holder))

    def _still(self, last: Callable[[], None]) -> None:
        self._stopped.set()
        self._thread.join(self._clock.real(self._pace.lapse))
        if not self._thread.is_alive():  # else it waits for a lock still, and lets the connection be
            with suppress(SnapdbError):  # the others wait for a while then
                last()
            self._ledger.close()

    def _beat(self) -> None:
        while not self._clock.pause(self._stopped, self._pace.beat):
            before = self._clock.monotonic()
            try:
                if not heartbeat(self._ledger, self.holder):
                    self._deposed = True
                    self._clock.wake()
                    return
                self._told = before
            except SnapdbError:
                pass  # the disk is full, or the catalog locked: `lost` tells when that is too long


class Candidate:
    """Leads where nobody does, and waits where somebody does."""

    def __init__(self, home: Home, ledger: Ledger, clock: Clock, pace: Pace, log: Log) -> None:
        self._home, self._ledger, self._clock, self._pace, self._log = home, ledger, clock, pace, log
        self._seen: Leader | None = None
        self._since = self._looked = clock.monotonic()
        self._mine: str | None = None

    def poll(self) -> Heart | None:
        """Look at the leader's row; this process's heart where it leads from now on.

        Raises:
            SnapdbError: the catalog cannot be read or written at the moment.
        """
        now = self._clock.monotonic()
        found = read_leader(self._ledger)
        if found is None or found.holder == self._mine:
            return self._campaign(now, found)
        # Who was not looking itself, in a machine that was stopped with both of them in it, begins to watch anew.
        slept, self._looked = now - self._looked > max(self._pace.lapse / 2, 2 * self._pace.poll), now
        if self._seen is None or self._seen.holder != found.holder:
            self._log.info("leader.waits", holder=found.holder, host=found.host, pid=found.pid)
        if slept or self._seen is None or (self._seen.holder, self._seen.beat) != (found.holder, found.beat):
            self._seen, self._since = found, now
        if now - self._since < self._pace.lapse:
            return None
        return self._campaign(now, found)

    def _campaign(self, now: float, silent: Leader | None) -> Heart | None:
        holder = uuid.uuid4().hex
        me = Leader(holder, 0, socket.gethostname(), os.getpid(), self._clock.now())
        if not acquire_lease(self._ledger, me, silent):
            return None
        self._seen, self._mine = None, holder
        self._log.info("leader.won", holder=holder, **{"from": None if silent is None else silent.holder})
        return Heart(self._home, holder, now, self._clock, self._pace)

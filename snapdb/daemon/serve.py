"""The daemon in the foreground: it waits for its turn to lead, fires tasks while it leads, and notifies systemd."""

from __future__ import annotations

import os
import signal
import socket
import sqlite3
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType

from snapdb.daemon.clock import Clock, Pace
from snapdb.daemon.leading import Candidate, Heart
from snapdb.daemon.log import Log, LogFormat
from snapdb.daemon.loop import Loop
from snapdb.daemon.worker_pool import Crew
from snapdb.errors import CommitConflict, SnapdbError
from snapdb.release import __version__
from snapdb.storage.catalog_db.connection import Ledger
from snapdb.storage.catalog_db.db_dir import Home, open_home


def notify(state: str) -> None:
    """Send a state such as READY=1 to the socket that $NOTIFY_SOCKET names; nothing where it names none."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address.startswith(("/", "@")):
        return
    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as channel:
        channel.sendto(state.encode(), address.replace("@", "\0", 1) if address.startswith("@") else address)


_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_STOPPED = "terminated"
_NEXT = 0.25
"""Seconds from one look at runs that are to end to the next, and from one failed campaign to the next."""


def serve(
    path: Path,
    *,
    jobs: int = 4,
    grace: float = 8.0,
    log_format: LogFormat = "text",
    clock: Clock | None = None,
    pace: Pace | None = None,
    worker: Sequence[str] | None = None,
) -> int:
    """Fire the tasks of a database until a signal ends it; the exit code: 0, 130 after SIGINT, 1 where it cannot go on.

    Call it from the main thread: it handles SIGTERM, SIGINT and SIGHUP, which all ask it to end. What it does is told
    on stderr (`log`).

    Args:
        jobs: So many tasks may run at once.
        grace: Seconds that runs have to finish when it is asked to end; then they are rolled back. A second signal
            ends them at once.
        clock: What time it is, and how it is waited for.
        pace: How often what is done.
        worker: The command that starts a worker; the database's path and this process's id are put after it.

    Raises:
        SnapdbError: the database is not there, or cannot be opened.
    """
    home = open_home(path, read_only=False, make=False)
    ledger = Ledger(home)
    own = clock or Clock()
    log = Log(sys.stderr, log_format, own)
    command = (*(worker or (sys.executable, "-P", "-m", "snapdb.daemon.worker")), str(home.path), str(os.getpid()))
    daemon = _Daemon(home, ledger, own, pace or Pace(), log, command, jobs)
    with _asked(daemon.ask):
        log.info("daemon.start", database=str(home.path), pid=os.getpid(), jobs=jobs, version=__version__)
        notify("READY=1")
        try:
            return daemon.serve(grace)
        finally:
            notify("STOPPING=1")
            ledger.close()
            if clock is None:
                own.close()


class _Daemon:
    """One process that leads, or waits to."""

    def __init__(
        self, home: Home, ledger: Ledger, clock: Clock, pace: Pace, log: Log, command: Sequence[str], jobs: int
    ) -> None:
        self._home, self._ledger, self._clock, self._pace, self._log = home, ledger, clock, pace, log
        self._crew = Crew(command, jobs, clock, pace, log)
        self._candidate = Candidate(home, ledger, clock, pace, log)
        self._heart: Heart | None = None
        self._loop: Loop | None = None
        self._trouble: str | None = None
        self._signals: list[int] = []

    def ask(self, number: int, frame: FrameType | None) -> None:
        """A signal came: note it, and do nothing else in the middle of whatever goes on."""
        self._signals.append(number)
        self._clock.wake()

    def serve(self, grace: float) -> int:
        """Lead or wait until a signal came; the exit code."""
        try:
            while not self._signals:
                self._clock.wait(self._turn())
        except SnapdbError as error:
            self._log.error("error", error=str(error), code=error.code)
            self._crew.kill()
            self._log.info("daemon.stop", why=str(error), finished=0, rolled_back=0)
            return 1
        except BaseException:
            self._log.error("error", error=traceback.format_exc(), code="internal")
            self._crew.kill()
            raise
        self._end(signal.Signals(self._signals[0]).name, grace)
        return 130 if self._signals[0] == signal.SIGINT else 0

    def _turn(self) -> float:
        """Do what there is to do; the seconds until there may be more."""
        if self._loop is None or self._heart is None:
            return self._wait_for_leadership()
        self._crew.warm()
        why = self._heart.lost()
        if why is None:
            try:
                return self._loop.step()
            except CommitConflict as conflict:
                why = conflict.message
        self._depose(why)
        return 0.0

    def _wait_for_leadership(self) -> float:
        self._crew.ended()  # no run does here, but a worker may
        try:
            self._heart = self._candidate.poll()
        except (SnapdbError, OSError, sqlite3.Error) as error:
            if isinstance(error, SnapdbError) and error.code == "database-gone":
                raise
            self._tell(error)
            return self._pace.poll
        self._trouble = None
        if self._heart is None:
            self._crew.warm()  # its first run, should it take over, is not to wait for a process that starts
            return self._pace.poll
        self._loop = Loop(self._home, self._ledger, self._crew, self._clock, self._pace, self._log, self._heart.holder)
        return 0.0

    def _tell(self, error: Exception) -> None:
        """Log what cannot be read or written at the moment, once."""
        if self._trouble != str(error):
            self._trouble = str(error)
            self._log.error("error", error=self._trouble, code=getattr(error, "code", None))

    def _depose(self, why: str) -> None:
        """Lead no longer: whatever runs is stopped before it can be in the next one's way."""
        assert self._heart is not None
        runs = len(self._crew.going())
        self._crew.kill()
        self._heart.stop()
        self._log.warn("leader.lost", why=why, runs=runs)
        self._heart = self._loop = None

    def _end(self, why: str, grace: float) -> None:
        """Let runs finish, stop those that do not, and leave."""
        finished = rolled_back = 0
        if self._loop is not None and self._heart is not None:
            finished, rolled_back = self._finish(self._loop, self._heart, grace)
        self._crew.close()
        if self._heart is not None:
            self._heart.resign()
        self._log.info("daemon.stop", why=why, finished=finished, rolled_back=rolled_back)

    def _finish(self, loop: Loop, heart: Heart, grace: float) -> tuple[int, int]:
        """How many runs came to their end, and how many were stopped."""
        finished = rolled_back = 0
        stop = self._clock.monotonic() + grace
        last = stop + 2 * self._pace.kill
        asked = False
        while loop.busy() and heart.lost() is None and (now := self._clock.monotonic()) < last:
            if not asked and (now >= stop or len(self._signals) > 1):
                asked, last = True, now + 2 * self._pace.kill
                self._crew.stop(_STOPPED)
            try:
                for ended in loop.collect():
                    done = ended.state in ("ok", "skipped") or not asked
                    finished, rolled_back = finished + done, rolled_back + (not done)
            except (SnapdbError, OSError, sqlite3.Error) as error:
                self._tell(error)
            if loop.busy():
                self._clock.wait(_NEXT)
        return finished, rolled_back


@contextmanager
def _asked(handler: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    """Signals that ask the process to end go to the handler; elsewhere than in the main thread they cannot."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, handler) for number in _SIGNALS}
    try:
        yield
    finally:
        for number, was in before.items():
            signal.signal(number, was)

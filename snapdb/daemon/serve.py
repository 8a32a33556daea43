"""The scheduler as a foreground process: waits for leadership, starts scheduled runs as leader and notifies systemd."""

import os
import signal
import socket
import sqlite3
import sys
import threading
import traceback
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType

from snapdb.daemon.alerts import AlertThread
from snapdb.daemon.log import Clock, Intervals, Log, LogFormat
from snapdb.daemon.loop import Loop
from snapdb.daemon.worker_pool import WorkerPool
from snapdb.errors import CommitConflict, SnapdbError, report
from snapdb.release import __version__
from snapdb.storage.catalog_db.connection import CatalogDb
from snapdb.storage.catalog_db.db_dir import DatabaseDir, open_db_dir
from snapdb.storage.catalog_db.task_rows import Leader, LeaderLease


class _Heartbeat:
    """Renews the lease in a separate thread for as long as this process is the leader.

    It has a separate connection to the catalog, so no statement of the loop delays it.
    """

    def __init__(self, db_dir: DatabaseDir, holder: str, since: float, clock: Clock, intervals: Intervals) -> None:
        """Start the thread. `since` is the monotonic time before the lease was written."""
        self.holder = holder
        self._clock, self._intervals = clock, intervals
        self._catalog_db = CatalogDb(db_dir)
        self._written = since
        self._deposed = False
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._beat, name="snapdb-heart", daemon=True)
        self._thread.start()

    def lost(self) -> str | None:
        """Return the reason why this process is no longer the leader, or None while it is.

        A leader whose heartbeats fail considers itself dead, as other processes do.
        """
        if self._deposed:
            return "another scheduler took over"
        # The time is measured from before the write. Other processes measure from when they see the heartbeat, which is
        # later, so this leader stops first.
        silent = self._clock.monotonic() - self._written
        return f"no heartbeat could be written for {silent:.0f} s" if silent >= self._intervals.lease_ttl else None

    def stop(self, *, resign: bool = False) -> None:
        """Stop the heartbeats. The lease then expires, or is released immediately with `resign`."""
        self._stopped.set()
        self._thread.join(self._clock.real(self._intervals.lease_ttl))
        if not self._thread.is_alive():  # otherwise the thread still waits for a lock and uses the connection
            if resign:
                with suppress(SnapdbError):  # the lease then expires
                    LeaderLease(self._catalog_db).release(self.holder)
            self._catalog_db.close()

    def _beat(self) -> None:
        """Renew the lease at each interval, in the thread."""
        while not self._clock.pause(self._stopped, self._intervals.heartbeat):
            before = self._clock.monotonic()
            try:
                if not LeaderLease(self._catalog_db).heartbeat(self.holder):
                    self._deposed = True
                    self._clock.wake()
                    return
                self._written = before
            except SnapdbError:
                pass  # the disk is full or the catalog is locked, and `lost` reports when this takes too long


class _LeaseHolder:
    """Acquires the leader's lease when it is free, and waits as long as another process holds it."""

    def __init__(self, catalog_db: CatalogDb, clock: Clock, intervals: Intervals, log: Log) -> None:
        self._catalog_db, self._clock, self._intervals, self._log = catalog_db, clock, intervals, log
        self._seen: Leader | None = None
        self._since = self._polled = clock.monotonic()
        self._mine: str | None = None

    def poll(self) -> _Heartbeat | None:
        """Read the leader's row. If this process has become the leader, return its heartbeat.

        Raises:
            SnapdbError: The catalog cannot be read or written at the moment.
        """
        now = self._clock.monotonic()
        leader = LeaderLease(self._catalog_db).read()
        if leader is None or leader.holder == self._mine:
            return self._campaign(now, leader)
        # If this process was suspended too, for example with the machine, the leader gets a full lease again, because
        # its heartbeats may resume only now.
        slept, self._polled = now - self._polled > max(self._intervals.lease_ttl / 2, 2 * self._intervals.poll), now
        if self._seen is None or self._seen.holder != leader.holder:
            self._log.info("leader.waits", holder=leader.holder, host=leader.host, pid=leader.pid)
        if slept or self._seen is None or (self._seen.holder, self._seen.beat) != (leader.holder, leader.beat):
            self._seen, self._since = leader, now
        if now - self._since < self._intervals.lease_ttl:
            return None
        return self._campaign(now, leader)

    def _campaign(self, now: float, silent: Leader | None) -> _Heartbeat | None:
        """Try to acquire the lease. Return the heartbeat, or None if another process was first."""
        holder = uuid.uuid4().hex
        me = Leader(holder, 0, socket.gethostname(), os.getpid(), self._clock.now())
        if not LeaderLease(self._catalog_db).acquire(me, silent):
            return None
        self._seen, self._mine = None, holder
        self._log.info("leader.won", holder=holder, **{"from": None if silent is None else silent.holder})
        return _Heartbeat(self._catalog_db.db_dir, holder, now, self._clock, self._intervals)


def _notify(state: str) -> None:
    """Send a state such as READY=1 to the socket in $NOTIFY_SOCKET (sd_notify), or do nothing if it is not set."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address.startswith(("/", "@")):
        return
    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as channel:
        channel.sendto(state.encode(), address.replace("@", "\0", 1) if address.startswith("@") else address)


_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_STOPPED = "terminated"
_NEXT = 0.25
"""The number of seconds between two checks of runs that are finishing."""


def serve(
    path: Path,
    *,
    jobs: int = 4,
    grace: float = 8.0,
    log_format: LogFormat = "text",
    clock: Clock | None = None,
    intervals: Intervals | None = None,
    worker: Sequence[str] | None = None,
) -> int:
    """Lead or wait until a signal ends the process.

    Call it from the main thread, because it handles SIGTERM, SIGINT and SIGHUP, all of which end it. It logs to stderr.

    Args:
        path: The database.
        jobs: The maximum number of concurrent runs.
        grace: The number of seconds that runs have to finish after a signal, before they are rolled back. A second
            signal rolls them back immediately.
        log_format: The format of the log.
        clock: The clock, which also provides waiting, or None for the machine's clock.
        intervals: The scheduler's intervals, or None for the defaults.
        worker: The command that starts a worker. The path of the database and the id of this process are appended to
            it.

    Returns:
        The exit code: 0, 130 after SIGINT, or 1 if the scheduler cannot continue.

    Raises:
        SnapdbError: The database does not exist, or cannot be opened.
    """
    db_dir = open_db_dir(path, read_only=False, make=False)
    catalog_db = CatalogDb(db_dir)
    own = clock or Clock()
    log = Log(sys.stderr, log_format, own)
    command = (*(worker or (sys.executable, "-P", "-m", "snapdb.daemon.worker")), str(db_dir.path), str(os.getpid()))
    daemon = _Daemon(catalog_db, own, intervals or Intervals(), log, command, jobs)
    with _handling_signals(daemon.note_signal):
        log.info("daemon.start", database=str(db_dir.path), pid=os.getpid(), jobs=jobs, version=__version__)
        _notify("READY=1")
        try:
            return daemon.serve(grace)
        finally:
            _notify("STOPPING=1")
            catalog_db.close()
            if clock is None:
                own.close()


class _Daemon:
    """A process that leads or waits for leadership."""

    def __init__(
        self, catalog_db: CatalogDb, clock: Clock, intervals: Intervals, log: Log, command: Sequence[str], jobs: int
    ) -> None:
        self._catalog_db, self._clock, self._intervals, self._log = catalog_db, clock, intervals, log
        self._worker_pool = WorkerPool(command, jobs, clock, intervals, log)
        self._lease_holder = _LeaseHolder(catalog_db, clock, intervals, log)
        self._heartbeat: _Heartbeat | None = None
        self._loop: Loop | None = None
        self._alerts: AlertThread | None = None
        self._trouble: str | None = None
        self._signals: list[int] = []

    def note_signal(self, number: int, frame: FrameType | None) -> None:
        """Record a signal, and wake the main thread, which handles it."""
        self._signals.append(number)
        self._clock.wake()

    def serve(self, grace: float) -> int:
        """Lead or wait until a signal arrives, then return the exit code."""
        try:
            while not self._signals:
                self._clock.wait(self._turn())
        except SnapdbError as error:
            self._log.error("error", error=report(error), code=error.code)
            self._worker_pool.kill()
            self._log.info("daemon.stop", why=report(error), finished=0, rolled_back=0)
            return 1
        except BaseException:
            self._log.error("error", error=traceback.format_exc(), code="internal")
            self._worker_pool.kill()
            raise
        self._end(signal.Signals(self._signals[0]).name, grace)
        return 130 if self._signals[0] == signal.SIGINT else 0

    def _turn(self) -> float:
        """Do everything that is due, and return the seconds until more may be due."""
        if self._loop is None or self._heartbeat is None:
            return self._wait_for_leadership()
        self._worker_pool.warm()
        why = self._heartbeat.lost()
        if why is None:
            try:
                return self._loop.step()
            except CommitConflict as conflict:
                why = conflict.message
        self._depose(why)
        return 0.0

    def _wait_for_leadership(self) -> float:
        """Try to become the leader, and return the seconds until the next attempt."""
        self._worker_pool.ended()  # a standby has no runs, but an idle worker may have exited
        try:
            self._heartbeat = self._lease_holder.poll()
        except (SnapdbError, OSError, sqlite3.Error) as error:
            if isinstance(error, SnapdbError) and error.code == "database-gone":
                raise
            self._log_trouble(error)
            return self._intervals.poll
        self._trouble = None
        if self._heartbeat is None:
            self._worker_pool.warm()  # a takeover should not have to wait for a worker to start and import its modules
            return self._intervals.poll
        self._loop = Loop(
            self._catalog_db, self._worker_pool, self._clock, self._intervals, self._log, self._heartbeat.holder
        )
        self._alerts = AlertThread(
            self._catalog_db.db_dir, self._heartbeat.holder, self._clock, self._intervals, self._log
        )
        return 0.0

    def _log_trouble(self, error: Exception) -> None:
        """Log, once per error, what cannot be read or written at the moment."""
        if self._trouble != report(error):
            self._trouble = report(error)
            self._log.error("error", error=self._trouble, code=getattr(error, "code", None))

    def _depose(self, why: str) -> None:
        """End the term. Running workers are killed before they can conflict with those of the next leader."""
        assert self._heartbeat is not None
        runs = len(self._worker_pool.going())
        self._worker_pool.kill()
        self._heartbeat.stop()
        self._stop_alerts()
        self._log.warn("leader.lost", why=why, runs=runs)
        self._heartbeat = self._loop = None

    def _stop_alerts(self) -> None:
        """Stop sending alerts. Those that are pending are left to the next leader."""
        if self._alerts is not None:
            self._alerts.stop()
            self._alerts = None

    def _end(self, why: str, grace: float) -> None:
        """Let runs finish, stop those that do not, and shut down."""
        finished = rolled_back = 0
        if self._loop is not None and self._heartbeat is not None:
            finished, rolled_back = self._finish(self._loop, self._heartbeat, grace)
        self._worker_pool.close()
        self._stop_alerts()
        if self._heartbeat is not None:
            self._heartbeat.stop(resign=True)
        self._log.info("daemon.stop", why=why, finished=finished, rolled_back=rolled_back)

    def _finish(self, loop: Loop, heartbeat: _Heartbeat, grace: float) -> tuple[int, int]:
        """Wait for runs, and return how many finished and how many were stopped."""
        finished = rolled_back = 0
        stop = self._clock.monotonic() + grace
        last = stop + 2 * self._intervals.kill
        stopping = False
        while loop.busy() and heartbeat.lost() is None and (now := self._clock.monotonic()) < last:
            if not stopping and (now >= stop or len(self._signals) > 1):
                stopping, last = True, now + 2 * self._intervals.kill
                self._worker_pool.stop(_STOPPED)
            try:
                for ended in loop.collect():
                    done = ended.state in ("ok", "skipped") or not stopping
                    finished, rolled_back = finished + done, rolled_back + (not done)
            except (SnapdbError, OSError, sqlite3.Error) as error:
                self._log_trouble(error)
            if loop.busy():
                self._clock.wait(_NEXT)
        return finished, rolled_back


@contextmanager
def _handling_signals(handler: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    """Handle the signals that terminate the process, during the block. Python allows this only in the main thread."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, handler) for number in _SIGNALS}
    try:
        yield
    finally:
        for number, was in before.items():
            signal.signal(number, was)

"""A run of a task, from its row in state 'running' to its end in it: every statement once, whatever happens meanwhile.

Each statement notes in the transaction that publishes it that it is done, and no transaction goes through once the run
was given up (`storage.run_rows.RunMark`). So a run whose process is gone has done just what its row says, and the next
attempt goes on after that.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from snapdb.errors import CommitConflict, LockedError, SnapdbError
from snapdb.execute.apply_retention import apply_retentions
from snapdb.execute.body import Body
from snapdb.execute.own_database import Opener, OwnDatabase
from snapdb.execute.run_ends import Ended, EndState, record
from snapdb.execute.run_progress import Progress
from snapdb.execute.stopping import Stop, Watch
from snapdb.execute.task_condition import condition_query, holds
from snapdb.relational.folders import resolved
from snapdb.schedule import stamp
from snapdb.sql import parse
from snapdb.sql.task_body import rendered
from snapdb.storage.commit import now as clock
from snapdb.storage.home import Home
from snapdb.storage.ledger import Ledger
from snapdb.storage.run_rows import RunLock, find_run
from snapdb.types import Run, Task

_PATIENCE = 10.0
"""Seconds to wait for a process that still holds the lock of the task's runs: one that is being killed."""
_PULSE = 0.05


def perform(
    opener: Opener,
    home: Home,
    ledger: Ledger,
    task: Task,
    run: Run,
    stop: Stop,
    *,
    lock: RunLock | None = None,
    now: Callable[[], int] = clock,
) -> Ended:
    """Run the statements of a task that are not done yet, and record how that ended.

    Args:
        opener: Opens the database for this run.
        home: The database.
        ledger: Its rows, to write of the run.
        run: Its row, in state 'running'.
        stop: Ends it from another thread.
        lock: That of the task's runs where the caller holds it; None: it is taken here.
        now: Microseconds since 1970 UTC.

    Returns:
        The end. What the body raises is in it; where the disk refuses to have the end recorded, that is in it too.
    """
    own: RunLock | None = None
    caught: BaseException | None = None
    skipped = False
    attempt = _Attempt(home, ledger, task, run, Watch(stop, None if task.timeout is None else task.timeout / 1e6))
    try:
        try:
            with attempt.watch:
                if lock is None:
                    own = RunLock(home, task.id)
                    _take(own, attempt.watch)
                skipped = not attempt.made(opener)
        except (Exception, KeyboardInterrupt) as error:
            caught = error
        ended = _recorded(ledger, task, attempt.ended(caught, now(), skipped=skipped))
        if isinstance(caught, KeyboardInterrupt):
            raise caught
        return ended
    finally:
        if own is not None:
            own.release()


def _take(lock: RunLock, watch: Watch) -> None:
    """Hold the lock; a process that is being killed lets go soon.

    Raises:
        LockedError: one that lives does not.
    """
    last = time.monotonic() + _PATIENCE
    while not lock.take():
        watch.check()
        if time.monotonic() > last:
            raise LockedError(
                f"another process has been running this task for {_PATIENCE:.0f} s and goes on; look at SHOW TASK RUNS",
                code="task-running",
            )
        time.sleep(_PULSE)


def _recorded(ledger: Ledger, task: Task, ended: Ended) -> Ended:
    try:
        return record(ledger, task, ended)
    except SnapdbError as error:
        return replace(ended, log=f"{ended.log}its end could not be recorded: {error.message}\n")


@dataclass(slots=True)
class _Attempt:
    """One attempt to run a task."""

    home: Home
    ledger: Ledger
    task: Task
    run: Run
    watch: Watch
    progress: Progress = field(default_factory=Progress)

    def made(self, opener: Opener) -> bool:
        """Whether the task was to run: then all of it is done."""
        task, run = self.task, self.run
        date, hour = stamp(task.schedule, run.scheduled)
        values = {"date": date, "time": hour, "version": str(run.version), "run": str(run.run)}
        text = rendered(task.body, values, task.folder)
        statements = parse(text.text)
        self.progress.total = len(statements)
        # A run that was begun is ended, and one by hand was wanted, whatever the condition says now.
        asks = run.step == 0 and run.cause == "schedule"
        query = condition_query(self.home, self.ledger, task) if asks else None
        condition = None if query is None else rendered(query, values, task.folder)
        places = {*text.places, *(() if condition is None else condition.places)}
        body = Body(self.home, self.ledger, run, self.progress, self.watch)
        disk = body.disk()
        self.watch.check()
        allowed = {real for place in places if (real := resolved(place)) is not None}
        database = opener(folders=sorted(allowed), disk=disk)
        try:
            self.watch.interrupt = database.interrupt
            self.watch.check()
            if condition is not None and not holds(database, condition.text):
                return False
            body.go(database, statements, disk)
            self._retain(database)
        finally:
            self.watch.interrupt = None
            database.close()
        return True

    def _retain(self, database: OwnDatabase) -> None:
        """Let snapshots go that nothing keeps; the run has done its work, whatever comes of that."""
        try:
            self.watch.check()
            with database.reading() as engine:
                self.progress.lines += apply_retentions(engine)
        except Exception as error:
            said = str(error).partition("\n")[0]
            self.progress.lines.append(f"retention was not applied: {said}")

    def ended(self, error: BaseException | None, now: int, *, skipped: bool) -> Ended:
        """What became of it, from what was raised and from what its row says is done."""
        if skipped:
            return Ended(self.run, "skipped", now)
        if isinstance(error, CommitConflict) and error.code == "run-lost":
            return Ended(self.run, "lost", now, error=error.message)
        state: EndState = "ok"
        self.progress.kept = self._step()
        said = None if error is None else self._said(error)
        if said is not None and 0 < self.progress.total <= self.progress.kept:
            # What came after the last publication takes nothing back.
            self.progress.lines.append(f"when all was done: {said}")
            said = None
        elif said is not None:
            state = "timeout" if self.watch.why == "timeout" else "failed"
        lines = [*self.progress.lines, *(self.progress.notes if state != "ok" else ())]
        log = "".join(f"{line}\n" for line in lines)
        interrupted = said is not None and (isinstance(error, KeyboardInterrupt) or self.watch.why == "interrupted")
        progress = self.progress
        return Ended(self.run, state, now, progress.rows, progress.bytes, said, log, interrupted=interrupted)

    def _said(self, error: BaseException) -> str:
        if isinstance(error, KeyboardInterrupt):
            return self.progress.stopped("interrupted", self.task)
        if self.watch.why is None:
            return self.progress.failed(error)
        if not isinstance(error, SnapdbError) or error.code != "interrupted":
            self.progress.lines.append(self.progress.failed(error))
        return self.progress.stopped(self.watch.why, self.task)

    def _step(self) -> int:
        """How many statements the run's row says are done."""
        try:
            with self.ledger.reading() as connection:
                found = find_run(connection, self.run)
        except SnapdbError:  # then its end cannot be recorded either
            return self.run.step
        return self.run.step if found is None else found.step

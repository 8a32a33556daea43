"""The leader's event loop: loads the state, starts due runs or records why they are missed, and records ends."""

import sqlite3
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import NamedTuple

from snapdb.daemon.log import Clock, Field, Intervals, Log, iso
from snapdb.daemon.worker_pool import Died, WorkerPool
from snapdb.errors import CommitConflict, SnapdbError, report
from snapdb.execute.tasks.runs import Ended, record, settle_abandoned
from snapdb.schedule import Decision, after_a_jump, decide, next_firing
from snapdb.storage.catalog_db.connection import CatalogDb
from snapdb.storage.catalog_db.task_rows import RunRows, TaskRows, check_leader
from snapdb.types import Task, TaskRun

_unless_recorded = suppress(CommitConflict)
"""Ignores fire times that are already recorded, for example after the clock was set back."""


class _Claim(NamedTuple):
    """A task's fire times that are settled in one transaction."""

    task: Task
    was: int
    """The time up to which fire times had been settled."""
    considered: int
    """The time up to which fire times are settled from now on."""
    missed: tuple[tuple[int, str], ...]
    """The fire times that do not run, with reasons, oldest first."""
    run: int | None
    """The fire time that runs now, or None."""


def _claim(catalog_db: CatalogDb, holder: str, decision: _Claim, now: int) -> TaskRun | None:
    """Commit the claim. Return the started run, or None if there is none or its fire time is already recorded.

    Raises:
        CommitConflict: Another scheduler leads (code leader-lost), or the task was altered, dropped or run manually in
            the meantime (code task-moved). In the second case, load the state again.
        SnapdbError: The catalog cannot be written at the moment.
    """
    # One transaction checks the lease, advances the task and records the run. If two processes both act as the
    # leader, one of them fails here, so no fire time runs twice.
    with catalog_db.writing(counted=False) as connection:
        check_leader(connection, holder)
        TaskRows(connection).advance(decision.task, decision.was, decision.considered)
        for moment, why in decision.missed:
            with _unless_recorded:
                RunRows(connection).miss(decision.task, moment, why)
        if decision.run is None:
            return None
        _check_idle(connection, decision.task, waits=True)
        with _unless_recorded:
            return RunRows(connection).begin(decision.task, "schedule", decision.run, holder, now)
    return None


def _again(catalog_db: CatalogDb, holder: str, task: Task, failed: TaskRun, now: int) -> TaskRun:
    """Start a failed run's next attempt. Raises the errors of `_claim`, or run-lost if it no longer waits for one."""
    with catalog_db.writing(counted=False) as connection:
        check_leader(connection, holder)
        _check_idle(connection, task, waits=False)
        return RunRows(connection).retry(failed, holder, now)


def _resume(catalog_db: CatalogDb, holder: str, task: Task, anchor: int | None, considered: int) -> None:
    """Move back the time up to which the task's fire times are settled. The errors are those of `_claim`.

    Args:
        catalog_db: The catalog.
        holder: The token of the leader.
        task: The task.
        anchor: The time from which steps of EVERY are counted from now on, if it changes.
        considered: The time up to which fire times count as settled.
    """
    after = task if anchor is None else replace(task, schedule=replace(task.schedule, anchor=anchor))
    with catalog_db.writing(counted=anchor is not None) as connection:
        check_leader(connection, holder)
        TaskRows(connection).alter(task, after, considered)


def _check_idle(connection: sqlite3.Connection, task: Task, *, waits: bool) -> None:
    """Raise CommitConflict if a run of the task is in progress, or, with `waits`, if one waits for a retry."""
    query = "SELECT 1 FROM runs WHERE task = ?1 AND state = 'running'"
    if waits:
        query += " UNION ALL SELECT 1 FROM runs WHERE task = ?1 AND retry IS NOT NULL"
    if connection.execute(query, (task.id,)).fetchone() is not None:
        raise CommitConflict(f"a run of task {task.name} was started concurrently; check again", code="task-moved")


class _SchedulerState(NamedTuple):
    """The tasks of a database, and their runs in progress."""

    changes: int
    """The catalog's change counter. Tasks are read again only when it has changed."""
    tasks: Mapping[int, Task]
    """Task id → the task."""
    considered: Mapping[int, int]
    """Task id → the time up to which its fire times are settled."""
    running: tuple[TaskRun, ...]
    """The runs in progress."""
    waiting: tuple[TaskRun, ...]
    """The failed attempts that wait for a retry, in the order of their due times."""


def _load_state(catalog_db: CatalogDb, known: _SchedulerState | None) -> _SchedulerState:
    """Return the current state. `known` is an earlier state, whose tasks are reused if the catalog has not changed.

    Raises:
        SnapdbError: The catalog cannot be read at the moment, or is damaged.
    """
    with catalog_db.reading() as connection, catalog_db.db_dir.raise_if_misread():
        changes = int(connection.execute("SELECT value FROM facts WHERE name = 'changes'").fetchone()["value"])
        return _SchedulerState(
            changes=changes,
            tasks=_tasks(connection) if known is None or known.changes != changes else known.tasks,
            considered=TaskRows(connection).considered(),
            running=tuple(RunRows(connection).read(state="running")),
            waiting=tuple(RunRows(connection).waiting()),
        )


def _tasks(connection: sqlite3.Connection) -> dict[int, Task]:
    """Return task id → the task."""
    return {task.id: task for task in TaskRows(connection).read().values()}


def _decide_start(task: Task, was: int, awake_since: int, now: int, busy: str | None, free: bool) -> _Claim | None:
    """Return a claim on the due fire times after `was` that can be settled now, or None if none can.

    If the task's previous run is still active, the overlap policy applies to fire times that came due under a leader:
    with skip, they are missed, and with queue, they wait for that run to end. Catch-up fire times, which came due
    earlier, wait under both policies. All fire times wait for a free worker.

    Args:
        task: The task.
        was: The time up to which its fire times are settled.
        awake_since: The time since which a scheduler has led without a gap.
        now: The current time.
        busy: The reason why no run of the task can start now, as in "was still running", or None if one can.
        free: Whether a worker is free for one more run.
    """
    decision = decide(task.schedule, task.catch_up, was, awake_since, now)
    missed = _missed(decision)
    run, considered = None, decision.considered
    for moment in decision.run:
        if busy is not None and task.overlap == "skip" and moment >= awake_since:
            missed.append((moment, f"the previous run {busy}, and overlap = skip"))
        elif busy is None and free:
            run, busy = moment, "had not started yet"
        else:
            considered = moment - 1
            break
    return _Claim(task, was, considered, tuple(missed), run) if missed or run is not None else None


def _missed(decision: Decision) -> list[tuple[int, str]]:
    """Return the missed fire times of a decision with reasons. The older ones are combined into one entry."""
    older = decision.older
    if older is None:
        return list(decision.missed)
    several = (
        f"{older.total:,} scheduled runs from {iso(older.first)} to {iso(older.last)}: " if older.total > 1 else ""
    )
    return [(older.last, several + older.why), *decision.missed]


_SECOND = 1_000_000
_RETRY_AT_MOST = 61 * _SECOND
"""The longest wait for a retry, in microseconds. A longer wait means that the clock was set back."""
_LATE = 60.0
"""The delay in seconds from which a late start is logged as a warning. Runs longer than their period queue up."""
_LISTED = 5
"""The maximum number of missed fire times that are logged individually."""
_MOST = 30.0
"""The maximum number of seconds between attempts to write after a disk error."""

_GOES_ON, _WAITS = "was still running", "was waiting for its next attempt"
"""Reasons why a task is busy, for the log of fire times that are missed because of it."""

_Key = tuple[int, int, int]


class Loop:
    """One term of a leader, as a single-threaded event loop. `step` does everything that is due."""

    def __init__(
        self, catalog_db: CatalogDb, pool: WorkerPool, clock: Clock, intervals: Intervals, log: Log, holder: str
    ) -> None:
        self._catalog_db, self._pool = catalog_db, pool
        self._clock, self._intervals, self._log, self._holder = clock, intervals, log, holder
        self._awake_since = clock.now()
        self._last = (clock.now(), clock.monotonic())
        self._expected = clock.monotonic()
        self._state: _SchedulerState | None = None
        self._running: dict[_Key, tuple[Task, TaskRun]] = {}
        self._ends: list[Ended | Died] = []
        self._settled_at: float | None = None
        self._next: dict[int, tuple[Task, int, int | None]] = {}
        self._listed_tasks: Mapping[int, Task] | None = None
        self._stuck: dict[int, tuple[Task, int, str | None, int, bool]] = {}
        """Task id → the inputs for which none of the task's fire times could be settled."""
        self._turns: dict[int, int] = {}
        """Task id → the number of the turn in which the task last started a run."""
        self._turn = 0
        self._trouble: str | None = None
        self._troubled = 0.0
        self._patience = 0.0

    def step(self) -> float:
        """Do everything that is due, and return the seconds until more may be due.

        Raises:
            CommitConflict: Another scheduler leads (code leader-lost).
            DatabaseError: The database no longer exists (code database-gone).
        """
        now, monotonic = self._clock.now(), self._clock.monotonic()
        self._notice_gaps(now, monotonic)
        try:
            self.collect()
            wait = self._begin_runs(now, monotonic)
            self._end_trouble(monotonic)
        except CommitConflict as moved:
            if moved.code == "leader-lost":
                raise
            # Exponential backoff. Another process changed the task, and the next load of the state will include the
            # change.
            self._patience = min(max(0.02, 2 * self._patience), self._intervals.poll)
            wait = self._patience
        except (SnapdbError, OSError, sqlite3.Error) as error:
            if isinstance(error, SnapdbError) and error.code == "database-gone":
                raise
            wait = self._wait_out(error, monotonic)
        self._last, self._expected = (now, monotonic), self._clock.monotonic() + wait
        return wait

    def busy(self) -> bool:
        """Return whether a run is in progress or its end is not recorded yet."""
        return bool(self._running)

    def collect(self) -> list[Ended]:
        """Record the run ends that no worker could record, log all ends, and return the recorded ones.

        Raises:
            SnapdbError: The catalog cannot be written at the moment. A later call records the remaining ends.
        """
        self._ends += self._pool.ended()
        ended_runs, held = [], []
        while self._ends:
            # An end is removed only after it is recorded. After an exception, the next call starts with it again.
            ended = self._recorded(self._ends[0])
            end = self._ends.pop(0)
            if ended is None:
                held.append(end)
                continue
            del self._running[_key(ended.run)]
            _log_end(self._log, ended)
            ended_runs.append(ended)
        self._ends = held
        return ended_runs

    def _recorded(self, end: Ended | Died) -> Ended | None:
        """Record how a run of this leader ended. Return None if a child of its process still holds its lock."""
        task, run = self._running[_key(end.run)]
        if isinstance(end, Ended):
            return end if end.recorded else record(self._catalog_db, task, end)
        now = self._clock.now()
        return settle_abandoned(self._catalog_db, task, run, now, error=end.how, state=end.state)

    def _begin_runs(self, now: int, monotonic: float) -> float:
        """Start the runs that are due, and return the seconds until more are due."""
        state = self._state = _load_state(self._catalog_db, self._state)
        if self._settled_at is None or monotonic - self._settled_at >= self._intervals.orphan_check:
            self._settled_at = monotonic
            if self._settle_orphans(state, now):
                state = self._state = _load_state(self._catalog_db, state)
        busy = {run.task: _WAITS for run in state.waiting}
        busy |= {run.task: _GOES_ON for run in (*state.running, *(run for _, run in self._running.values()))}
        soonest = self._retry(state, busy, now)
        active = [task for task in state.tasks.values() if not task.suspended]
        self._next = {task.id: self._next_of(state, task) for task in active}
        self._log_tasks(state, now)
        self._turns = {known: turn for known, turn in self._turns.items() if known in state.tasks}
        self._stuck = {known: why for known, why in self._stuck.items() if known in state.tasks}
        # Round robin: the task whose last turn was longest ago comes first, so that a task that always lags cannot
        # starve the others.
        for task in sorted(active, key=lambda task: (self._turns.get(task.id, 0), self._next[task.id][2] or 0)):
            due = self._next[task.id][2]
            cursor = state.considered[task.id]
            if cursor > now and self._resume_after_jump(task, cursor, now):
                soonest = now  # load the state again immediately
                continue
            if due is not None and due <= now:
                due = self._begin_due(task, cursor, busy.get(task.id), now)
            if due is not None:
                soonest = min(soonest, due)
        return max(0.0, min(self._intervals.poll, (soonest - self._clock.now()) / _SECOND))

    def _begin_due(self, task: Task, cursor: int, busy: str | None, now: int) -> int | None:
        """Settle due fire times if possible, and return the next one, or None if an event must happen first."""
        free = self._pool.free() > 0
        why = task, cursor, busy, self._awake_since, free
        # Skip hundreds of fire times that wait for a worker, which would otherwise be examined again at each step.
        if self._stuck.get(task.id) == why:
            return None
        decision = _decide_start(task, cursor, self._awake_since, now, busy, free)
        if decision is None:
            self._stuck[task.id] = why
            return None
        self._stuck.pop(task.id, None)
        run = _claim(self._catalog_db, self._holder, decision, now)
        if run is not None:
            self._start(task, run)
        self._log_missed(task, decision.missed)
        return next_firing(task.schedule, decision.considered)

    def _retry(self, state: _SchedulerState, busy: dict[int, str], now: int) -> float:
        """Start the retries that are due, and return the time of the next one."""
        soonest = float("inf")
        for failed in state.waiting:
            task = state.tasks.get(failed.task)
            if task is None or task.suspended or busy[failed.task] == _GOES_ON or failed.retry is None:
                continue
            if now < failed.retry <= now + _RETRY_AT_MOST:
                soonest = min(soonest, failed.retry)
            elif self._pool.free():
                self._start(task, _again(self._catalog_db, self._holder, task, failed, now))
                busy[task.id] = _GOES_ON
        return soonest

    def _start(self, task: Task, run: TaskRun) -> None:
        """Pass a run to a worker and log its start."""
        self._running[_key(run)] = (task, run)
        self._turn += 1
        self._turns[task.id] = self._turn
        late = max(0.0, (self._clock.now() - run.scheduled) / _SECOND)
        at = iso(run.scheduled)
        write = self._log.info if late <= _LATE else self._log.warn
        write("run.start", task=task.name, run=run.run, attempt=run.attempt, scheduled=at, late=late)
        self._pool.start(task, run)

    def _settle_orphans(self, state: _SchedulerState, now: int) -> bool:
        """Record the ends of other schedulers' runs whose processes have died, and return whether there were any."""
        settled = False
        for run in state.running:
            if _key(run) not in self._running:
                ended = settle_abandoned(self._catalog_db, state.tasks.get(run.task), run, now)
                if ended is not None:
                    _log_end(self._log, ended)
                    settled = True
        return settled

    def _next_of(self, state: _SchedulerState, task: Task) -> tuple[Task, int, int | None]:
        """Return the task's first unsettled fire time, which is recomputed only if it may have changed."""
        cursor, known = state.considered[task.id], self._next.get(task.id)
        if known is not None and known[:2] == (task, cursor):
            return known
        return task, cursor, next_firing(task.schedule, cursor)

    def _resume_after_jump(self, task: Task, cursor: int, now: int) -> bool:
        """Move a task's cursor back if setting the clock back left it in the future. Return whether it moved."""
        considered, anchor = after_a_jump(task.schedule, cursor, now)
        if considered == cursor:
            return False
        _resume(self._catalog_db, self._holder, task, anchor, considered)
        return True

    def _log_tasks(self, state: _SchedulerState, now: int) -> None:
        """Log the number of tasks and the next fire time, on the first call and when the tasks have changed."""
        if self._listed_tasks != state.tasks:
            self._listed_tasks = state.tasks
            after = (
                (next_firing(task.schedule, max(cursor, now)), task.name) for task, cursor, _ in self._next.values()
            )
            moment, first = min(((at, name) for at, name in after if at is not None), default=(None, None))
            at = None if moment is None else iso(moment)
            why = None if state.tasks else "the database has no tasks; CREATE TASK creates one"
            self._log.info("tasks", active=len(self._next), of=len(state.tasks), next=at, task=first, why=why)

    def _log_missed(self, task: Task, missed: tuple[tuple[int, str], ...]) -> None:
        """Log missed fire times. If there are many, combine them into one line."""
        if len(missed) > _LISTED:
            first, last, why = missed[0][0], missed[-1][0], missed[-1][1]
            self._log.warn(
                "run.missed", task=task.name, scheduled=iso(first), last=iso(last), count=len(missed), why=why
            )
            return
        for moment, why in missed:
            self._log.warn("run.missed", task=task.name, scheduled=iso(moment), why=why)

    def _notice_gaps(self, now: int, monotonic: float) -> None:
        """Record that no scheduler led while the machine or this process was suspended, or while the clock jumped."""
        # The wall clock is compared with the monotonic one. The difference is how far the clock was set, or how long
        # the machine was suspended.
        moved = (now - self._last[0]) / _SECOND - (monotonic - self._last[1])
        late = monotonic - self._expected
        if abs(moved) > self._intervals.gap:
            why = "the clock was set back" if moved < 0 else "the clock was set, or the machine was suspended"
            self._log.warn("clock.jump", seconds=moved, why=why)
            self._awake_since = now
        elif late > self._intervals.gap:
            self._log.warn("clock.jump", seconds=late, why="the scheduler was suspended, or waited for the catalog")
            self._awake_since = now
        elif self._trouble is not None and monotonic - self._troubled > self._intervals.gap:
            self._awake_since = now
        self._awake_since = min(self._awake_since, now)

    def _wait_out(self, error: Exception, monotonic: float) -> float:
        """Return the seconds until the next attempt. Until then, fire times remain due and run ends are kept."""
        if self._trouble is None:
            self._troubled, self._patience = monotonic, 0.0
        if self._trouble != report(error):
            self._trouble = report(error)
            self._log.error("error", error=self._trouble, code=getattr(error, "code", None))
        self._patience = min(max(1.0, 2 * self._patience), _MOST)
        return self._patience

    def _end_trouble(self, monotonic: float) -> None:
        """Log that an error condition has ended."""
        self._patience = 0.0
        if self._trouble is not None:
            self._trouble = None
            self._log.info("error.over", seconds=monotonic - self._troubled)


def _key(run: TaskRun) -> _Key:
    return run.task, run.run, run.attempt


def _log_end(log: Log, ended: Ended) -> None:
    """Log how a run ended, its own log, and when it is retried."""
    run = ended.run
    attempt: dict[str, Field] = {"task": run.name, "run": run.run, "attempt": run.attempt}
    if ended.state == "skipped":
        log.info("run.skipped", task=run.name, scheduled=iso(run.scheduled))
        return
    for line in ended.log.splitlines():
        log.info("run.log", **attempt, line=line)
    seconds = max(0.0, (ended.ended - (run.started or ended.ended)) / 1e6)
    write = log.info if ended.state == "ok" else log.warn
    outcome: dict[str, Field] = {"state": ended.state, "rows": ended.rows, "bytes": ended.bytes}
    write("run.end", **attempt, **outcome, seconds=seconds, error=ended.error)
    if ended.retry is not None:
        log.info("run.retry", **attempt, at=iso(ended.retry))

"""The operators of CREATE TASK, ALTER TASK and EXECUTE TASK, and texts that describe a database's leader."""

import shlex
import socket
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Literal

from snapdb.catalog.state import moment
from snapdb.errors import CommitConflict, LockedError, QueryError, moved
from snapdb.execute.results import Outcome, Rows
from snapdb.execute.session import DatabaseSession, ExecutionContext
from snapdb.execute.tasks.perform import perform
from snapdb.execute.tasks.runs import Ended, Stop, settle
from snapdb.plan.tasks import AlterTaskPlan, CreateTaskPlan, ExecuteTaskPlan
from snapdb.plan.times import spelled
from snapdb.schedule import next_firing
from snapdb.sql_engine import quote_odd, text_literal
from snapdb.storage.catalog_db.connection import CatalogDb
from snapdb.storage.catalog_db.db_dir import DatabaseDir
from snapdb.storage.catalog_db.task_rows import LEASE_TTL, Leader, LeaderLease, RunLock, RunRows, TaskRows
from snapdb.storage.disk import Disk, fresh_name
from snapdb.storage.tables.commit import now
from snapdb.types import Task, TaskRun
from snapdb.types.text import counted

_PULSE = 0.1
"""The number of seconds between two reads of the lease while a daemon might be about to acquire a run's lock."""


def create_task(plan: CreateTaskPlan, context: ExecutionContext) -> Rows:
    """Run CREATE TASK: insert the task's catalog row, or replace the row specified in the plan."""
    yield from ()
    with context.store.catalog_db.writing(publishes=True) as connection:
        task = TaskRows(connection).put(plan.task, plan.replaces)
    return Outcome(f"task {task.name}: {task.schedule.text}; {_next(context, task, task.created)}")


def alter_task(plan: AlterTaskPlan, context: ExecutionContext) -> Rows:
    """Run ALTER TASK: update the task's catalog row."""
    yield from ()
    task, since = plan.after, plan.since
    with context.store.catalog_db.writing(publishes=True) as connection:
        TaskRows(connection).alter(plan.before, task, since)
    then = "" if since is None else f"; {_next(context, task, since)}"
    return Outcome(f"task {task.name}: {plan.did}{then}")


def _next(context: ExecutionContext, task: Task, after: int) -> str:
    """Return the text for the task's next run, with a warning if no daemon would start it."""
    fires = next_firing(task.schedule, after)
    if fires is None:
        return "no further runs"
    first = f"next run at {spelled(fires)}"
    if LeaderLease(context.store.catalog_db).read() is not None:
        return first
    return f"{first}, but {suggest_daemon(context.store.db_dir)}"


def execute_task(plan: ExecuteTaskPlan, context: ExecutionContext) -> Rows:
    """Run EXECUTE TASK: run a task in this process, regardless of its schedule and condition.

    Raises:
        QueryError: The run failed.
        LockedError: The task is already running.
    """
    yield from ()
    task, started = plan.task, time.perf_counter()
    context.tables.release()  # the run opens the database itself, and VACUUM in a run waits for readers
    lock = RunLock(context.store.db_dir, task.id)

    def open_session(folders: Sequence[str], disk: Disk) -> DatabaseSession:
        path = context.store.db_dir.path
        return DatabaseSession(path, threads=context.threads, folders=folders, rules=context.rules, disk=disk)

    try:
        if not lock.take():
            raise _busy(context, task)
        run = _begun(context, task)
        ended = perform(open_session, context.store.catalog_db, task, run, Stop(context.stopped), lock=lock)
    finally:
        lock.release()
    return _outcome(task, ended, time.perf_counter() - started)


def _begun(context: ExecutionContext, task: Task) -> TaskRun:
    """Insert the row of a new run and return it. The caller holds the lock on the task's runs."""
    for abandoned in _going(context, task):
        if abandoned.cause == "schedule" and _led(context, abandoned):
            raise _busy(context, task)
        # Its process does not hold the lock, so it has ended. The run is recorded as failed, or as done if all
        # statements are done.
        settle(context.store.catalog_db, task, abandoned, now())
    begins = now()
    with context.store.catalog_db.writing(counted=False) as connection:
        # This is a compare-and-swap, because the task may have changed since the statement was bound.
        if TaskRows(connection).read().get(task.name.lower()) != task:
            raise moved(f"task {task.name} was altered, replaced or dropped concurrently", code="task-moved")
        if not any(RunRows(connection).read(task=task.id, state="running")):
            return RunRows(connection).begin(task, "manual", begins, fresh_name(), begins)
    raise _busy(context, task)


def _led(context: ExecutionContext, run: TaskRun) -> bool:
    """Wait while the daemon that recorded a run can still acquire its lock. Returns whether it is still the leader."""
    first = LeaderLease(context.store.catalog_db).read()
    last = time.monotonic() + LEASE_TTL
    while first is not None and first.holder == run.holder and time.monotonic() < last:
        context.check_stopped()
        leader = LeaderLease(context.store.catalog_db).read()
        if leader is None or leader != first:
            return leader is not None and leader.holder == run.holder
        time.sleep(_PULSE)
    return False


def _going(context: ExecutionContext, task: Task) -> list[TaskRun]:
    with context.store.catalog_db.reading() as connection:
        return list(RunRows(connection).read(task=task.id, state="running"))


def _busy(context: ExecutionContext, task: Task) -> LockedError:
    going = _going(context, task)
    since = ""
    if going and going[-1].started is not None:
        began = moment(going[-1].started).isoformat(sep=" ", timespec="seconds")
        since = f" (run {going[-1].run} since {began})"
    text = f"task {task.name} is running{since}; wait until the run ends: SHOW TASK RUNS OF {quote_odd(task.name)}"
    return LockedError(text, code="task-running")


def _outcome(task: Task, ended: Ended, seconds: float) -> Outcome:
    """Return the outcome of the run.

    Raises:
        QueryError: The run failed.
        CommitConflict: Another process recorded the end of the run.
    """
    number = ended.run.run
    if ended.state == "lost":
        raise CommitConflict(ended.error or "", code="run-lost")
    if ended.state != "ok":
        if ended.interrupted:
            raise QueryError("interrupted", code="interrupted")
        where = f"task = {text_literal(task.name)} AND run = {number}"
        raise QueryError(
            f"run {number} of task {task.name} failed: {ended.error}; read its log with SELECT log FROM "
            f"snapdb.task_runs WHERE {where}",
            code="task-failed",
        )
    text = f"run {number} of task {task.name}: ok, {counted(ended.rows, 'row')} in {seconds:.1f} s"
    return Outcome(text if ended.recorded else f"{text}; {ended.log.splitlines()[-1]}", ended.rows)


def describe_leader(catalog_db: CatalogDb) -> str:
    """Return a text that describes the leader of the database, or how to start a scheduler."""
    leader = LeaderLease(catalog_db).read()
    if leader is None:
        return suggest_daemon(catalog_db.db_dir)
    if _is_gone(leader):
        return f"{describe_process(leader)} ended without releasing its lease; {suggest_daemon(catalog_db.db_dir)}"
    return f"{describe_process(leader)} since {moment(leader.since):%Y-%m-%d %H:%M:%S}+00:00"


def suggest_daemon(db_dir: DatabaseDir) -> str:
    """Return the message that no scheduler is running, with the command that starts one."""
    return f"no scheduler is running; run: {scheduler_command('run', db_dir)}"


def describe_process(leader: Leader) -> str:
    """Return the leader's process id and host."""
    return f"pid {leader.pid} on {leader.host}"


def scheduler_command(name: Literal["run", "history"], db_dir: DatabaseDir) -> str:
    """Return a `snapdb schedule` command for the database."""
    return f"snapdb schedule {name} {shlex.quote(str(db_dir.path))}"


def _is_gone(leader: Leader) -> bool:
    """Return whether the leader is a process of this machine that has ended. A standby takes over within seconds."""
    if leader.host != socket.gethostname() or not Path("/proc/self").exists():
        return False
    with suppress(OSError, OverflowError):
        return not Path(f"/proc/{leader.pid}").exists()
    return False

"""Executes a task run, from its row in state 'running' to its recorded end. After a crash, no statement runs twice.

The transaction that publishes a statement also records the statement as done, and no transaction commits after another
process has taken over the run (`RunMark` of `storage.catalog_db.task_rows`). The row of a run whose process died
therefore records exactly which statements are done, and the next attempt continues after them.
"""

import json
import sqlite3
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pyarrow as pa

from snapdb.catalog import load
from snapdb.errors import CommitConflict, LockedError, QueryError, SnapdbError, report
from snapdb.execute.maintenance import apply_retentions
from snapdb.execute.session import DatabaseSession
from snapdb.execute.tasks.runs import Ended, EndState, RunProgress, Stop, Watch, record
from snapdb.plan.defined_names import tables_behind
from snapdb.plan.variables import no_variables
from snapdb.schedule import stamp
from snapdb.sql import parse
from snapdb.sql.syntax import Statement
from snapdb.sql.task_bodies import changed_graphs, rendered, with_counts
from snapdb.sql.versions import Rollback
from snapdb.sql_engine.sources import resolved
from snapdb.storage.catalog_db.connection import CatalogDb
from snapdb.storage.catalog_db.task_rows import RunLock, RunMark, RunRows
from snapdb.storage.disk import Disk, MeteredDisk, hash_file, is_hidden_beside
from snapdb.storage.manifests import MANIFEST
from snapdb.storage.tables.commit import now as clock
from snapdb.types import RunExport, Task, TaskRun
from snapdb.types.text import counted

_PATIENCE = 10.0
"""How many seconds to wait for a process that is being killed but still holds the lock on the task's runs."""
_PULSE = 0.05
_EXCERPT = 60
"""The maximum length of a statement in the log, in characters."""

_OpenSession = Callable[[Sequence[str], Disk], DatabaseSession]
"""Opens the database on a disk, with access to only the database and the given directories."""

_NOT_BY_TASK = """
    > ? AND {version} NOT IN (SELECT own.value FROM runs, json_each(runs.published) own WHERE runs.task = ?)
"""
_CHANGED = f"""
    SELECT coalesce(sum(c.rows_added + c.rows_removed), 0) FROM changes c JOIN tables t ON t.id = c.table_id
    WHERE t.folded IN (SELECT value FROM json_each(?)) AND c.version {_NOT_BY_TASK.format(version="c.version")}
"""
_REPLACED = f"""
    SELECT json_group_array(id) FROM tables
    WHERE folded IN (SELECT value FROM json_each(?)) AND dropped {_NOT_BY_TASK.format(version="dropped")}
"""
_HELD = """
    SELECT coalesce(sum(rows_added - rows_removed), 0) FROM changes WHERE table_id IN (SELECT value FROM json_each(?))
"""
"""The number of rows that tables had when they were dropped, which no change records."""


def perform(
    open_session: _OpenSession,
    catalog_db: CatalogDb,
    task: Task,
    run: TaskRun,
    stop: Stop,
    *,
    lock: RunLock | None = None,
    now: Callable[[], int] = clock,
) -> Ended:
    """Run the remaining statements of a task, and record the end of the run.

    Args:
        open_session: Opens the database for this run.
        catalog_db: The database in which the run is recorded.
        task: The task.
        run: The row of the run, in state 'running'.
        stop: The request to stop, which another thread can make.
        lock: The lock on the task's runs if the caller holds it, or None to acquire it here.
        now: Returns the current time in microseconds since 1970 UTC.

    Returns:
        The end of the run, with the error of its body or the disk error that prevented the end from being recorded.
    """
    own: RunLock | None = None
    caught: BaseException | None = None
    skipped = False
    attempt = _Attempt(catalog_db, task, run, Watch(stop, None if task.timeout is None else task.timeout / 1e6))
    try:
        try:
            with attempt.watch:
                if lock is None:
                    own = RunLock(catalog_db.db_dir, task.id)
                    _take(own, attempt.watch)
                skipped = not attempt.run_body(open_session)
        except (Exception, KeyboardInterrupt) as error:
            caught = error
        ended = _recorded(catalog_db, task, attempt.ended(caught, now(), skipped=skipped))
        if isinstance(caught, KeyboardInterrupt):
            raise caught
        return ended
    finally:
        if own is not None:
            own.release()


def _take(lock: RunLock, watch: Watch) -> None:
    """Acquire the lock, which a process that is being killed will soon release.

    Raises:
        LockedError: The process that holds the lock does not exit.
    """
    last = time.monotonic() + _PATIENCE
    while not lock.take():
        watch.check()
        if time.monotonic() > last:
            raise LockedError(
                f"another process is still running this task after {_PATIENCE:.0f} s; see SHOW TASK RUNS",
                code="task-running",
            )
        time.sleep(_PULSE)


def _recorded(catalog_db: CatalogDb, task: Task, ended: Ended) -> Ended:
    try:
        return record(catalog_db, task, ended)
    except SnapdbError as error:
        return replace(ended, log=f"{ended.log}its end could not be recorded: {error.message}\n")


@dataclass(slots=True)
class _Attempt:
    """One attempt to run a task."""

    catalog_db: CatalogDb
    task: Task
    run: TaskRun
    watch: Watch
    progress: RunProgress = field(default_factory=RunProgress)

    def run_body(self, open_session: _OpenSession) -> bool:
        """Run the body and return whether the condition was true."""
        task, run = self.task, self.run
        date, hour = stamp(task.schedule, run.scheduled)
        values = {"date": date, "time": hour, "version": str(run.version), "run": str(run.run)}
        text = rendered(task.body, values, task.folder)
        statements = parse(text.text)
        self.progress.total = len(statements)
        # Retries and manual runs do not check the condition, because a retry finishes its body and a manual run is
        # explicit.
        asks = run.step == 0 and run.cause == "schedule"
        query = _condition_query(self.catalog_db, task) if asks else None
        condition = None if query is None else rendered(query, values, task.folder)
        places = {*text.places, *(() if condition is None else condition.places)}
        body = _Body(self.catalog_db, run, self.progress, self.watch)
        disk = body.disk()
        self.watch.check()
        allowed = {real for place in places if (real := resolved(place)) is not None}
        session = open_session(sorted(allowed), disk)
        try:
            self.watch.interrupt = session.interrupt
            self.watch.check()
            if condition is not None and not _holds(session, condition.text):
                return False
            body.go(session, statements, disk)
            self._retain(session)
        finally:
            self.watch.interrupt = None
            session.close()
        return True

    def _retain(self, session: DatabaseSession) -> None:
        """Apply the retention rules. The run has done its work, so an error is only logged."""
        try:
            self.watch.check()
            with session.reading() as context:
                self.progress.lines += apply_retentions(context)
        except Exception as error:
            first_line = report(error).partition("\n")[0]
            self.progress.lines.append(f"retention was not applied: {first_line}")

    def ended(self, error: BaseException | None, now: int, *, skipped: bool) -> Ended:
        """Return the end of the attempt, based on the exception and the statements that are recorded as done."""
        if skipped:
            return Ended(self.run, "skipped", now)
        if isinstance(error, CommitConflict) and error.code == "run-lost":
            return Ended(self.run, "lost", now, error=error.message)
        state: EndState = "ok"
        self.progress.kept = self._step()
        text = None if error is None else self._error_text(error)
        if text is not None and 0 < self.progress.total <= self.progress.kept:
            # An error after the last publication does not undo anything, so the run succeeded.
            self.progress.lines.append(f"after the last statement: {text}")
            text = None
        elif text is not None:
            state = "timeout" if self.watch.why == "timeout" else "failed"
        lines = [*self.progress.lines, *(self.progress.notes if state != "ok" else ())]
        log = "".join(f"{line}\n" for line in lines)
        interrupted = text is not None and (isinstance(error, KeyboardInterrupt) or self.watch.why == "interrupted")
        progress = self.progress
        code = None if text is None or error is None else _error_code(error)
        return Ended(self.run, state, now, progress.rows, progress.bytes, text, log, interrupted=interrupted, code=code)

    def _error_text(self, error: BaseException) -> str:
        if isinstance(error, KeyboardInterrupt):
            return self.progress.stopped("interrupted", self.task)
        if self.watch.why is None:
            return self.progress.failed(error)
        if not isinstance(error, SnapdbError) or error.code != "interrupted":
            self.progress.lines.append(self.progress.failed(error))
        return self.progress.stopped(self.watch.why, self.task)

    def _step(self) -> int:
        """Return the number of statements that the run's row records as done."""
        try:
            with self.catalog_db.reading() as connection:
                row = RunRows(connection).find(self.run)
        except SnapdbError:  # the run's end cannot be recorded either
            return self.run.step
        return self.run.step if row is None else row.step


def _error_code(error: BaseException) -> str | None:
    """Return the code of the error that ended an attempt, or None for an error of Python or the system."""
    if isinstance(error, SnapdbError):
        return error.code
    return "out-of-memory" if isinstance(error, MemoryError) else None


@dataclass(slots=True)
class _Body:
    """Runs the remaining statements of a task for one attempt of a run.

    A statement that commits to the catalog is recorded as done in the same transaction. An export is renamed outside
    the catalog, so its directory is first recorded in a row of `exports`, by which a later attempt recognises it.
    """

    catalog_db: CatalogDb
    run: TaskRun
    progress: RunProgress
    watch: Watch

    def disk(self) -> MeteredDisk:
        """Return the disk on which the run opens its database."""
        return MeteredDisk(self.catalog_db.db_dir.disk, self._leaving)

    def go(self, session: DatabaseSession, statements: Sequence[Statement], disk: MeteredDisk) -> None:
        """Run the remaining statements.

        Args:
            session: The session of the run.
            statements: All statements of the body.
            disk: The session's disk, which counts bytes.

        Raises:
            QueryError: The run was stopped (code 'interrupted'), or a statement failed.
            CommitConflict: Another process took over the run.
        """
        own, transactions = session.store.catalog_db, session.transactions
        own.mark = mark = RunMark(self.run)
        with self.catalog_db.reading() as connection:
            before = RunRows(connection).exports(self.run)
        for number, statement in enumerate(statements, start=1):
            if number <= self.run.step:
                continue
            self.watch.check()
            self.progress.statement = mark.statement = number
            started = time.perf_counter()
            # An earlier attempt renamed the directory before it ended, so this statement is done.
            if any(_stands(export) for export in before if export.statement == number):
                rows, text = 0, "its folder was written by an earlier attempt"
            else:
                rows, text = self._one(session, statement)
            self._say(number, statement, text, time.perf_counter() - started)
            if isinstance(statement, Rollback):
                self.progress.pending = 0
            self.progress.done(rows, in_transaction=transactions.state != "idle")
            if transactions.state == "idle":
                self.progress.bytes += disk.taken()
                self._note_done(own, number)
        if transactions.state != "idle":
            raise QueryError(
                "the last statement leaves a transaction open, which was rolled back; end it with COMMIT",
                code="transaction-open",
            )

    def _one(self, session: DatabaseSession, statement: Statement) -> tuple[int, str]:
        """Return the number of rows that a statement added or removed, and its outcome as text."""
        self.progress.under_way, given = True, 0
        with no_variables():
            result = session.run(statement)
        for batch in result:  # read to the end, batch by batch
            given += batch.num_rows
        text = "; ".join(filter(None, (result.message, counted(given, "row") if result.is_query else "")))
        return 0 if result.is_query else result.rowcount, text

    def _say(self, number: int, statement: Statement, outcome: str, seconds: float) -> None:
        text = " ".join(statement.source[statement.span.start : statement.span.stop].split())
        short = text if len(text) <= _EXCERPT else f"{text[: _EXCERPT - 1]}…"
        self.progress.lines.append(f"{number} {short}: {outcome} ({seconds:.2f} s)")

    def _note_done(self, own: CatalogDb, number: int) -> None:
        """Record a statement that did not commit anything as done."""
        with own.reading() as connection:
            row = RunRows(connection).find(self.run)
        if row is None or row.step < number:
            with own.writing(publishes=True, counted=False):
                pass  # an empty transaction, because the mark is written at the end of one

    def _leaving(self, source: Path, target: Path) -> None:
        """Record a file before it is renamed outside the database. Raises CommitConflict if the run was taken over."""
        if target.is_relative_to(self.catalog_db.db_dir.path) or is_hidden_beside(target):
            return
        manifest, statement = source / MANIFEST, self.progress.statement
        note = f"{statement} puts {json.dumps(str(target))}"
        with self.catalog_db.writing(counted=False) as connection:
            if manifest.is_file():
                RunRows(connection).note_export(self.run, RunExport(statement, str(target), hash_file(manifest)[1]))
            RunRows(connection).note(self.run, note)
        self.progress.notes.append(note)


def _stands(export: RunExport) -> bool:
    """Return whether an export's directory is complete, which means that it contains this statement's manifest."""
    manifest = Path(export.path) / MANIFEST
    return manifest.is_file() and hash_file(manifest)[1] == export.sha256


def _condition_query(catalog_db: CatalogDb, task: Task) -> str | None:
    """Return the query of a task's condition, which returns one boolean, or None if the task has no condition.

    Raises:
        BindError: A graph in the condition does not exist.
    """
    if task.condition is None:
        return None
    return f"SELECT ({with_counts(task.condition, _counts(catalog_db, task))})"


def _holds(session: DatabaseSession, query: str) -> bool:
    """Return whether the query of a condition returns true. NULL counts as false.

    Raises:
        QueryError: The result is not one boolean.
    """
    (statement,) = parse(query)
    with no_variables():
        table = session.run(statement).arrow()
    if table.num_columns != 1 or table.num_rows != 1 or table.schema.types[0] not in (pa.bool_(), pa.null()):
        types = ", ".join(map(str, table.schema.types))
        raise QueryError(
            f"WHEN of a task must return one BOOLEAN value, found {table.num_rows:,} of type {types}; write "
            "a comparison, as in changed('shop') > 0",
            code="condition-value",
        )
    return table.column(0)[0].as_py() is True


def _changed_rows(connection: sqlite3.Connection, tables: Sequence[str], task: int) -> int:
    """Return the number of rows added to and removed from tables since the task's last success started.

    Changes by runs of the task itself do not count.
    """
    last = RunRows(connection).last_ok(task)
    given = (json.dumps(tables), 0 if last is None else last.version, task)
    (changed,) = connection.execute(_CHANGED, given).fetchone()
    (replaced,) = connection.execute(_REPLACED, given).fetchone()
    (held,) = connection.execute(_HELD, (replaced,)).fetchone() if replaced != "[]" else (0,)
    return int(changed) + int(held)


def _counts(catalog_db: CatalogDb, task: Task) -> Mapping[str, int]:
    names = [name for name, _ in changed_graphs(task.condition or "")]
    if not names:
        return {}
    catalog = load(catalog_db)
    tables = {name: tables_behind(catalog, catalog.graph(name).tables) for name in names}
    with catalog_db.reading() as connection:
        return {name: _changed_rows(connection, read, task.id) for name, read in tables.items()}

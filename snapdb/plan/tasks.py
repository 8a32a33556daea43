"""Scheduled tasks: CREATE, ALTER and EXECUTE TASK."""

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from snapdb.errors import BindError, DatabaseError, QueryError, SnapdbError, Span
from snapdb.plan.names import check_own, find_named
from snapdb.plan.plan import NothingPlan, Plan, PlanFamily, PlanNode
from snapdb.plan.scope import BindContext
from snapdb.plan.times import microseconds
from snapdb.sql.lexer import Rewritten, rewrite, scan
from snapdb.sql.pattern_tokens import find_patterns
from snapdb.sql.queries import bare_ats, time_travels
from snapdb.sql.syntax import SqlFragment
from snapdb.sql.task_bodies import PLACEHOLDERS, changed_graphs, filled, named_paths
from snapdb.sql.tasks import AlterTask, CreateTask, ExecuteTask, TaskOption
from snapdb.sql.tasks import Schedule as ScheduleTree
from snapdb.sql_engine import SqlEngine
from snapdb.storage.tables.commit import author, now
from snapdb.types import Schedule, Task

_SECOND = 1_000_000
_LONGEST = 1000 * 365 * 86_400 * _SECOND
"""A thousand years in microseconds."""


@dataclass(frozen=True, slots=True)
class CreateTaskPlan(Plan):
    """CREATE TASK: store statements with a schedule. Each run binds the names in the statements."""

    task: Task
    """The task to create, without an id."""
    replaces: Task | None
    """The task to replace, whose id and runs the new task inherits, or None if the name is free."""

    def describe(self) -> PlanNode:
        return PlanNode("CreateTask", f"{self.task.name}: {self.task.schedule.text}")


@dataclass(frozen=True, slots=True)
class AlterTaskPlan(Plan):
    """ALTER TASK: suspend or resume a task, or change its options."""

    before: Task
    after: Task
    since: int | None
    """The time, in microseconds since 1970 UTC, up to which missed runs are not caught up, or None to leave it
    unchanged."""
    did: str
    """A description of the change for the user."""

    def describe(self) -> PlanNode:
        return PlanNode("AlterTask", f"{self.before.name}: {self.did}")


@dataclass(frozen=True, slots=True)
class ExecuteTaskPlan(Plan):
    """EXECUTE TASK: run a task now, in this process."""

    task: Task

    def describe(self) -> PlanNode:
        return PlanNode("ExecuteTask", self.task.name)


def _bind_create_task(statement: CreateTask, context: BindContext) -> Plan:
    """Bind a task. Its body is already parsed, and each run looks up the names in it."""
    name = statement.name
    existing = context.catalog.tasks.get(name.text.lower())
    if (there := check_own(statement, "task", existing)) is not None:
        return NothingPlan(there)
    if statement.when is not None:
        _check_condition(statement.when, context.store.sql_engine)
    created = now()
    task = Task(
        id=0,
        name=name.text,
        schedule=_schedule(context, statement.schedule, created),
        condition=None if statement.when is None else statement.when.text,
        body=_body_statements(statement.body.text),
        folder=_working_folder(),
        timeout=None,
        retries=0,
        overlap="skip",
        catch_up="none",
        suspended=False,
        created=created,
        author=author(),
    )
    return CreateTaskPlan(replace(task, **_options(context, statement.options)), existing)


def _bind_alter_task(statement: AlterTask, context: BindContext) -> Plan:
    """Bind the task after the change. Returns a NothingPlan if the task is already in that state."""
    task = find_named(context.catalog.task, statement.name)
    match statement.action:
        case "SET":
            after = replace(task, **_options(context, statement.options))
            names = ", ".join(option.name for option in statement.options)
            return AlterTaskPlan(task, after, None, f"{names} set")
        case "SUSPEND" if task.suspended:
            return NothingPlan(f"task {task.name} is already suspended")
        case "SUSPEND":
            return AlterTaskPlan(task, replace(task, suspended=True), None, "suspended")
        case "RESUME" if not task.suspended:
            return NothingPlan(f"task {task.name} is not suspended")
        case _:
            return AlterTaskPlan(task, replace(task, suspended=False), now(), "resumed")


def _schedule(context: BindContext, schedule: ScheduleTree, created: int) -> Schedule:
    """Bind the schedule. Intervals start at the second of creation."""
    # Placeholders such as {time} have a resolution of one second, so scheduled times are whole seconds.
    anchor = created - created % _SECOND
    if schedule.every is None:
        assert schedule.cron is not None
        line, _, zone = schedule.cron.rpartition(" ")
        return Schedule(f"USING CRON {schedule.cron}", line, zone, None, anchor)
    try:
        every = context.period(context.bind_query(schedule.every))
    except QueryError as error:
        if error.code == "interrupted":
            raise
        text = schedule.every.text[:40]
        raise BindError(
            f"EVERY must be an interval such as INTERVAL '10 minutes', found {text}",
            span=schedule.every.span,
            code="bad-length",
        ) from error
    if every is None or not _SECOND <= microseconds(every) <= _LONGEST:
        raise BindError(
            "EVERY must be an interval from a second to a thousand years without negative parts, such "
            "as INTERVAL '10 minutes'",
            span=schedule.every.span,
            code="bad-length",
        )
    return Schedule(f"EVERY {' '.join(schedule.every.text.split())}", None, "UTC", every, anchor)


def _working_folder() -> str:
    """Return the directory that relative paths refer to."""
    try:
        return os.getcwd()
    except OSError as error:
        raise DatabaseError(
            "the working directory of this process, to which a task's paths are relative, no longer exists; "
            "change to another directory",
            code="cannot-read",
        ) from error


def _body_statements(body: str) -> str:
    """Return the statements of a body without dollar quotes.

    >>> _body_statements("$do$ VACUUM; $do$"), _body_statements("VACUUM")
    ('VACUUM;', 'VACUUM')
    """
    if not body.startswith("$"):
        return body
    edge = body.index("$", 1) + 1
    return body[edge:-edge].strip()


def _options(context: BindContext, options: Sequence[TaskOption]) -> dict[str, Any]:
    """Return the options of WITH or SET as task fields."""
    return {option.name: _READ.get(option.name, _unchanged)(context, option) for option in options}


def _unchanged(context: BindContext, option: TaskOption) -> str | int | None:
    return option.value


def _timeout(context: BindContext, option: TaskOption) -> int:
    """Return the timeout in microseconds."""
    length = context.period_of_text(str(option.value), option.span)
    if length is None or microseconds(length) > _LONGEST:
        raise BindError(
            "timeout must be a duration greater than zero, of at most a thousand years and without "
            f"negative parts, found '{str(option.value)[:40]}'",
            span=option.span,
            code="bad-length",
        )
    return microseconds(length)


_READ: dict[str, Callable[[BindContext, TaskOption], str | int | None]] = {"timeout": _timeout}
"""Maps options to the functions that convert their values. The values of other options are stored unchanged."""


def _check_condition(condition: SqlFragment, sql_engine: SqlEngine) -> None:
    """Raise an error unless DuckDB can parse a condition. Names in the condition are not looked up.

    Raises:
        ParseError: The condition is not valid. The error has the position of the first error.
    """
    # Placeholders such as {date} are not SQL, so the check parses the condition with sample values.
    sample = filled(condition.text, PLACEHOLDERS)
    edits: tuple[Rewritten, ...] = (sample,)
    try:
        named_paths(sample.text)
        plain = rewrite(sample.text, [*_duckdb_edits(sample.text)])
        edits = (plain, sample)
        with sql_engine.session() as session:
            session.check_syntax("SELECT (", plain.text, ")")
    except SnapdbError as error:
        if error.span is not None:
            error.span = _original_span(error.span, edits, condition.span.start)
        raise


def _duckdb_edits(text: str) -> Iterator[tuple[Span, str]]:
    """Yield the parts that DuckDB's parser does not accept, with their replacements."""
    tokens = scan(text)
    patterns = [Span(tokens[first].span.start, tokens[last].span.stop) for first, last in find_patterns(tokens)]
    yield from ((span, "(SELECT 1)") for span in patterns)
    travels = [t for t in time_travels(text) if not any(p.start <= t.span.start < p.stop for p in patterns)]
    yield from ((travel.span, travel.name.text) for travel in travels)
    others = [(changed.span, "0") for changed in changed_graphs(text)] + [(span, '"at"') for span in bare_ats(text)]
    for span, words in others:
        if not any(outer.start <= span.start < outer.stop for outer in (*patterns, *(t.span for t in travels))):
            yield span, words


def _original_span(span: Span, edits: tuple[Rewritten, ...], start: int) -> Span:
    """Map a span of an edited text to a span of the statement. The last edit is the first in `edits`."""
    first, stop = span
    for edit in edits:
        first, stop = edit.place(first), edit.place(stop)
    return Span(start + first, start + max(first, stop))


FAMILY = PlanFamily(
    binders={
        CreateTask: _bind_create_task,
        AlterTask: _bind_alter_task,
        ExecuteTask: lambda statement, context: ExecuteTaskPlan(find_named(context.catalog.task, statement.name)),
    },
    operators={
        CreateTaskPlan: "snapdb.execute.tasks.operators:create_task",
        AlterTaskPlan: "snapdb.execute.tasks.operators:alter_task",
        ExecuteTaskPlan: "snapdb.execute.tasks.operators:execute_task",
    },
)

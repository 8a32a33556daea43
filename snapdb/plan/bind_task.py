"""CREATE TASK and ALTER TASK: when statements run, and what becomes of runs that fail, meet or come late."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from snapdb.errors import BindError, DatabaseError, QueryError
from snapdb.plan.bind_condition import check_condition
from snapdb.plan.lengths import microseconds, period, period_of_text
from snapdb.plan.names import check_own, find_task
from snapdb.plan.plan import NothingPlan, Plan
from snapdb.plan.scope import Context
from snapdb.plan.tasks import AlterTaskPlan, CreateTaskPlan
from snapdb.sql import ast
from snapdb.storage.commit import author, now
from snapdb.types import Schedule, Task

_SECOND = 1_000_000
_LONGEST = 1000 * 365 * 86_400 * _SECOND
"""A thousand years."""


def bind_create_task(statement: ast.CreateTask, context: Context) -> Plan:
    """The task, whose body was read already; names in it are looked up by each run."""
    name = statement.name
    found = context.catalog.tasks.get(name.text.lower())
    if (there := check_own(statement, "task", found)) is not None:
        return NothingPlan(there)
    if statement.when is not None:
        check_condition(statement.when, context.relational)
    created = now()
    task = Task(
        id=0,
        name=name.text,
        schedule=_schedule(context, statement.schedule, created),
        condition=None if statement.when is None else statement.when.text,
        body=_inside(statement.body.text),
        folder=_here(),
        timeout=None,
        retries=0,
        overlap="skip",
        catch_up="none",
        suspended=False,
        created=created,
        author=author(),
    )
    return CreateTaskPlan(replace(task, **_options(context, statement.options)), found)


def bind_alter_task(statement: ast.AlterTask, context: Context) -> Plan:
    """The task as it is to be; nothing to do where it is so already."""
    task = find_task(context, statement.name)
    match statement.action:
        case "SET":
            after = replace(task, **_options(context, statement.options))
            said = ", ".join(option.name for option in statement.options)
            return AlterTaskPlan(task, after, None, f"{said} set")
        case "SUSPEND" if task.suspended:
            return NothingPlan(f"task {task.name} is suspended already")
        case "SUSPEND":
            return AlterTaskPlan(task, replace(task, suspended=True), None, "suspended")
        case "RESUME" if not task.suspended:
            return NothingPlan(f"task {task.name} is not suspended")
        case _:
            return AlterTaskPlan(task, replace(task, suspended=False), now(), "resumed")


def _schedule(context: Context, schedule: ast.Schedule, created: int) -> Schedule:
    """When it runs; steps are counted from the second in which it is made."""
    anchor = created - created % _SECOND
    if schedule.every is None:
        assert schedule.cron is not None
        line, _, zone = schedule.cron.rpartition(" ")
        return Schedule(f"USING CRON {schedule.cron}", line, zone, None, anchor)
    try:
        every = period(context, context.asked(schedule.every))
    except QueryError as error:
        if error.code == "interrupted":
            raise
        said = schedule.every.text[:40]
        raise BindError(
            f"EVERY takes an interval such as INTERVAL '10 minutes', which {said} is not",
            span=schedule.every.span,
            code="bad-length",
        ) from error
    if every is None or not _SECOND <= microseconds(every) <= _LONGEST:
        raise BindError(
            "EVERY takes an interval from a second to a thousand years, and no part of it negative, such "
            "as INTERVAL '10 minutes'",
            span=schedule.every.span,
            code="bad-length",
        )
    return Schedule(f"EVERY {' '.join(schedule.every.text.split())}", None, "UTC", every, anchor)


def _here() -> str:
    """The folder that relative paths count from."""
    try:
        return os.getcwd()
    except OSError as error:
        raise DatabaseError(
            "the folder that this process works in is gone, and a task's paths count from it; change to another one",
            code="cannot-read",
        ) from error


def _inside(body: str) -> str:
    """The statements of a body, without dollars around them.

    >>> _inside("$do$ VACUUM; $do$"), _inside("VACUUM")
    ('VACUUM;', 'VACUUM')
    """
    if not body.startswith("$"):
        return body
    edge = body.index("$", 1) + 1
    return body[edge:-edge].strip()


def _options(context: Context, options: Sequence[ast.TaskOption]) -> dict[str, Any]:
    """What WITH or SET says, as fields of a task."""
    return {option.name: _READ.get(option.name, _as_it_is)(context, option) for option in options}


def _as_it_is(context: Context, option: ast.TaskOption) -> str | int:
    return option.value


def _timeout(context: Context, option: ast.TaskOption) -> int:
    """Microseconds, by the clock."""
    length = period_of_text(context, str(option.value), option.span)
    if length is None or microseconds(length) > _LONGEST:
        raise BindError(
            "timeout takes a length of time up to a thousand years, greater than zero and in no part "
            f"negative, found '{str(option.value)[:40]}'",
            span=option.span,
            code="bad-length",
        )
    return microseconds(length)


_READ: dict[str, Callable[[Context, ast.TaskOption], str | int]] = {"timeout": _timeout}
"""Options that are not kept as they are said."""

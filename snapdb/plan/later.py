"""Statements that are read and not done in this version, each with a way round: the one place that knows them."""

from __future__ import annotations

from typing import NoReturn

from snapdb.errors import BindError, Span
from snapdb.plan.scope import Context
from snapdb.sql import ast

__all__ = ["bind_later", "refuse_later"]

_TASKS = "run the statement with the command line from cron: snapdb DATABASE -c '…'"
_LISTED = {"TASKS": _TASKS, "TASK RUNS": _TASKS, "TASK": _TASKS}

Later = ast.AlterTask | ast.CreateTask | ast.ExecuteTask


def bind_later(statement: Later, context: Context) -> NoReturn:
    """Raise BindError at what is not in this version, whose code is 'later'."""
    match statement:
        case ast.CreateTask():
            _refuse("CREATE TASK", _TASKS, statement.name.span)
        case ast.AlterTask():
            _refuse("ALTER TASK", _TASKS, statement.name.span)
        case ast.ExecuteTask():
            _refuse("EXECUTE TASK", "run the statement itself", statement.name.span)


def refuse_later(verb: str, kind: str, span: Span) -> None:
    """Raise BindError where SHOW or DESCRIBE is asked for a kind of thing that is not in this version."""
    if kind in _LISTED:
        _refuse(f"{verb} {kind}", _LISTED[kind], span)


def _refuse(what: str, way: str, span: Span) -> NoReturn:
    raise BindError(f"{what} is not in this version; {way}", span=span, code="later")

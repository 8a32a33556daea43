"""Trees of task.lark as CREATE TASK, ALTER TASK and EXECUTE TASK."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from snapdb.errors import ParseError
from snapdb.sql.ast import AlterTask, CreateTask, ExecuteTask, Island, Schedule, Statement, TaskOption
from snapdb.sql.build import (
    Leaf,
    Place,
    Tree,
    first_tree,
    has,
    integer,
    island,
    leaves,
    name,
    once,
    part,
    span_of,
    string,
    trees,
)
from snapdb.sql.schedules import cron
from snapdb.sql.task_body import check_body
from snapdb.types import did_you_mean

__all__ = ["build_task"]

_Option = Literal["timeout", "retries", "overlap", "catch_up"]
_OPTIONS: dict[str, _Option] = {
    "timeout": "timeout", "retries": "retries", "overlap": "overlap", "catch_up": "catch_up",
}  # fmt: skip
_TAKEN: dict[str, tuple[str, ...]] = {"overlap": ("skip", "queue", "cancel"), "catch_up": ("none", "last", "all")}
"""What an option of one word may be."""


def build_task(tree: Tree, place: Place, parse: Callable[[str], tuple[Statement, ...]]) -> Statement:
    """CREATE TASK, ALTER TASK or EXECUTE TASK; a body is read too, so that its mistakes show at once."""
    (statement,) = trees(tree)
    match statement.data:
        case "create":
            return _create(statement, place, parse)
        case "alter":
            return _alter(statement, place)
        case _:
            return ExecuteTask(*place, name=name(leaves(statement)[0]))


def _create(tree: Tree, place: Place, parse: Callable[[str], tuple[Statement, ...]]) -> CreateTask:
    task, body = leaves(tree)
    clauses = once(trees(tree))
    check_body(body, parse)
    return CreateTask(
        *place,
        name=name(task),
        schedule=_schedule(clauses["schedule"], place.source),
        when=part(tree, "when"),
        options=_options(clauses.get("options")),
        body=island(body),
        or_replace=has(tree, "replace"),
        if_not_exists=has(tree, "guard"),
    )


def _alter(tree: Tree, place: Place) -> AlterTask:
    task, *action = leaves(tree)
    settings = first_tree(tree, "set")
    if settings is not None:
        return AlterTask(*place, name=name(task), action="SET", options=_options(settings))
    return AlterTask(*place, name(task), "SUSPEND" if action[0].type == "SUSPEND" else "RESUME", ())


def _schedule(tree: Tree, source: str) -> Schedule:
    """When the task runs: the text of a cron line, or the interval as it was written."""
    every = first_tree(tree, "interval")
    if every is not None:
        span = span_of(every)
        return Schedule(None, Island(source[span.start : span.stop], span), span_of(tree))
    (said,) = leaves(tree)
    return Schedule(cron(string(said), span_of(said)), None, span_of(tree))


def _options(tree: Tree | None) -> tuple[TaskOption, ...]:
    if tree is None:
        return ()
    options = [_option(option) for option in trees(tree)]
    for index, option in enumerate(options):
        if option.name in {before.name for before in options[:index]}:
            raise ParseError(f"{option.name} is given twice; keep one", span=option.span, code="duplicate-clause")
    return tuple(options)


def _option(tree: Tree) -> TaskOption:
    key, *words = leaves(tree)
    option = _OPTIONS.get(key.lower())
    if option is None:
        hint = did_you_mean(key, _OPTIONS) or f"; a task takes {', '.join(_OPTIONS)}"
        raise ParseError(f"no option {key[:40]} of a task{hint}", span=span_of(key), code="unknown-option")
    return TaskOption(option, _value(option, tree, words), span_of(tree))


def _value(option: _Option, tree: Tree, words: list[Leaf]) -> str | int:
    """A number of retries, else the text of a string."""
    number = first_tree(tree, "number")
    if option == "retries":
        if number is None:
            raise ParseError(f"retries takes a whole number, found {words[0][:40]}",
                             span=span_of(words[0]), code="bad-number")  # fmt: skip
        if not 0 <= (count := integer(number, "retries")) <= 100:
            raise ParseError(f"retries takes 0 to 100, found {count}", span=span_of(number), code="bad-number")
        return count
    if number is not None:
        example = "'30 minutes'" if option == "timeout" else f"'{_TAKEN[option][0]}'"
        raise ParseError(f"{option} takes a string such as {example}", span=span_of(number), code="bad-option")
    (said,) = words
    text = string(said)
    if option in _TAKEN and text.lower() not in _TAKEN[option]:
        known = ", ".join(f"'{word}'" for word in _TAKEN[option])
        raise ParseError(f"{option} is one of {known}, found {said[:40]}", span=span_of(said), code="bad-option")
    return text.lower() if option in _TAKEN else text

"""Trees of task.lark as CREATE TASK, ALTER TASK and EXECUTE TASK."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import lark

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
from snapdb.types import by_word, did_you_mean

_Option = Literal["timeout", "retries", "overlap", "catch_up"]
_OPTIONS: dict[str, _Option] = by_word(_Option)
_TAKEN: dict[str, tuple[str, ...]] = {"overlap": ("skip", "queue"), "catch_up": ("none", "last", "all")}
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
    said: Tree | Leaf = words[0] if words else trees(tree)[0]
    span = span_of(tree)
    match option:
        case "retries":
            return TaskOption(option, _count(said), span)
        case "timeout":
            return TaskOption(option, _length(said), span)
        case _:
            return TaskOption(option, _word(option, said), span)


def _count(said: Tree | Leaf) -> int:
    """A number of retries."""
    if isinstance(said, Leaf) or said.data != "number":
        raise ParseError(f"retries takes a whole number, found {_shown(said)}", span=span_of(said), code="bad-number")
    if not 0 <= (count := integer(said, "retries")) <= 100:
        raise ParseError(f"retries takes 0 to 100, found {count}", span=span_of(said), code="bad-number")
    return count


def _length(said: Tree | Leaf) -> str:
    """A length of time as text, said by a string or by INTERVAL."""
    match said:
        case Leaf(type="STRING"):
            return string(said)
        case lark.Tree(data="length"):
            number, *unit = leaves(said)
            return " ".join((string(number) if number.type == "STRING" else number, *unit))
        case _:
            raise ParseError(
                f"timeout takes a string such as '30 minutes', found {_shown(said)}",
                span=span_of(said),
                code="bad-option",
            )


def _word(option: _Option, said: Tree | Leaf) -> str:
    """One of the words that an option may be, with quotes around it or without."""
    if isinstance(said, Leaf):
        word = (string(said) if said.type == "STRING" else name(said).text).lower()
        if word in _TAKEN[option]:
            return word
    raise ParseError(
        f"{option} is one of {', '.join(_TAKEN[option])}, found {_shown(said)}", span=span_of(said), code="bad-option"
    )


def _shown(said: Tree | Leaf) -> str:
    """A value as it was written, about."""
    return " ".join([said] if isinstance(said, Leaf) else leaves(said))[:40]

"""The parameters of statements: those of one SQL fragment, and positional ones by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from snapdb.errors import BindError, Span
from snapdb.plan.queries import Parameters
from snapdb.sql.lexer import Token
from snapdb.sql.pattern_tokens import question_quantifiers
from snapdb.sql.syntax import SqlFragment
from snapdb.types.text import did_you_mean


def numbered_parameters(
    tokens: Sequence[Token], at: int, parameters: Sequence[Any]
) -> tuple[dict[str, Any], dict[int, str]]:
    """Return positional parameters as named ones, `p1`, `p2`, … in the order of the text.

    The parts of a query with patterns are evaluated in another order than they are written.

    Args:
        tokens: The tokens of a fragment.
        at: The position of the fragment in the statement.
        parameters: The positional parameters.

    Returns:
        The values by name, and the names by position in the statement.
    """
    count, names = 0, dict[int, str]()
    quantifiers = question_quantifiers(tokens)
    for index, token in enumerate(tokens):
        if token.kind != "parameter" or index in quantifiers:
            continue
        number = token.text[1:]
        count += not number
        if not number or number.isdecimal():
            names[token.span.start + at] = f"p{number or count}"
    return {f"p{i}": value for i, value in enumerate(parameters, start=1)}, names


def own_parameters(
    fragment: SqlFragment, named: Sequence[Token], outside: Sequence[Token], parameters: Parameters
) -> Parameters:
    """Return the parameters of an SQL fragment. Only one fragment can have positional ones.

    Args:
        fragment: The fragment.
        named: Its parameters.
        outside: Those outside of values of AT.
        parameters: The parameters of the statement.

    Raises:
        BindError: A parameter has no value, or is positional in the value of AT.
    """
    if early := [t for t in named if t not in outside and t.text.startswith("?")]:
        raise BindError(
            "the value of AT must not be ?, because AT is evaluated before the query; write $name or a value",
            span=Span(*(fragment.span.start + place for place in early[0].span)),
            code="parameter-in-at",
        )
    marks = [t.text for t in outside]
    if not marks:
        return None
    if isinstance(parameters, Mapping):
        wanted = {mark[1:] for mark in marks}
        if missing := sorted(wanted - set(parameters)):
            raise _no_value(missing[0], outside, fragment, [*parameters])
        return {name: parameters[name] for name in wanted}
    if parameters is None:
        raise _no_value(marks[0][1:], outside, fragment, [])
    return parameters


def _no_value(name: str, tokens: Sequence[Token], fragment: SqlFragment, given: list[str]) -> BindError:
    """Return the error for a parameter without a value. `name` is '' for ?."""
    mark = f"${name}" if name else "?"
    (start, stop) = next(t.span for t in tokens if t.text == mark or (not name and t.text.startswith("?")))
    there = did_you_mean(name, given) or (f"; given: {', '.join(given)}" if given else "; no parameter was passed")
    place = Span(fragment.span.start + start, fragment.span.start + stop)
    return BindError(f"parameter {mark} has no value{there}", span=place, code="parameter-missing")

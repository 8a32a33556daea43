"""Values as JSON text in the catalog: dataclasses, and the columns of a table."""

from __future__ import annotations

import dataclasses
import json
import re
import types
import typing
from collections.abc import Callable, Collection, Sequence
from functools import cache
from typing import Any, TypeVar

from snapdb.types import Column

_T = TypeVar("_T")

MISREAD = (ValueError, KeyError, TypeError, AttributeError, IndexError, AssertionError, RecursionError)
"""What decoding a damaged value raises."""

_LATER = frozenset({"classes"})
"""Later fields, stored only if they have a value, so that older definitions keep their text and digest."""
_GREATEST = 1 << 57
"""The bound of moments: microseconds of more than four thousand years."""
_PIECE = re.compile(r"""\w+|"(?:[^"]|"")*"|'(?:[^']|'')*'|[(),\[\] ]""")


def encode(value: Any, without: Collection[str] = ()) -> str:
    """A dataclass as JSON, without some fields at any depth.

    >>> from snapdb.types import Window
    >>> encode(Window(1, None))
    '{"start": 1, "stop": null, "closed": false}'
    """

    def kept(items: list[tuple[str, Any]]) -> dict[str, Any]:
        unset = {name for name, item in items if name in _LATER and item is None}
        return {name: item for name, item in items if name not in without and name not in unset}

    return json.dumps(dataclasses.asdict(value, dict_factory=kept))


def decode(kind: type[_T], text: str) -> _T:
    """The dataclass that `encode` wrote.

    >>> from snapdb.types import Window
    >>> decode(Window, '{"start": 1, "stop": null}')
    Window(start=1, stop=None, closed=False)
    """
    value: _T = _builder(typing.cast(Any, kind))(json.loads(text))
    return value


def is_sound(kind: Any, value: Any) -> bool:
    """Whether a value and everything in it has the annotated types; integers must be in the range of moments.

    >>> from snapdb.types import Period
    >>> is_sound(Period, Period(0, 1, 0)), is_sound(Period, Period(0, "1", 0))
    (True, False)
    """
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin is types.UnionType:
        return any(is_sound(one, value) for one in arguments)
    if origin is typing.Literal:
        return value in arguments
    if origin is tuple:
        return isinstance(value, tuple) and all(is_sound(arguments[0], one) for one in value)
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        return False
    if dataclasses.is_dataclass(value):
        return all(is_sound(hint, getattr(value, name)) for name, hint in _hints(typing.cast(Any, type(value))).items())
    return not isinstance(value, int) or abs(value) < _GREATEST


@cache
def _hints(kind: type) -> dict[str, Any]:
    return typing.get_type_hints(kind)


@cache
def _builder(kind: Any) -> Callable[[Any], Any]:
    """The function that makes a value of a type from parsed JSON; cached, as a catalog has many values of one type."""
    origin = typing.get_origin(kind)
    if origin is types.UnionType:
        return _builder(next(a for a in typing.get_args(kind) if a is not type(None)))
    if origin is tuple:
        item = _builder(typing.get_args(kind)[0])
        return lambda value: None if value is None else tuple(map(item, value))
    if dataclasses.is_dataclass(kind):
        assert isinstance(kind, type)
        fields = {name: _builder(hint) for name, hint in typing.get_type_hints(kind).items()}

        def build(value: Any) -> Any:
            return None if value is None else kind(**{name: fields[name](v) for name, v in value.items()})

        return build
    return lambda value: value


# Columns of tables


def encode_columns(columns: Sequence[Column]) -> str:
    """Columns as JSON.

    >>> encode_columns([Column("a", "INTEGER", True, 1)])
    '[["a", "INTEGER", true, 1, null]]'
    """
    return json.dumps([[c.name, c.type, c.nullable, c.field, c.default] for c in columns])


def decode_columns(text: str) -> tuple[Column, ...]:
    """The columns that `encode_columns` wrote.

    Raises:
        ValueError: it did not, or a type is not valid: types become part of SQL.
    """
    columns = tuple(Column(*entry) for entry in json.loads(text))
    for column in columns:
        known = isinstance(column.name, str) and isinstance(column.field, int) and isinstance(column.type, str)
        if not known or not _is_type(column.type):
            raise ValueError(f"{column!r} is no column")
    return columns


def _is_type(text: str) -> bool:
    """Whether a text can only be a type: words, names and matching brackets.

    >>> _is_type('STRUCT("a b" INTEGER)[3]'), _is_type("INTEGER) FROM x --"), _is_type("INTEGER) + (1")
    (True, False, False)
    """
    depth = at = 0
    while at < len(text):
        piece = _PIECE.match(text, at)
        if piece is None:
            return False
        depth += {"(": 1, "[": 1, ")": -1, "]": -1}.get(piece[0], 0)
        at = piece.end()
        if depth < 0:
            return False
    return depth == 0 and bool(text)

"""The values of a statement's parameters as plain values for JSON, and back."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, NamedTuple
from uuid import UUID


class _Kind(NamedTuple):
    """Values that JSON has no form for."""

    type: type
    text: Callable[[Any], str]
    value: Callable[[str], Any]


_MICROSECOND = timedelta(microseconds=1)
_KINDS = {
    "TIMESTAMP": _Kind(datetime, datetime.isoformat, datetime.fromisoformat),
    "DATE": _Kind(date, date.isoformat, date.fromisoformat),
    "TIME": _Kind(time, time.isoformat, time.fromisoformat),
    "INTERVAL": _Kind(timedelta, lambda value: str(value // _MICROSECOND), lambda text: int(text) * _MICROSECOND),
    "DECIMAL": _Kind(Decimal, str, Decimal),
    "DOUBLE": _Kind(float, repr, float),
    "UUID": _Kind(UUID, str, UUID),
    "BLOB": _Kind(bytes, bytes.hex, bytes.fromhex),
}
"""By a name of the type in SQL. The first that fits counts, for a datetime is a date too."""
_STRUCT = "STRUCT"


def plain(value: Any) -> Any:
    """What `valued` makes the value of again: itself where JSON has it, else its type and its text.

    >>> plain([5, "a", date(2026, 7, 1)])
    [5, 'a', {'DATE': '2026-07-01'}]

    Raises:
        TypeError: it is of a type that has no such form.
    """
    if value is None or isinstance(value, bool | int | str) or (isinstance(value, float) and math.isfinite(value)):
        return value
    if isinstance(value, Mapping):
        return {_STRUCT: {str(name): plain(one) for name, one in value.items()}}
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    for name, kind in _KINDS.items():
        if isinstance(value, kind.type):
            return {name: kind.text(value)}
    raise TypeError(f"a {type(value).__name__} has no plain form")


def valued(said: Any) -> Any:
    """The value that `plain` told of.

    >>> valued({"STRUCT": {"day": {"DATE": "2026-07-01"}, "least": 5}})
    {'day': datetime.date(2026, 7, 1), 'least': 5}

    Raises:
        ValueError, ArithmeticError: its text is no value of its type.
    """
    if isinstance(said, list):
        return [valued(one) for one in said]
    if not isinstance(said, Mapping):
        return said
    ((name, inner),) = said.items()
    if name == _STRUCT:
        return {key: valued(one) for key, one in dict(inner).items()}
    if name not in _KINDS:
        raise ValueError(f"there is no type {name}")
    return _KINDS[name].value(inner)

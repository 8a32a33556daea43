"""Values as text. Long values are cut, with the whole behind a click."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import date, datetime, timedelta
from typing import Any, NamedTuple

_LONGEST = 2000
"""The number of characters of a value that are shown at first."""
_MOST = 50
"""The number of entries of a list that are shown at first."""
_UNITS = ("bytes", "kB", "MB", "GB", "TB", "PB")


class Cell(NamedTuple):
    """A value of a table."""

    text: str
    """The text that is shown at first."""
    whole: str | None = None
    """The whole text, if it was cut."""
    kind: str = ""
    """'number', 'null', 'state' or nothing: how the cell is drawn."""


def cell(value: Any) -> Cell:
    """Return a value as text.

    >>> cell(None), cell(3.0), cell([1, 2]).text
    (Cell(text='NULL', whole=None, kind='null'), Cell(text='3.0', whole=None, kind='number'), '[1, 2]')
    """
    if value is None:
        return Cell("NULL", kind="null")
    if isinstance(value, bool):
        return Cell("true" if value else "false")
    if isinstance(value, int):
        return Cell(f"{value}", kind="number")
    if isinstance(value, float):
        return Cell(f"{value:.6g}" if math.isfinite(value) and value != int(value) else str(value), kind="number")
    if isinstance(value, list) and len(value) > _MOST:
        return Cell(f"{text_of(value[:_MOST])[:-1]}, … {len(value) - _MOST} more]", text_of(value))
    text = text_of(value)
    return Cell(text) if len(text) <= _LONGEST else Cell(f"{text[:_LONGEST]}… {len(text) - _LONGEST} more", text)


def text_of(value: Any) -> str:
    """Return a value as text of any length."""
    if isinstance(value, datetime):
        return value.isoformat(sep=" ", timespec="milliseconds" if value.microsecond else "seconds").replace(
            "+00:00", " UTC"
        )
    if isinstance(value, date | timedelta):
        return str(value)
    if isinstance(value, list):
        return "[" + ", ".join(text_of(entry) for entry in value) + "]"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{name}: {text_of(entry)}" for name, entry in value.items()) + "}"
    if isinstance(value, bytes):
        return f"0x{value.hex()}"
    return "NULL" if value is None else str(value)


def bytes_text(number: int | None) -> str:
    """Return a number of bytes as text.

    >>> bytes_text(0), bytes_text(1536), bytes_text(3_200_000_000)
    ('0 bytes', '1.5 kB', '3.2 GB')
    """
    if number is None:
        return ""
    size, unit = float(number), 0
    while size >= 1000 and unit < len(_UNITS) - 1:
        size, unit = size / 1000, unit + 1
    return f"{int(size)} {_UNITS[0]}" if unit == 0 else f"{size:.1f} {_UNITS[unit]}"


def count_text(number: int | None) -> str:
    """Return a number with commas between thousands.

    >>> count_text(1234567)
    '1,234,567'
    """
    return "" if number is None else f"{number:,}"

"""Values as text. Long values are cut, with the whole behind a click."""

from __future__ import annotations

from datetime import datetime
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from snapdb.execute.rendering import spell
from snapdb.execute.rendering.values import is_right

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


def cells_of(column: pa.Array) -> list[Cell]:
    """Return the values of a column of a result as text, as the command line writes them.

    >>> cells_of(pa.array([1.5, None]))
    [Cell(text='1.5', whole=None, kind='number'), Cell(text='NULL', whole=None, kind='null')]
    >>> [one.text for one in cells_of(pa.array([[1, None], []]))]
    ['[1, null]', '[]']
    """
    kind = "number" if is_right(column.type) else ""
    texts = spell(column)
    starts: list[str | None] = [None] * len(column)
    if pa.types.is_list(column.type) or pa.types.is_fixed_size_list(column.type):
        lengths = pc.list_value_length(column).to_pylist()
        starts = [
            None if start is None or length <= _MOST else f"{start[:-1]}, … {length - _MOST} more]"
            for length, start in zip(lengths, spell(pc.list_slice(column, 0, _MOST)), strict=True)
        ]
    return [
        Cell("NULL", kind="null") if text is None else _cut(text, start, kind)
        for text, start in zip(texts, starts, strict=True)
    ]


def _cut(text: str, start: str | None, kind: str) -> Cell:
    """Return a text that is cut if it is long, at the given start or after some characters."""
    if start is None and len(text) <= _LONGEST:
        return Cell(text, kind=kind)
    start = text if start is None else start
    if len(start) > _LONGEST:
        start = f"{start[:_LONGEST]}… {len(text) - _LONGEST} more"
    return Cell(start, text, kind)


def cell(value: Any) -> Cell:
    """Return a value of a system table as text.

    >>> cell(None), cell(3), cell(["a", "b"]).text
    (Cell(text='', whole=None, kind=''), Cell(text='3', whole=None, kind='number'), 'a, b')
    """
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return _cut(text_of(value), None, "number" if is_number else "")


def text_of(value: Any) -> str:
    """Return a value of a system table as text of any length. Times have milliseconds."""
    if isinstance(value, datetime):
        text = value.isoformat(sep=" ", timespec="milliseconds" if value.microsecond else "seconds")
        return text.replace("+00:00", " UTC")
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return ", ".join(text_of(entry) for entry in value)
    return "" if value is None else str(value)


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

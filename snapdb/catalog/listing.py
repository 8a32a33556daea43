"""What lists show: Python values as one Arrow batch, and moments, windows and ages as text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa

from snapdb.types import Snapshot, TimeUnit

MOMENT = pa.timestamp("us", tz="UTC")

Fields = Sequence[tuple[str, pa.DataType]]
"""Names and types of columns."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LITERAL = re.compile(r"\s*(INTERVAL\s*('[^']*'|-?\s*[\d.]+|\([^()]*\))\s*\w*|-?\s*\w+)\s*", re.IGNORECASE)
"""A length that is not computed from others."""


_TYPES = {
    "VARCHAR": pa.string(),
    "BIGINT": pa.int64(),
    "DOUBLE": pa.float64(),
    "BOOLEAN": pa.bool_(),
    "TIMESTAMPTZ": MOMENT,
    "VARCHAR[]": pa.list_(pa.string()),
    "BIGINT[]": pa.list_(pa.int64()),
}


def fields(columns: str) -> Fields:
    """Names and types of columns, written as in CREATE TABLE.

    >>> fields("name VARCHAR, rows BIGINT")
    [('name', DataType(string)), ('rows', DataType(int64))]
    """
    return [(name, _TYPES[type_]) for name, type_ in (column.split() for column in columns.split(","))]


def listing(fields: Fields, rows: Iterable[Sequence[Any]]) -> pa.RecordBatch:
    """A batch with these columns and rows.

    >>> listing([("name", pa.string())], [["a"], ["b"]]).to_pydict()
    {'name': ['a', 'b']}
    """
    columns = list(zip(*rows, strict=True)) or [()] * len(fields)
    arrays = [pa.array(list(values), type_) for values, (_, type_) in zip(columns, fields, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(list(fields)))


def moment(microseconds: int) -> datetime:
    """A moment of a clock, out of microseconds since 1970 UTC."""
    return _EPOCH + timedelta(microseconds=microseconds)


def time_text(time: int | None, unit: TimeUnit | None) -> str | None:
    """An event time for a person: ISO 8601 in UTC, or the user's integer; None for None.

    >>> time_text(1_500_000, "timestamp"), time_text(-7, "integer")
    ('1970-01-01 00:00:01.500000', '-7')
    """
    if time is None or unit == "integer":
        return None if time is None else str(time)
    try:
        return moment(time).replace(tzinfo=None).isoformat(sep=" ")
    except OverflowError:  # a year that Python's calendar has not
        return f"{time} us since 1970"


def bounds_text(snapshot: Snapshot) -> tuple[str | None, str | None]:
    """The first and the last moment of a snapshot's window as they were said."""
    window = snapshot.window
    stop = window.stop - 1 if window.stop is not None and window.closed else window.stop
    return time_text(window.start, snapshot.unit), time_text(stop, snapshot.unit)


def window_text(snapshot: Snapshot) -> str:
    """A snapshot's window as its statement said it; of one that moves, where it is now too."""
    prefix = f"WINDOW {_length(snapshot.pin.window)}: " if snapshot.pin.window is not None else ""
    return prefix + _window_now(snapshot)


def moves_text(snapshot: Snapshot) -> str | None:
    """What REFRESH resolves again; None when nothing moves."""
    pin = snapshot.pin
    parts = ["head"] if pin.head else []
    parts += [f"tag {pin.tag}"] if pin.tag is not None else []
    parts += [f"window {_length(pin.window)}"] if pin.window is not None else []
    return " + ".join(parts) or None


def age_text(microseconds: int) -> str:
    """A span of time for a person.

    >>> age_text(0), age_text(86_400_000_000 * 3 + 7_500_000_000)
    ('00:00', '3 days 02:05')
    """
    minutes = max(microseconds, 0) // 60_000_000
    days, minutes = divmod(minutes, 1440)
    clock = f"{minutes // 60:02}:{minutes % 60:02}"
    return f"{days} day{'' if days == 1 else 's'} {clock}" if days else clock


def _window_now(snapshot: Snapshot) -> str:
    start, stop = bounds_text(snapshot)
    if stop is None:
        return "all time"
    if start is None:
        return f"AS OF {stop}"
    return f"BETWEEN {start} AND {stop}" if snapshot.window.closed else f"FROM {start} TO {stop}"


def _length(window: str | None) -> str:
    """The length of a window without the signs that SQL needs.

    >>> _length("INTERVAL '7 days'"), _length("interval (36) HOUR"), _length("400"), _length("2 * (3 + 4)")
    ('7 days', '36 hour', '400', '2 * (3 + 4)')
    """
    if window is not None and not _LITERAL.fullmatch(window):
        return " ".join(window.split())  # computed: its parentheses mean something
    return " ".join(re.sub(r"(?i)\binterval\b|['()]", " ", window or "").split()).lower()

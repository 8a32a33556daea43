"""A snapshot as the CREATE SNAPSHOT that pins it again."""

from __future__ import annotations

from snapdb.catalog.windows import moment
from snapdb.plan.moments import LAST
from snapdb.plan.snapshots import CreateSnapshotPlan
from snapdb.relational import quote_odd
from snapdb.types import TimeUnit, Window


def create_text(plan: CreateSnapshotPlan) -> str:
    """The statement; nothing in it is relative to now."""
    parts = [f"CREATE SNAPSHOT {quote_odd(plan.name)} OF {quote_odd(plan.graph.name)} AT (VERSION => {plan.version})"]
    if bounds := _bounds(plan.window, plan.unit):
        parts.append(f"FOR EVENT_TIME {bounds}")
    parts.append(f"ELEMENTS ({', '.join(quote_odd(element.name) for element in plan.graph.elements)})")
    if plan.filters:
        parts.append(f"WHERE {' AND '.join(f'({one.condition})' for one in plan.filters)}")
    return " ".join(parts)


def _bounds(window: Window, unit: TimeUnit | None) -> str:
    """What follows FOR EVENT_TIME; nothing for all time."""
    match window.start, window.stop:
        case None, None:
            return ""
        case None, int(stop):
            return f"AS OF {_time(stop - 1, unit)}"
        case int(start), int(stop):
            return f"FROM {_time(start, unit)} TO {_time(stop, unit)}"
        case start, _:
            assert start is not None, "the other cases"
            return f"BETWEEN {_time(start, unit)} AND {_time(LAST, unit)}"


def _time(time: int, unit: TimeUnit | None) -> str:
    """An event time as the language takes it.

    >>> _time(1_500_000, "timestamp"), _time(-7, "integer")
    ("TIMESTAMP '1970-01-01 00:00:01.500000'", '-7')
    """
    if unit == "integer":
        return str(time)
    try:
        return f"TIMESTAMP '{moment(time).replace(tzinfo=None).isoformat(sep=' ')}'"
    except OverflowError:  # a year that Python's calendar has not
        return f"make_timestamp({time})"

"""The cron line of a task, checked field by field."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from zoneinfo import available_timezones

from cronsim import CronSim, CronSimError

from snapdb.errors import ParseError, Span
from snapdb.types import did_you_mean


@dataclass(frozen=True, slots=True)
class _Field:
    """One field of a line, by what it may hold."""

    name: str
    least: int
    most: int
    words: tuple[str, ...] = ()
    """Names of its first values."""
    bounds: str = ""
    """How its values are told; '': as numbers."""
    more: str = ""
    """A pattern of what else it takes."""
    example: str = "1-5"


_DAYS = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")
_MONTHS = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
_FIELDS = (
    _Field("minute", 0, 59),
    _Field("hour", 0, 23),
    _Field("day of the month", 1, 31, more="LW?", example="1-5, L for the last one"),
    _Field("month", 1, 12, _MONTHS, "1 to 12 or JAN to DEC"),
    _Field(
        "day of the week",
        0,
        7,
        _DAYS,
        "0 to 7 or SUN to SAT",
        rf"[0-7]L|(?:[0-7]|{'|'.join(_DAYS)})#[1-5]",
        "MON-FRI, FRI#2 for the second of a month, 5L for the last one",
    ),
)
"""In the order of the line; Sunday is 0 or 7."""

_ITEM = re.compile(r"(?:\*|(\d{1,2}|[A-Z]{3})(?:-(\d{1,2}|[A-Z]{3}))?)(?:/(\d{1,2}))?", re.ASCII)

_NICKNAMES = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_NO_ZONES = {"Factory", "localtime"}
"""Names that stand for something else on every machine."""


def cron(text: str, span: Span) -> str:
    """The five fields and the zone of 'USING CRON …', in capitals and with single spaces; ParseError where it is none.

    >>> cron("using cron 0 3 * * mon-fri  Europe/Berlin", Span(0, 0))
    '0 3 * * MON-FRI Europe/Berlin'
    >>> cron("USING CRON 0 3 L * *", Span(0, 0))
    '0 3 L * * UTC'
    """
    words = text.split()
    nickname = next((word for word in words if word.startswith("@")), None)
    if nickname is not None:
        line = _NICKNAMES.get(nickname.lower(), "0 3 * * * UTC")
        raise _bad(f"SCHEDULE takes no {nickname[:40]}; write 'USING CRON {line}'", span)
    if [word.upper() for word in words[:2]] != ["USING", "CRON"]:
        way = "'USING CRON 0 3 * * * UTC' or EVERY INTERVAL '1 day'"
        raise _bad(f"SCHEDULE takes {way}, found '{text[:40]}'", span)
    said = words[2:]
    fields, zones = [word.upper() for word in said[: len(_FIELDS)]], said[len(_FIELDS) :] or ["UTC"]
    if len(fields) < len(_FIELDS) or fields[-1] == "UTC" or len(zones) > 1 or not zones[0][0].isalpha():
        names = ", ".join(field.name for field in _FIELDS)
        raise _bad(
            f"USING CRON takes {names} and perhaps a time zone, such as 0 3 * * * Europe/Berlin; found "
            f"'{' '.join(said)[:60]}'",
            span,
        )
    for word, field in zip(fields, _FIELDS, strict=True):
        if not all(_fits(item, field) for item in word.split(",")):
            bounds = field.bounds or f"{field.least} to {field.most}"
            raise _bad(
                f"the {field.name} of USING CRON is {bounds}, as *, 5, {field.example}, */10 or several with "
                f"commas; found {word[:40]}",
                span,
            )
    _check_zone(zones[0], span)
    _check_days(" ".join(fields), span)
    return " ".join((*fields, *zones))


def _bad(message: str, span: Span) -> ParseError:
    return ParseError(message, span=span, code="bad-schedule")


def _fits(item: str, field: _Field) -> bool:
    """Whether an item of a field names values within its bounds."""
    if field.more and re.fullmatch(field.more, item):
        return True
    found = _ITEM.fullmatch(item)
    if found is None:
        return False
    first, last, step = found.groups()
    low = field.least if first is None else _value(first, field)
    high = field.most if first is None else low if last is None else _value(last, field)
    if step is not None and (int(step) == 0 or (low == high and last is not None)):  # 5-5/10 is no 5/10
        return False
    return field.least <= low <= high <= field.most


def _value(said: str, field: _Field) -> int:
    """A number, or that of a name; below all bounds where it is neither."""
    if said.isdigit():
        return int(said)
    return field.words.index(said) + field.least if said in field.words else -1


def _check_zone(zone: str, span: Span) -> None:
    if zone not in _zones():
        hint = did_you_mean(zone, _zones()) or "; zones have the names of IANA, such as UTC or Europe/Berlin"
        raise _bad(f'USING CRON knows no time zone "{zone[:60]}"{hint}', span)


@cache
def _zones() -> frozenset[str]:
    return frozenset(available_timezones() - _NO_ZONES)


def _check_days(line: str, span: Span) -> None:
    """Raise where a line names days that no year has."""
    try:
        next(CronSim(line, datetime(2000, 1, 1)))
    except (CronSimError, StopIteration):
        raise _bad(
            f"USING CRON {line} never fires, for its months have no such day; name a day that they have", span
        ) from None

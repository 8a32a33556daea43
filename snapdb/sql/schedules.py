"""The cron line of a task, checked field by field."""

from __future__ import annotations

import re

from snapdb.errors import ParseError, Span

__all__ = ["cron"]

_FIELDS = (("minute", 0, 59), ("hour", 0, 23), ("day of the month", 1, 31), ("month", 1, 12), ("day of the week", 0, 7))
"""In the order of the line; Sunday is 0 or 7."""

_ITEM = re.compile(r"(?:\*|(\d{1,2})(?:-(\d{1,2}))?)(?:/(\d{1,2}))?", re.ASCII)
_ZONE = re.compile(r"[A-Za-z][A-Za-z0-9_+\-/]*", re.ASCII)


def cron(text: str, span: Span) -> str:
    """The five fields and the zone of 'USING CRON …', spaces made single; ParseError where the line is none.

    >>> cron("using cron 0 3 * * 1-5  Europe/Berlin", Span(0, 0))
    '0 3 * * 1-5 Europe/Berlin'
    """
    words = text.split()
    if [word.upper() for word in words[:2]] != ["USING", "CRON"]:
        raise ParseError("SCHEDULE takes 'USING CRON 0 3 * * * UTC' or EVERY INTERVAL '1 day', found "
                         f"'{text[:40]}'", span=span, code="bad-schedule")  # fmt: skip
    fields, zone = words[2 : 2 + len(_FIELDS)], words[2 + len(_FIELDS) :]
    if len(fields) < len(_FIELDS) or len(zone) != 1 or not _ZONE.fullmatch(zone[0]):
        names = ", ".join(name for name, _, _ in _FIELDS)
        raise ParseError(f"USING CRON takes {names} and a time zone, such as 0 3 * * * UTC; found "
                         f"'{' '.join(words[2:])[:60]}'", span=span, code="bad-schedule")  # fmt: skip
    for said, (name, least, most) in zip(fields, _FIELDS, strict=True):
        if not all(_fits(item, least, most) for item in said.split(",")):
            raise ParseError(f"the {name} of USING CRON is {least} to {most}, as *, 5, 1-5, */10 or several with "
                             f"commas; found {said[:40]}", span=span, code="bad-schedule")  # fmt: skip
    return " ".join((*fields, *zone))


def _fits(item: str, least: int, most: int) -> bool:
    """Whether an item of a field names a moment within its bounds."""
    found = _ITEM.fullmatch(item)
    if found is None:
        return False
    first, last, step = (None if part is None else int(part) for part in found.groups())
    low, high = least if first is None else first, most if first is None else first if last is None else last
    return least <= low <= high <= most and (step is None or step > 0)

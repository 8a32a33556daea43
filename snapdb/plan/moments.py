"""Expressions that name a version or a moment, evaluated once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from snapdb.catalog import version_at, version_of_tag
from snapdb.errors import BindError, SnapdbError
from snapdb.sql.ast import Island, VersionBound
from snapdb.types import TimeUnit

if TYPE_CHECKING:
    from snapdb.plan.scope import Context

__all__ = ["INTEGERS", "LAST", "duration", "resolve_version", "time_value"]

LAST = 2**63 - 1
INTEGERS = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT")


def resolve_version(context: Context, at: VersionBound) -> int:
    """The version of AT (VERSION => n | TIMESTAMP => t | TAG => 'name').

    Raises:
        BindError: there is no such version or tag.
    """
    try:
        match at.kind:
            case "TIMESTAMP":
                return version_at(context.ledger, _moment(context, at.value))
            case "TAG":
                return version_of_tag(context.ledger, _text(context, at.value))
    except SnapdbError as error:
        error.span = error.span or at.value.span
        raise
    head = context.catalog.version
    found = time_value(context, at.value, "integer", "a version is a whole number")
    if not 1 <= found <= head:
        known = f"versions go from 1 to {head}" if head else "nothing was committed yet"
        raise BindError(f"there is no version {found}; {known}", span=at.value.span, code="unknown-version")
    return found


def time_value(context: Context, island: Island, unit: TimeUnit | None, why: str | None = None) -> int:
    """A bound of a window as an integer in the graph's unit."""
    asked = context.asked(island)
    with context.session(asked) as session:
        type_ = session.describe(asked.text, asked.parameters, around=("SELECT (", ")"))[0].type
    is_integer = type_ in INTEGERS
    if unit == "integer" and not is_integer:
        why = why or "this graph's event times are integers"
        raise BindError(f"{why}: write a bare number, not {type_}", span=island.span)
    if unit == "timestamp" and is_integer:
        wanted = "TIMESTAMP '2026-01-31 12:00' or DATE '2026-01-31'"
        raise BindError(f"this graph's event times are timestamps: write {wanted}", span=island.span)
    return _whole(context, island) if is_integer else _moment(context, island)


def duration(context: Context, island: Island) -> int:
    """An INTERVAL as microseconds; months count 30 days."""
    return _number(context, island, "SELECT epoch_us(CAST((", ") AS INTERVAL))")


def _whole(context: Context, island: Island) -> int:
    """An integer expression. It may read tables; it is read once, here."""
    return _number(context, island, "SELECT CAST((", ") AS HUGEINT)")


def _moment(context: Context, island: Island) -> int:
    """An expression as microseconds since 1970; what has no zone is UTC."""
    return _number(context, island, "SELECT epoch_us(CAST((", ") AS TIMESTAMPTZ))")


def _text(context: Context, island: Island) -> str:
    asked = context.asked(island)
    with context.session(asked) as session:
        value = session.wrap("SELECT CAST((", asked.text, ") AS VARCHAR)", asked.parameters)[0][0]
    if value is None:
        raise BindError("a name is needed here, found NULL", span=island.span)
    return str(value)


def _number(context: Context, island: Island, before: str, after: str) -> int:
    asked = context.asked(island)
    with context.session(asked) as session:
        value = session.wrap(before, asked.text, after, asked.parameters)[0][0]
    if value is None:
        raise BindError("a finite value is needed here, found NULL or infinity", span=island.span)
    if not -(2**63) <= value <= LAST:
        raise BindError("this is out of range; event times and versions are 64-bit integers", span=island.span)
    return int(value)

"""What statements are made of: names, islands and bounds, each with its place in the text."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from snapdb.errors import Span


@dataclass(frozen=True, slots=True)
class Name:
    """An identifier as it was written, without its quotes."""

    text: str
    span: Span = field(compare=False)

    def __str__(self) -> str:
        return self.text


ColumnList = tuple[Name, ...]


@dataclass(frozen=True, slots=True)
class Island:
    """A SELECT or an expression inside our statement that DuckDB will read as it stands."""

    text: str
    """Exactly `source[span.start:span.stop]`, without the parentheses around it, if any."""
    span: Span = field(compare=False)


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement of a script."""

    source: str = field(compare=False)
    """The whole text that was parsed; spans count in it."""
    span: Span = field(compare=False)
    """This statement within `source`, without the semicolon."""

    @property
    def text(self) -> str:
        return self.source[self.span.start : self.span.stop]


@dataclass(frozen=True, slots=True)
class Query(Statement):
    """SELECT, WITH, VALUES, FROM, PIVOT, DESCRIBE <query>, SUMMARIZE <table>: DuckDB's, as it stands."""

    query: Island


@dataclass(frozen=True, slots=True)
class Explain(Statement):
    """EXPLAIN [ANALYZE] [(FORMAT text | json)] of any other statement."""

    statement: Statement
    analyze: bool
    json: bool


@dataclass(frozen=True, slots=True)
class VersionBound:
    """AT (VERSION => n | TIMESTAMP => '…' | TAG => 'name'), or one end of a DIFF."""

    kind: Literal["VERSION", "TIMESTAMP", "TAG"]
    value: Island
    """An expression; for a TAG a string or a parameter."""
    span: Span = field(compare=False)


@dataclass(frozen=True, slots=True)
class TimeBound:
    """FOR EVENT_TIME AS OF t | FROM a TO b | BETWEEN a AND b. AS OF has no start."""

    kind: Literal["AS OF", "FROM", "BETWEEN"]
    start: Island | None
    stop: Island
    """Each a bare integer, a string, DATE '…', TIMESTAMP '…', TIMESTAMPTZ '…' or a parenthesised expression."""
    span: Span = field(compare=False)


@dataclass(frozen=True, slots=True)
class WindowBound:
    """FOR EVENT_TIME WINDOW length [ENDING t]."""

    length: Island
    """INTERVAL …, or a whole number that may be negative: the binder refuses it."""
    ending: Island | None
    """As TimeBound's; None: the latest event."""
    span: Span = field(compare=False)

"""The tree of what can go wrong.

    SnapdbError
    ├── ParseError            the text is not a statement of the language
    ├── BindError             a name, type or clause does not fit what the database holds
    ├── QueryError            DuckDB refused or failed to run a query
    ├── DataError             the rows break a rule: NULL keys, duplicates, dangling edges, ragged features
    ├── InputError            a file or value from outside cannot be read
    ├── DatabaseError         the database directory cannot be opened, read or written
    │   ├── FormatError       it was written by a newer snapdb, or is not a database
    │   └── CorruptError      a published file is missing or differs from its manifest
    ├── CommitConflict        another writer moved what this commit was based on (retryable)
    └── LockedError           a lock was not free in time (retryable)

Every error tells what was asked, what was found and what to do. One that came from a statement carries the
text and the span of the place, and shows it:

    >>> text = "SELECT agee FROM person"
    >>> print(BindError('no column "agee" in person; did you mean "age"?', span=Span(7, 11), text=text))
    BindError: no column "agee" in person; did you mean "age"?
      SELECT agee FROM person
             ^^^^
"""

from __future__ import annotations

from typing import NamedTuple, Self

__all__ = [
    "BindError",
    "CommitConflict",
    "CorruptError",
    "DataError",
    "DatabaseError",
    "FormatError",
    "InputError",
    "LockedError",
    "ParseError",
    "QueryError",
    "SnapdbError",
    "Span",
]


class Span(NamedTuple):
    """Where something stands in a text: characters `start` up to, not including, `stop`."""

    start: int
    stop: int


class SnapdbError(Exception):
    """Anything snapdb refuses or fails to do. `code` is a stable word for programs; `str()` shows the place."""

    code = "error"
    retryable = False

    def __init__(
        self, message: str, *, span: Span | None = None, text: str | None = None, code: str | None = None
    ) -> None:
        super().__init__(message)
        self.message = message
        self.span = span
        self.text = text
        if code is not None:
            self.code = code

    def located(self, text: str, span: Span | None = None) -> Self:
        """This error with the statement's text, and a span where it had none."""
        if self.text is None:
            self.text = text
            self.span = self.span if self.span is not None else span
        return self

    def __str__(self) -> str:
        headline = f"{type(self).__name__}: {self.message}"
        if self.span is None or self.text is None:
            return headline
        return f"{headline}\n{_excerpt(self.text, self.span)}"

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild, (type(self), self.message, self.span, self.text, self.code)


def _rebuild(kind: type[SnapdbError], message: str, span: Span | None, text: str | None, code: str) -> SnapdbError:
    return kind(message, span=span, text=text, code=code)


def _excerpt(text: str, span: Span, width: int = 100) -> str:
    """The line that holds the span, with carets under it; long lines are cut around the place."""
    start = min(max(span.start, 0), len(text))
    head = text.rfind("\n", 0, start) + 1
    tail = text.find("\n", start)
    tail = len(text) if tail < 0 else tail
    stop = min(max(span.stop, start + 1), max(tail, start + 1))
    left = head if start - head < width else start - width // 2
    right = min(tail, left + 2 * width)
    line = text[left:right].replace("\t", " ").rstrip()
    number = text.count("\n", 0, start) + 1
    place = f"  line {number}:\n" if "\n" in text.strip() else ""
    return f"{place}  {line}\n  {' ' * (start - left)}{'^' * max(1, min(stop, right) - start)}"


class ParseError(SnapdbError):
    """The text is not a statement of the language."""

    code = "parse"


class BindError(SnapdbError):
    """A name, type or clause does not fit what the database holds."""

    code = "bind"


class QueryError(SnapdbError):
    """DuckDB refused or failed to run a query."""

    code = "query"


class DataError(SnapdbError):
    """The rows break a rule of the graph: NULL keys, duplicates, dangling edges, ragged features."""

    code = "data"


class InputError(SnapdbError):
    """A file or value from outside cannot be read."""

    code = "input"


class DatabaseError(SnapdbError):
    """The database directory cannot be opened, read or written."""

    code = "database"


class FormatError(DatabaseError):
    """The directory is not a snapdb database, or was written by a newer snapdb."""

    code = "format"


class CorruptError(DatabaseError):
    """A published file is missing or differs from its manifest."""

    code = "corrupt"


class CommitConflict(SnapdbError):  # noqa: N818 -- a lost race is a conflict, not a fault
    """Another writer moved what this commit was based on."""

    code = "conflict"
    retryable = True


class LockedError(SnapdbError):
    """A lock was not free in time."""

    code = "locked"
    retryable = True

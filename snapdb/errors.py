"""The class hierarchy of snapdb's errors.

    SnapdbError
    ├── ParseError            the text is not a valid statement
    ├── BindError             a name, type or clause does not match the contents of the database
    ├── QueryError            DuckDB rejected a query or failed to run it
    ├── DataError             rows violate a rule: NULL keys, duplicates, dangling edges, ragged features
    ├── InputError            an external file or value cannot be read
    ├── DatabaseError         the database directory cannot be opened, read or written
    │   ├── FormatError       the directory was written by a newer snapdb or is not a database
    │   └── CorruptError      a published file is missing or differs from its manifest
    ├── CommitConflict        another writer changed the base of this commit (retryable)
    ├── LockedError           a lock was not released in time (retryable)
    └── WaitTimeout           the awaited event did not happen in time (retryable)

The message of an error states what was requested, what was found and how to correct it. Each error has a stable `code`
for programs, and errors.toml lists all codes. An error in a statement contains the statement's text and the span of
the error, and its string shows both:

    >>> text = "SELECT agee FROM person"
    >>> print(BindError('column "agee" does not exist; did you mean "age"?', span=Span(7, 11), text=text))
    column "agee" does not exist; did you mean "age"?
      SELECT agee FROM person
             ^^^^
"""

import functools
import os
import unicodedata
from collections.abc import Callable
from typing import NamedTuple, ParamSpec, Self, TypeVar

from snapdb.attribute_docs import document_attributes
from snapdb.on_first_use import public_names

__dir__ = public_names(__name__, type)


@document_attributes
class Span(NamedTuple):
    """A position in a text: the characters from `start` up to, but not including, `stop`."""

    start: int
    """The index of the first character, counted from 0."""
    stop: int
    """The index after the last character."""


@document_attributes
class SnapdbError(Exception):
    """The base class of all snapdb errors. `str()` returns the message and, below it, the position in the statement.

    Examples:
        >>> import snapdb
        >>> with snapdb.connect() as db:
        ...     try:
        ...         db.execute("SELECT 1 + x")
        ...     except snapdb.SnapdbError as error:
        ...         print(type(error).__name__, error.code, error.line, error.column, error.retryable)
        BindError unknown-column 1 12 False
    """

    code: str = "error"
    """A stable identifier for programs. `SELECT * FROM snapdb.errors` lists all codes."""
    retryable: bool = False
    """Whether the same statement can succeed later."""
    placed: bool = True
    """Whether the error concerns the text of the statement rather than the database or the machine."""
    message: str
    """The problem and its remedy, without the position."""
    span: Span | None
    """The position in `text`, or None if the error has no position."""
    text: str | None
    """The text of the statement, or None if the error does not concern a statement."""

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
        """Set the statement's text if it is missing, and the span if the error concerns the statement.

        Returns:
            This error.
        """
        if self.text is None:
            self.text = text
            if self.span is None and self.placed and self.code != "interrupted":
                self.span = span
            if self.span is not None and self.span.stop > len(text):  # DuckDB reported a position after the fragment
                self.span = Span(min(self.span.start, len(text)), len(text))
        return self

    @property
    def line(self) -> int | None:
        """The line number, starting at 1, or None if the error has no position."""
        place = self._place()
        return None if place is None else self._before(place).count("\n") + 1

    @property
    def column(self) -> int | None:
        """The column number, starting at 1, or None if the error has no position."""
        place = self._place()
        return None if place is None else len(self._before(place).rpartition("\n")[2]) + 1

    def _place(self) -> int | None:
        return None if self.span is None or self.text is None else _start(self.text, self.span)

    def _before(self, place: int) -> str:
        return (self.text or "")[:place]

    def __str__(self) -> str:
        headline = _visible(_cut(self.message), lines=True)
        if self.span is None or self.text is None:
            return headline
        return f"{headline}\n{_excerpt(self.text, self.span)}"

    def report(self) -> str:
        """Return the class, the message and the position, in the form that the command line shows.

        >>> WaitTimeout("waited 5 s for snapshot now").report()
        'WaitTimeout: waited 5 s for snapshot now'
        """
        return f"{type(self).__name__}: {self}"

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild, (type(self), self.message, self.span, self.text, self.code)


def report(error: BaseException) -> str:
    """Return the text of any error for a log. For snapdb's own errors, the text begins with the class name."""
    return error.report() if isinstance(error, SnapdbError) else str(error)


_P = ParamSpec("_P")
_R = TypeVar("_R")


def brief_traceback(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Decorate a public function so that tracebacks of snapdb errors end at the call to it, where the mistake is.

    Errors from the database directory and the operating system keep their cause. If SNAPDB_TRACEBACK is set in the
    environment, tracebacks are complete.
    """

    @functools.wraps(function)
    def called(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        try:
            return function(*args, **kwargs)
        except SnapdbError as error:
            if os.environ.get("SNAPDB_TRACEBACK"):
                raise
            keeps = isinstance(error, DatabaseError) or isinstance(error.__cause__, OSError)
            raise error.with_traceback(None) from (error.__cause__ if keeps else None)

    return called


def _rebuild(kind: type[SnapdbError], message: str, span: Span | None, text: str | None, code: str) -> SnapdbError:
    return kind(message, span=span, text=text, code=code)


def _start(text: str, span: Span) -> int:
    """Return the index at which the position begins. Trailing empty lines do not count as part of the text."""
    return min(max(span.start, 0), len(text.rstrip()))


def _excerpt(text: str, span: Span, width: int = 100) -> str:
    """Return the line that contains the span, with carets under it. Long lines are truncated around the position."""
    start = _start(text, span)
    head = text.rfind("\n", 0, start) + 1
    tail = text.find("\n", start)
    tail = len(text) if tail < 0 else tail
    left = head if start - head < width else start - width // 2
    right = min(tail, left + (2 * width if span.stop < left + 2 * width else width + start - left))
    stop = min(max(span.stop, start), right)
    before = ("…" if left > head else "") + _visible(text[left:start])
    line = before + _visible(text[start:right]).rstrip() + ("…" if right < tail else "")
    number = text.count("\n", 0, start) + 1
    place = f"  line {number}:\n" if "\n" in text.strip() else ""
    return f"{place}  {line.rstrip()}\n  {' ' * _cells(before)}{'^' * max(1, _cells(_visible(text[start:stop])))}"


_LONGEST = 2000
"""The maximum displayed length of a message, which can contain a value or name of any length."""


def _cut(message: str) -> str:
    """Return the message, shortened in the middle if it is long, because the remedy is at its end.

    >>> len(_cut("x" * 1_000_000))
    2000
    """
    if len(message) <= _LONGEST:
        return message
    return f"{message[: _LONGEST // 2]}…{message[1 - _LONGEST // 2 :]}"


_TURNS = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
"""Characters that change the writing direction, which could make a line look like a different one."""


def _visible(text: str, *, lines: bool = False) -> str:
    """Replace characters that move a terminal's cursor with U+FFFD, and tabs with spaces, one character each.

    >>> _visible("a\\tb\\x1b[2J")
    'a b�[2J'
    """
    if text.isascii() and text.isprintable():
        return text
    kept = "\n" if lines else ""
    return "".join(c if c in kept else " " if c == "\t" else "�" if _moves(c) else c for c in text)


def _moves(character: str) -> bool:
    return character in _TURNS or unicodedata.category(character) in {"Cc", "Cs"}


def _cells(text: str) -> int:
    """Return the width of the text in terminal cells. CJK characters and emoji occupy two cells, combining marks none.

    >>> _cells("abc"), _cells("日本"), _cells("é")
    (3, 4, 1)
    """
    return len(text) if text.isascii() else sum(map(_width, text))


def _width(character: str) -> int:
    if unicodedata.category(character) in {"Mn", "Me", "Cf"}:
        return 0
    return 2 if unicodedata.east_asian_width(character) in {"W", "F"} else 1


class ParseError(SnapdbError):
    """The text is not a valid statement."""

    code = "parse"


class BindError(SnapdbError):
    """A name, type or clause does not match the contents of the database."""

    code = "bind"


class QueryError(SnapdbError):
    """DuckDB rejected a query or failed to run it."""

    code = "query"


class DataError(SnapdbError):
    """Rows violate a rule, for example with NULL keys, duplicates, dangling edges or ragged features."""

    code = "data"


class DataWarning(UserWarning):
    """New rows violate a rule of a graph, so the next CREATE SNAPSHOT of the graph would fail."""


class InputError(SnapdbError):
    """An external file or value cannot be read."""

    code = "input"


class DatabaseError(SnapdbError):
    """The database directory cannot be opened, read or written."""

    code = "database"
    placed = False


class FormatError(DatabaseError):
    """The directory is not a snapdb database, or was written by a newer snapdb."""

    code = "format"


class CorruptError(DatabaseError):
    """A published file is missing or differs from its manifest."""

    code = "corrupt"


class CommitConflict(SnapdbError):  # noqa: N818 -- a lost race is a conflict, not a fault
    """Another writer changed the base of this commit."""

    code = "conflict"
    placed = False
    retryable = True

    _moved: tuple[str, str] | None = None
    """The message and the text after its hint, if it has the hint to run the statement again."""


def moved(what: str, *, code: str, more: str = "") -> CommitConflict:
    """Return the error for a statement that lost a race with another writer, with the hint to run it again.

    Args:
        what: The message.
        code: The code.
        more: The text after the hint.
    """
    conflict = CommitConflict(f"{what}; run the statement again{more}", code=code)
    conflict._moved = what, more
    return conflict


def hint_at_transaction(conflict: CommitConflict) -> None:
    """Change the hint from running the statement again to running the whole transaction again."""
    if conflict._moved is not None:
        what, more = conflict._moved
        conflict.message = f"{what}; run the transaction again{more}"


class LockedError(SnapdbError):
    """A lock was not released in time."""

    code = "locked"
    placed = False
    retryable = True


class WaitTimeout(SnapdbError, TimeoutError):  # noqa: N818 -- named like its base class
    """The awaited event did not happen in time."""

    code = "wait-timeout"
    placed = False
    retryable = True

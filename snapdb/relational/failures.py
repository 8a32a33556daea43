"""DuckDB's errors as ours: the kind, the message in our words, the place within the query."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import duckdb
import pyarrow as pa

from snapdb.errors import BindError, CorruptError, InputError, ParseError, QueryError, SnapdbError, Span
from snapdb.relational.complaints import in_our_words
from snapdb.types.suggest import did_you_mean

Place = Callable[[str, SnapdbError], None]

_KINDS: tuple[tuple[type[Exception], type[SnapdbError]], ...] = (
    (duckdb.ParserException, ParseError),
    (duckdb.CatalogException, BindError),
    (duckdb.BinderException, BindError),
    (duckdb.IOException, InputError),
    (duckdb.Error, QueryError),
)
_REFUSED = re.compile(r"\.?; (\* SET |Please try installing).*", re.DOTALL)
"""Advice of DuckDB's that cannot be followed here."""
_UNREADABLE = re.compile(r"magic bytes|[Pp]arquet|CSV|[Ff]ile")


@contextmanager
def translated(space: str, query: str, offset: int, place: Place, own: str) -> Iterator[None]:
    """Run the block; what DuckDB raises in it becomes a SnapdbError whose span counts in `query`.

    Args:
        space: The session's name space, which no message should show.
        query: The user's part of the SQL.
        offset: How many characters of ours stand before it.
        place: Called with the query and the error before it is raised.
        own: The database directory; what cannot be read there is CorruptError.
    """
    try:
        yield
    except UnicodeDecodeError as error:  # a damaged file's bytes in a message of DuckDB's
        made: SnapdbError = CorruptError(
            "a file that this reads is damaged; CHECK DATABASE names it if it is the database's", code="damaged-file"
        )
        place(query, made)
        raise made from error
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
        made = _not_in_arrow(error)
        place(query, made)
        raise made from error
    except (duckdb.Error, RuntimeError, OSError) as error:  # the last two: Arrow's, while it reads from DuckDB
        if isinstance(error, duckdb.InterruptException) or "INTERRUPT" in str(error)[:40]:
            raise QueryError("interrupted", code="interrupted") from error
        if not isinstance(error, duckdb.Error) and "Query interrupted" in str(error):
            raise KeyboardInterrupt from None  # DuckDB took the signal while it ran
        if not isinstance(error, duckdb.Error) and "exception_type" not in str(error):
            raise
        made = _translate(error, space, query, offset)
        refused = made.code == "folder-not-allowed"
        if isinstance(made, InputError) and not refused and own in made.message and ".parquet" in made.message:
            reason = made.message.split("; ")[0]
            made = CorruptError(
                f"a file of the database cannot be read: {reason}; restore it from a backup", code="damaged-file"
            )
        place(query, made)
        raise made from error


def _not_in_arrow(error: Exception) -> QueryError:
    """A result that DuckDB has, and Arrow, in which results are handed over, has no way to carry."""
    if "Recursion level" in str(error):
        words = "a column nests lists, structs or maps more than 62 deep, and Arrow carries no more"
    else:
        words = f"Arrow cannot carry a column of this result: {_one_line(str(error))}"
    return QueryError(f"{words}; select what is inside, or cast the column to VARCHAR", code="not-in-arrow")


def _translate(error: Exception, space: str, query: str, offset: int) -> SnapdbError:
    detail = _detail(str(error))
    message = re.sub(rf"\b{space}(\.main)?\.", "", str(detail.get("exception_message") or error)).strip()
    message = re.sub(
        rf'"{space}"\.|"snapdb version \d+"\.| when casting from source column snapdb \w+ \d+', "", message
    )
    if inner := re.search(r'\{"exception_type".*?"exception_message":"((?:[^"\\]|\\.)*)".*\}', message):
        message = message.replace(inner[0], inner[1])
    type_ = str(detail.get("exception_type", ""))
    kind = next((ours for theirs, ours in _KINDS if isinstance(error, theirs)), QueryError)
    invalid = isinstance(error, duckdb.InvalidInputException) or type_ == "Invalid Input"
    if type_ == "IO" or (kind is QueryError and invalid and _UNREADABLE.search(message)):
        kind = InputError
    code = _code(detail)
    span = _span(detail, query, offset)
    words = _missing(detail, code)
    if words is None:
        said = _one_line(message)
        if span is not None and span.start == len(query) and said.startswith("syntax error"):
            return ParseError("something has to follow here", span=span, code="query-syntax")  # it met our own ")"
        if complaint := in_our_words(said, *_around(query, span)):
            return complaint.kind(complaint.words, span=span, code=complaint.code)
        words = said.rstrip("!")
    return kind(words, span=span, code=code)


def _missing(detail: dict[str, Any], code: str | None) -> str | None:
    """Our words for a name that is not there."""
    if code == "unknown-table":
        return f'no table or snapshot "{detail["name"]}"'
    if code == "unknown-column":
        candidates = [c.strip().strip('"').rsplit(".", 1)[-1] for c in str(detail.get("candidates", "")).split(",")]
        known = sorted({c for c in candidates if c and not c.startswith("snapdb ")})
        hint = did_you_mean(detail["name"], known)
        hint = hint or (f"; the nearest: {', '.join(known)}" if known else "")
        return f'no column "{detail["name"]}"{hint}'
    return None


def _code(detail: dict[str, Any]) -> str | None:
    known = {
        ("MISSING_ENTRY", "Table"): "unknown-table",
        ("COLUMN_NOT_FOUND", None): "unknown-column",
    }
    return known.get((str(detail.get("error_subtype")), detail.get("type")))


def _detail(text: str) -> dict[str, Any]:
    start = text.find("{")
    if start < 0:
        return {}
    try:
        found = json.loads(text[start:])
    except json.JSONDecodeError:
        return {}
    return found if isinstance(found, dict) else {}


def _span(detail: dict[str, Any], query: str, offset: int) -> Span | None:
    if "position" not in detail:
        return None
    start = int(detail["position"]) - offset
    if not 0 <= start <= len(query):
        return None
    length = 1
    if "location" in detail:
        length = int(json.loads(detail["location"])[1])
    if (name := detail.get("name")) and query[start : start + len(name)].lower() == str(name).lower():
        length = len(name)
    return Span(start, min(start + max(length, 1), len(query)))


def _around(query: str, span: Span | None) -> tuple[str, str]:
    return ("", "") if span is None else (query[: span.start], query[span.stop :])


def _one_line(message: str) -> str:
    """DuckDB's message without its own excerpt of the query, its hints kept where they can be followed."""
    kept = message.split("\n\nLINE ", maxsplit=1)[0]
    said = "; ".join(part.strip() for part in kept.splitlines() if part.strip())
    said = said.replace("; Did you mean", " Did you mean")
    instead = "extensions are not loaded: copy the data here first" if "extension" in said else "leave it out"
    return _REFUSED.sub(f"; {instead}", said)

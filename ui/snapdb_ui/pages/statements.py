"""Statements that a reader of the page writes: which may run, and their results."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow.parquet as pq

from snapdb.database import Database
from snapdb.errors import BindError, SnapdbError
from snapdb.sql import parse_one
from snapdb.sql.syntax import Statement
from snapdb_ui.cells import text_of
from snapdb_ui.pages.page import table_of
from snapdb_ui.reader import rows

_READING = {"Query", "Show", "Describe", "Summarize", "Sample", "Explain", "Diff", "Audit", "Check"}
"""The kinds of statements that only read."""


def parsed(text: str, shown_in: str) -> Statement:
    """Return the statement in a text.

    Raises:
        ParseError: The text is not one statement.
        BindError: The statement does more than read.
    """
    statement = parse_one(text)
    kind = type(statement).__name__
    if not any(kind.startswith(name) for name in _READING):
        raise BindError(
            f"the pages only read; run it at the prompt: snapdb {shown_in}",
            code="page-reads-only",
            span=statement.span,
            text=text,
        )
    return statement


def result(db: Database, statement: Statement, limit: int) -> Mapping[str, Any]:
    """Return the first rows of a statement, for the template."""
    found = rows(db, statement, limit)
    return {
        "table": table_of(found.names, found.rows),
        "message": found.message,
        "more": found.more,
        "limit": limit,
        "count": len(found.rows),
        "empty": "0 rows",
    }


def csv_text(db: Database, statement: Statement) -> Iterator[str]:
    """Yield all rows of a statement as CSV."""
    reader = db.run(statement)
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow(reader.columns)
    for batch in reader:
        for row in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            writer.writerow(["" if value is None else text_of(value) for value in row])
        yield out.getvalue()
        out.seek(0)
        out.truncate()
    yield out.getvalue()


def parquet_bytes(db: Database, statement: Statement) -> bytes:
    """Return all rows of a statement as a Parquet file."""
    out = io.BytesIO()
    pq.write_table(db.run(statement).arrow(), out)
    return out.getvalue()


def failure(error: SnapdbError) -> Mapping[str, Any]:
    """Return an error for the template: the message, and where in the statement it is."""
    return {"error": str(error), "code": error.code, "kind": type(error).__name__, "line": error.line}

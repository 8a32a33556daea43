"""Statements that a reader of the page writes: which may run, and their results."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from contextlib import closing
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from snapdb.database import Database
from snapdb.errors import BindError, InputError, SnapdbError
from snapdb.execute.rendering import spell
from snapdb.sql import parse_one
from snapdb.sql.explain import Explain
from snapdb.sql.maintenance import CheckDatabase
from snapdb.sql.queries import Query
from snapdb.sql.samples import Audit, Sample, SampleUsing
from snapdb.sql.show import Describe, Show, Summarize
from snapdb.sql.syntax import Statement
from snapdb.sql.versions import DiffGraph, DiffSnapshot, DiffTable
from snapdb_ui.pages.page import table_of
from snapdb_ui.reader import rows

_READING = (
    *(Query, Show, Describe, Summarize, Sample, SampleUsing, Audit, Explain, CheckDatabase),
    *(DiffTable, DiffGraph, DiffSnapshot),
)
"""The statements that only read."""


def parsed(text: str, shown_in: str) -> Statement:
    """Return the statement in a text.

    Raises:
        ParseError: The text is not one statement.
        BindError: The statement does more than read.
    """
    statement = parse_one(text)
    run = statement.statement if isinstance(statement, Explain) and statement.analyze else statement
    if not isinstance(run, _READING):
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
        "table": table_of(found),
        "message": found.message,
        "more": found.more,
        "limit": limit,
        "count": len(found.rows),
        "empty": "",
    }


def csv_text(db: Database, statement: Statement) -> str:
    """Return all rows of a statement as CSV, with values as the command line writes them."""
    out = io.StringIO()
    writer = csv.writer(out)
    with closing(db.run(statement)) as reader:
        writer.writerow(reader.columns)
        for batch in reader:
            writer.writerows(zip(*(spell(column) for column in batch.columns), strict=True))
    return out.getvalue()


def parquet_bytes(db: Database, statement: Statement) -> bytes:
    """Return all rows of a statement as a Parquet file.

    Raises:
        InputError: Parquet cannot store a type of the result.
    """
    out = io.BytesIO()
    table = db.run(statement).arrow()
    try:
        pq.write_table(table, out)
    except pa.ArrowException as error:
        raise InputError(
            f"Parquet cannot store the result: {error}; cast the column to VARCHAR, or use CSV", code="output-format"
        ) from error
    return out.getvalue()


def failure(error: SnapdbError) -> Mapping[str, Any]:
    """Return an error for the template: the message, and where in the statement it is."""
    return {"error": str(error), "code": error.code, "kind": type(error).__name__, "line": error.line}

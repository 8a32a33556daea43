"""Which Parquet files hold rows just as a segment would, so that they need only be copied."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from pathlib import Path

from snapdb.relational import Session, file_literal, is_plain
from snapdb.sql.tokens import string_value, tokens
from snapdb.types import Column

_WORTH = 8 << 20
"""Bytes from which copying is worth a segment of its own; small files are better rewritten into one."""


def whole_files(query: str) -> str | None:
    """The path or glob of a query that gives just the rows of Parquet files; None for any other.

    >>> whole_files("SELECT * FROM 'day/*.parquet'"), whole_files("SELECT a FROM 'a.parquet'")
    ('day/*.parquet', None)
    """
    first = tuple(islice(tokens(query), 5))  # of a query that may be megabytes of VALUES
    words = [token.word for token in first[:-1]]
    if words not in (["SELECT", "*", "FROM"], ["FROM"]) or first[-1].kind != "string":
        return None
    path = string_value(first[-1])
    return path if path.lower().endswith(".parquet") else None


def copyable(session: Session, files: Sequence[str], columns: Sequence[Column]) -> tuple[str, ...]:
    """The files when each has just these columns in these types, else none of them."""
    if not all(c.nullable and is_plain(c.type) for c in columns):
        return ()
    wanted = {c.name.lower(): c.type for c in columns}
    return tuple(files) if files and all(_fits(session, file, wanted) for file in files) else ()


def _fits(session: Session, file: str, wanted: dict[str, str]) -> bool:
    local = Path(file)
    if not local.is_file() or local.stat().st_size < _WORTH:
        return False
    source = f"read_parquet({file_literal(file)}, hive_partitioning = false)"
    return {c.name.lower(): c.type for c in session.describe(f"FROM {source}")} == wanted

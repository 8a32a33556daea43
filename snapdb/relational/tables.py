"""The SELECT that reads a table at a version from its segments."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from snapdb.relational.columns import parquet_form
from snapdb.relational.quote import quote, text_literal
from snapdb.types import Column, Segment, Table

__all__ = ["ROW_ID", "key_rows", "table_rows"]

ROW_ID = "snapdb row id"
"""The name under which `table_rows` gives row ids; no user column may have it."""


def table_rows(table: Table, root: Path, *, row_ids: bool = False) -> str:
    """SELECT the live rows of `table`, in row-id order, with its declared types.

    Args:
        table: The table at the version to read.
        root: The database directory.
        row_ids: Give row ids as a last column called `ROW_ID`; for an edge table that is `e_id`.
    """
    needs_ids = row_ids or bool(table.deletes)
    source = _read_segments(table.segments, root, ids=needs_ids)
    columns = ", ".join(f"{_cast_back(c)} AS {quote(c.name)}" for c in table.columns)
    shown = f"{columns}, {quote(ROW_ID)}" if row_ids else columns
    where = ""
    if table.deletes:
        # The anti-join loses the order, which row ids of a copy and so its draws follow from.
        gone = f"SELECT row_id FROM {_files(table.deletes, root)}"
        where = f" WHERE {quote(ROW_ID)} NOT IN ({gone}) ORDER BY {quote(ROW_ID)}"
    return f"SELECT {shown} FROM {source}{where}"


def key_rows(segments: Sequence[Segment], columns: Sequence[Column], root: Path) -> str:
    """SELECT the keys `k0, k1, …` of an id map with their `dense` ids (BIGINT)."""
    keys = ", ".join(f"CAST(k{i} AS {c.type}) AS k{i}" for i, c in enumerate(columns))
    if not segments:  # read_parquet of nothing fails
        nothing = ", ".join(f"CAST(NULL AS {c.type}) AS k{i}" for i, c in enumerate(columns))
        return f"SELECT {nothing}, CAST(NULL AS BIGINT) AS dense WHERE false"
    return f"SELECT {keys}, {quote(ROW_ID)} AS dense FROM {_read_segments(segments, root, ids=True)}"


def _cast_back(column: Column) -> str:
    plain = parquet_form(column.type) == column.type and "[" not in column.type and "ENUM" not in column.type
    if plain and column.type not in ("TIMESTAMP_S", "TIMESTAMP_MS"):
        return quote(column.name)
    return f"CAST({quote(column.name)} AS {column.type})"


def _read_segments(segments: Sequence[Segment], root: Path, *, ids: bool) -> str:
    if not ids:
        return _files(segments, root)
    firsts = ", ".join(str(s.first) for s in segments)
    row_id = f"([{firsts}]::BIGINT[])[(file_index + 1)::BIGINT] + file_row_number::BIGINT"
    return f"(SELECT *, {row_id} AS {quote(ROW_ID)} FROM {_files(segments, root)})"


def _files(segments: Iterable[Segment], root: Path) -> str:
    paths = ", ".join(text_literal(str(root / s.path)) for s in segments)
    # A folder called key=value above the database must not be read as a column.
    return f"read_parquet([{paths}], hive_partitioning = false)"

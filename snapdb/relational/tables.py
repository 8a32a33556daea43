"""The SELECT that reads a table at a version from its segments."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from pathlib import Path

from snapdb.relational.columns import default_value, is_plain
from snapdb.relational.quote import quote, text_literal
from snapdb.types import Column, Segment, Table

__all__ = ["ROW_ID", "deleted_rows", "key_bounds", "key_rows", "parquet_files", "table_rows"]

ROW_ID = "snapdb row id"
"""The name under which `table_rows` gives row ids; no user column may have it."""


def table_rows(table: Table, root: Path, *, row_ids: bool = False, ordered: bool = True) -> str:
    """SELECT the live rows of `table`, in row-id order, with its declared types.

    Args:
        table: The table at the version to read.
        root: The database directory.
        row_ids: Give row ids as a last column called `ROW_ID`; for an edge table that is `e_id`.
        ordered: False gives them in any order, which spares a sort where rows were deleted.
    """
    beyond = any(s.first + s.rows > table.next_row for s in table.segments)
    needs_ids = row_ids or beyond or bool(table.deletes)
    shown = f", {quote(ROW_ID)}" if row_ids else ""
    conditions = [f"{quote(ROW_ID)} < {table.next_row}"] if beyond else []
    order = ""
    if table.deletes:
        # The anti-join loses the order, which row ids of a copy and so its draws follow from.
        conditions.append(f"{quote(ROW_ID)} NOT IN ({deleted_rows(table.deletes, root)})")
        order = f" ORDER BY {quote(ROW_ID)}" if ordered else ""
    where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
    groups = [list(group) for _, group in groupby(table.segments, key=lambda s: s.columns or table.columns)]
    if len(groups) == 1:
        columns = _columns(table, groups[0])
        return f"SELECT {columns}{shown} FROM {_read_segments(groups[0], root, ids=needs_ids)}{where}{order}"
    more = f", {quote(ROW_ID)}" if needs_ids else ""
    parts = [f"SELECT {_columns(table, g)}{more} FROM {_read_segments(g, root, ids=needs_ids)}" for g in groups]
    names = ", ".join(quote(c.name) for c in table.columns)
    return f"SELECT {names}{shown} FROM ({' UNION ALL '.join(parts)}){where}{order}"


def deleted_rows(deletes: Sequence[Segment], root: Path) -> str:
    """SELECT row_id: the rows that are gone; at least one segment must be given."""
    plain = [s for s in deletes if s.until is None]
    parts = [f"SELECT row_id FROM {parquet_files(plain, root)}"] if plain else []
    parts += [
        f"SELECT row_id FROM {parquet_files([s], root)} WHERE version <= {s.until}"
        for s in deletes
        if s.until is not None
    ]
    return " UNION ALL ".join(parts)


def key_rows(segments: Sequence[Segment], columns: Sequence[Column], root: Path) -> str:
    """SELECT the keys `k0, k1, …` of an id map with their `dense` ids (BIGINT)."""
    keys = ", ".join(f"CAST(k{i} AS {c.type}) AS k{i}" for i, c in enumerate(columns))
    if not segments:  # read_parquet of nothing fails
        nothing = ", ".join(f"CAST(NULL AS {c.type}) AS k{i}" for i, c in enumerate(columns))
        return f"SELECT {nothing}, CAST(NULL AS BIGINT) AS dense WHERE false"
    return f"SELECT {keys}, {quote(ROW_ID)} AS dense FROM {_read_segments(segments, root, ids=True)}"


def key_bounds(segments: Iterable[Segment], root: Path) -> str:
    """SELECT file, least, greatest: the bounds of an integer key `k0`, as the files' footers tell them."""
    paths = ", ".join(text_literal(str(root / s.path)) for s in segments)
    bounds = "min(TRY_CAST(stats_min_value AS HUGEINT)), max(TRY_CAST(stats_max_value AS HUGEINT))"
    return f"SELECT file_name, {bounds} FROM parquet_metadata([{paths}]) WHERE path_in_schema = 'k0' GROUP BY file_name"


def parquet_files(segments: Iterable[Segment], root: Path) -> str:
    """The table function that reads these files, one after another."""
    paths = ", ".join(text_literal(str(root / s.path)) for s in segments)
    # A folder called key=value above the database must not be read as a column.
    return f"read_parquet([{paths}], hive_partitioning = false)"


def _columns(table: Table, segments: Sequence[Segment]) -> str:
    """The table's columns out of files that were all written with the same columns, which may have been others."""
    then = segments[0].columns or table.columns
    written = {c.field: c for c in then}
    return ", ".join(f"{_value(c, written.get(c.field))} AS {quote(c.name)}" for c in table.columns)


def _value(column: Column, written: Column | None) -> str:
    """A column as its declared type, under the name that it had when the file was written."""
    if written is None:
        return default_value(column)
    if is_plain(column.type):
        return quote(written.name)
    return f"CAST({quote(written.name)} AS {column.type})"


def _read_segments(segments: Sequence[Segment], root: Path, *, ids: bool) -> str:
    if not ids:
        return parquet_files(segments, root)
    firsts = ", ".join(str(s.first) for s in segments)
    row_id = f"([{firsts}]::BIGINT[])[(file_index + 1)::BIGINT] + file_row_number::BIGINT"
    return f"(SELECT *, {row_id} AS {quote(ROW_ID)} FROM {parquet_files(segments, root)})"

"""The SELECT that reads a table at a version from its segments, and the form that its types have in Parquet."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path

from snapdb.errors import BindError
from snapdb.relational.live_rows import live_condition
from snapdb.relational.quote import quote, text_literal
from snapdb.types import Column, Segment, Table

_FORMS = (
    (re.compile(r"\bU?HUGEINT\b"), "DECIMAL(38,0)"),
    (re.compile(r"\bINTERVAL\b"), "VARCHAR"),
    (re.compile(r"\bTIME WITH TIME ZONE\b"), "VARCHAR"),
)
"""Types that Parquet would change, and what is written in their place."""
_CHANGED = re.compile(r"\[|\b(ENUM|TIMESTAMP_M?S)\b")
"""What of the types that Parquet keeps comes back as another."""
_QUOTED = re.compile(r"""("(?:[^"]|"")*"|'(?:[^']|'')*')""")
_REFUSED = {
    "UNION": "store its members as columns of a STRUCT",
    "BIT": "cast it to VARCHAR or BLOB",
    "BIGNUM": "cast it to DECIMAL(38, 0) or VARCHAR",
    "GEOMETRY": "cast it to BLOB (well-known binary)",
}
_TAKEN = ("file_index", "file_row_number", "snapdb row id")
"""Names that reading a table from its files gives a meaning to (relational.tables)."""
_REFUSED_WORD = re.compile(r"\b(" + "|".join(_REFUSED) + r")\b")


def parquet_form(type_: str) -> str:
    """The type in which a column of `type_` is written to Parquet; the same type for most.

    >>> parquet_form("BIGINT"), parquet_form("STRUCT(n HUGEINT)")
    ('BIGINT', 'STRUCT(n DECIMAL(38,0))')
    """
    for pattern, form in _FORMS:
        type_ = _outside_quotes(type_, pattern, form)
    return type_


def is_plain(type_: str) -> bool:
    """Whether Parquet gives a type back as it is, without a cast.

    >>> is_plain("VARCHAR"), is_plain("FLOAT[2]"), is_plain("HUGEINT")
    (True, False, False)
    """
    return parquet_form(type_) == type_ and _CHANGED.search(type_) is None


def default_value(column: Column) -> str:
    """What a row without a value gets, as SQL.

    >>> default_value(Column("a", "INTEGER", default="3")), default_value(Column("b", "DATE"))
    ("CAST('3' AS INTEGER)", 'CAST(NULL AS DATE)')
    """
    return f"CAST({'NULL' if column.default is None else text_literal(column.default)} AS {column.type})"


def check_storable(columns: Iterable[Column]) -> None:
    """Nothing when every column can be kept as it is.

    Raises:
        BindError: a type that Parquet would change, a column without a type (all NULL), names that differ only in
            case or that reading files needs.
    """
    seen: dict[str, str] = {}
    for column in columns:
        if column.name.lower() in _TAKEN:
            raise BindError(
                f'"{column.name}" is a name that reading files needs; call the column something else',
                code="reserved-name",
            )
        if column.type == '"NULL"':
            raise BindError(
                f'column "{column.name}" holds only NULL and has no type; cast it, e.g. NULL::VARCHAR',
                code="null-column",
            )
        plain = "".join(part for part in _QUOTED.split(column.type) if not _QUOTED.fullmatch(part))
        if found := _REFUSED_WORD.search(plain):
            raise BindError(
                f'column "{column.name}" has type {column.type}: {found[1]} cannot be stored; {_REFUSED[found[1]]}',
                code="unstorable-type",
            )
        folded = column.name.lower()
        if folded in seen:
            raise BindError(
                f'columns "{seen[folded]}" and "{column.name}" differ only in case; rename one', code="duplicate-name"
            )
        seen[folded] = column.name


def _outside_quotes(text: str, pattern: re.Pattern[str], form: str) -> str:
    return "".join(part if _QUOTED.fullmatch(part) else pattern.sub(form, part) for part in _QUOTED.split(text))


# The SELECT that reads a table at a version from its segments


ROW_ID = "snapdb row id"
"""The name under which `table_rows` gives row ids; no user column may have it."""


def table_rows(table: Table, root: Path, *, row_ids: bool = False, ordered: bool = True) -> str:
    """SELECT the live rows of `table`, in row-id order, with its declared types.

    Args:
        table: The table at the version to read.
        root: The database directory.
        row_ids: Give row ids as a last column called `ROW_ID`; for an edge table that is `e_id`.
        ordered: False gives them in any order, which plans sooner where many rows were deleted: a join leaves them out.

    Raises:
        CorruptError: a file of deleted rows cannot be read.
    """
    if table.deletes and not ordered:
        shown = f"* EXCLUDE ({quote(ROW_ID)})" if not row_ids else "*"
        every = table_rows(replace(table, deletes=()), root, row_ids=True)
        gone = deleted_rows(table.deletes, root)
        return f"SELECT {shown} FROM ({every}) WHERE {quote(ROW_ID)} NOT IN ({gone})"
    # Only scans, filters and UNION ALL, which keep the order of files and rows whatever the number of threads.
    groups = [list(group) for _, group in groupby(table.segments, key=lambda s: s.columns or table.columns)]
    return " UNION ALL ".join(_live(table, group, root, row_ids) for group in groups)


def _live(table: Table, segments: Sequence[Segment], root: Path, row_ids: bool) -> str:
    """SELECT the live rows of files that were all written with the same columns."""
    row_id = f", {_row_id(segments)} AS {quote(ROW_ID)}" if row_ids else ""
    files, columns = parquet_files(segments, root), f"{_columns(table, segments)}{row_id}"
    if (condition := live_condition(segments, table.deletes, table.next_row, root)) is None:
        return f"SELECT {columns} FROM {files}"
    # Above the scan: within it DuckDB evaluates such a condition at twice the time.
    return f"SELECT {columns} FROM (SELECT *, file_index, file_row_number FROM {files}) WHERE {condition}"


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
    return f"SELECT {keys}, {_row_id(segments)} AS dense FROM {parquet_files(segments, root)}"


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


def _row_id(segments: Sequence[Segment]) -> str:
    """A row's id out of its file and its position there."""
    if len(segments) == 1:
        return f"{segments[0].first}::BIGINT + file_row_number::BIGINT"
    firsts = ", ".join(str(s.first) for s in segments)
    return f"([{firsts}]::BIGINT[])[(file_index + 1)::BIGINT] + file_row_number::BIGINT"

"""Which DuckDB types survive Parquet, and in which form the others are written.

Measured on DuckDB 2.0: Parquet turns HUGEINT into DOUBLE, FLOAT[2] into a list, ENUM into VARCHAR, TIMESTAMP_S into
TIMESTAMP, BIT and BIGNUM into VARCHAR, UNION into STRUCT; it cuts INTERVAL to milliseconds and forgets the zone of a
TIMETZ. So the catalog keeps the declared type, 128-bit integers are written as DECIMAL(38, 0), intervals and times with
a zone as text, readers cast back, and what would not come back the same is refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from snapdb.errors import BindError
from snapdb.relational.quote import text_literal
from snapdb.types import Column

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

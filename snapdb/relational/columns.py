"""Which DuckDB types survive Parquet, and in which form the others are written.

Measured on DuckDB 2.0: Parquet turns HUGEINT into DOUBLE, FLOAT[2] into a list, ENUM into VARCHAR, TIMESTAMP_S into
TIMESTAMP, BIT and BIGNUM into VARCHAR, UNION into STRUCT. So the catalog keeps the declared type, 128-bit integers are
written as DECIMAL(38, 0), readers cast back, and what would not come back the same is refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from snapdb.errors import BindError
from snapdb.types import Column

__all__ = ["check_storable", "parquet_form"]

_WIDE = re.compile(r"\bU?HUGEINT\b")
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
    return _outside_quotes(type_, lambda part: _WIDE.sub("DECIMAL(38,0)", part))


def check_storable(columns: Iterable[Column]) -> None:
    """Nothing when every column can be kept as it is.

    Raises:
        BindError: a type that Parquet would change, a column without a type (all NULL), names that differ only in
            case or that reading files needs.
    """
    seen: dict[str, str] = {}
    for column in columns:
        if column.name.lower() in _TAKEN:
            raise BindError(f'"{column.name}" is a name that reading files needs; call the column something else')
        if column.type == '"NULL"':
            raise BindError(f'column "{column.name}" holds only NULL and has no type; cast it, e.g. NULL::VARCHAR')
        plain = "".join(part for part in _QUOTED.split(column.type) if not _QUOTED.fullmatch(part))
        if found := _REFUSED_WORD.search(plain):
            raise BindError(f'column "{column.name}" has type {column.type}: {found[1]} cannot be stored; '
                            f"{_REFUSED[found[1]]}")  # fmt: skip
        folded = column.name.lower()
        if folded in seen:
            raise BindError(f'columns "{seen[folded]}" and "{column.name}" differ only in case; rename one')
        seen[folded] = column.name


def _outside_quotes(text: str, change: object) -> str:
    assert callable(change)
    return "".join(part if _QUOTED.fullmatch(part) else change(part) for part in _QUOTED.split(text))

"""The types of columns in Parquet files: the types that Parquet preserves, and the types with which others are written.

Measured on DuckDB 2.0: Parquet turns HUGEINT into DOUBLE, FLOAT[2] into a list, ENUM into VARCHAR, TIMESTAMP_S into
TIMESTAMP, BIT and BIGNUM into VARCHAR, and UNION into STRUCT. It truncates INTERVAL to milliseconds, drops the zone of
TIMETZ, and gives GEOMETRY a coordinate system. The catalog therefore stores the declared type. 128-bit integers are
written as DECIMAL(38, 0), geometries as well-known binary, and intervals, times with a zone, bit strings and BIGNUM as
text. A UNION is written by DuckDB as a STRUCT of the index of the tag and the members. Readers cast all of them back.
"""

import re
from collections.abc import Iterable
from functools import lru_cache

from snapdb.errors import BindError
from snapdb.sql_engine.sources import quote, text_literal
from snapdb.types import Column

ROW_ID = "snapdb row id"
"""The name of the row id column in `table_rows`. User columns must not have this name."""

_FORMS = (
    (re.compile(r"\bU?HUGEINT\b"), "DECIMAL(38,0)"),
    (re.compile(r"\bINTERVAL\b"), "VARCHAR"),
    (re.compile(r"\bTIME WITH TIME ZONE\b"), "VARCHAR"),
    (re.compile(r"\b(BIT|BIGNUM)\b"), "VARCHAR"),
    (re.compile(r"\bGEOMETRY\b(?:\('[^']*'\))?"), "BLOB"),
)
"""Types that Parquet would change → the types that are written instead."""
_TEXTS = ((re.compile(r"\b(BIT|BIGNUM|GEOMETRY)\b(?:\('[^']*'\))?"), "VARCHAR"),)
"""Types that DuckDB's CSV and JSON readers do not parse → the type with which they are read."""
_CHANGED = re.compile(r"\[|\b(ENUM|TIMESTAMP_M?S|UNION)\b")
"""The types that Parquet reads back as different types, even when nested in other types."""
_QUOTED = re.compile(r"""("(?:[^"]|"")*"|'(?:[^']|'')*')""")
_PARTS = re.compile(r"""("(?:[^"]|"")*"|'(?:[^']|'')*')|\bUNION\(|[(),]""")
_TAG = "element1"
"""The name of the tag in the STRUCT that DuckDB writes for a UNION."""
_TAG_NAME = re.compile(rf'"?{_TAG}"? ', re.IGNORECASE)
_TAKEN = ("file_index", "file_row_number", ROW_ID)
"""Names with a special meaning in the scan of a table's files."""


def parquet_form(type_: str) -> str:
    """Return the type with which a column of `type_` is written to Parquet. Most types are written unchanged.

    >>> parquet_form("BIGINT"), parquet_form("STRUCT(n HUGEINT)")
    ('BIGINT', 'STRUCT(n DECIMAL(38,0))')
    """
    return _replaced(type_, _FORMS)


def from_parquet(value: str, type_: str) -> str:
    """Return, as SQL, a value in the Parquet form of a type with the type itself.

    DuckDB casts a STRUCT to a UNION if its fields are a tag and members of exactly the same types. A union of unions is
    therefore cast once per level.

    >>> from_parquet("a", "HUGEINT")
    'CAST(a AS HUGEINT)'
    >>> from_parquet("a", "UNION(i INTEGER, s VARCHAR)")
    'CAST(CAST(a AS STRUCT(element1 UTINYINT, i INTEGER, s VARCHAR)) AS UNION(i INTEGER, s VARCHAR))'
    """
    for step in _casts(type_):
        value = f"CAST({value} AS {step})"
    return value


def restored_unions(columns: Iterable[Column]) -> str:
    """Return the select list of columns in Parquet form, in which unions have their types.

    A UNION is the only type whose Parquet form is not cast to it like a value of a user.
    """
    return ", ".join(
        f"{from_parquet(quote(c.name), c.type)} AS {quote(c.name)}" if has_union(c.type) else quote(c.name)
        for c in columns
    )


def has_union(type_: str) -> bool:
    """Return whether a type is or contains a UNION.

    >>> has_union("MAP(INTEGER, UNION(i INTEGER)[])"), has_union("ENUM('UNION(')")
    (True, False)
    """
    return bool(_union_levels(type_))


def is_parquet_form_of_union(read: str, type_: str) -> bool:
    """Return whether a type read from a Parquet file has the tag of a UNION that DuckDB wrote.

    >>> is_parquet_form_of_union("STRUCT(element1 UTINYINT, i INTEGER)", "UNION(i INTEGER)")
    True
    """
    return has_union(type_) and f"STRUCT({_TAG} UTINYINT, " in read


@lru_cache(maxsize=1024)
def _casts(type_: str) -> tuple[str, ...]:
    """Return the types to which the Parquet form of a type is cast in turn. The last one is the type."""
    levels = _union_levels(type_)
    casts = []
    for done in range(max(levels.values(), default=0) + 1):
        cast = type_
        for start, level in sorted(levels.items(), reverse=True):
            if level > done:
                cast = f"{cast[:start]}STRUCT({_TAG} UTINYINT, {cast[start + len('UNION(') :]}"
        casts.append(cast)
    return tuple(casts)


@lru_cache(maxsize=1024)
def _union_levels(type_: str) -> dict[int, int]:
    """Return the position of each UNION in a type, with the number of unions from its innermost one to itself."""
    levels: dict[int, int] = {}
    within: list[tuple[int | None, int]] = []
    for part in _PARTS.finditer(type_):
        if part[0] in ("(", "UNION("):
            within.append((part.start() if part[0] == "UNION(" else None, 0))
        elif part[0] == ")":
            start, level = within.pop()
            if start is not None:
                level += 1
                levels[start] = level
            if within:
                within[-1] = (within[-1][0], max(within[-1][1], level))
    return levels


def _has_member_of_tag(type_: str) -> bool:
    """Return whether a UNION in a type has a member with the name of the tag."""
    within: list[bool] = []
    for part in _PARTS.finditer(type_):
        if part[0] in ("(", "UNION("):
            within.append(part[0] == "UNION(")
        elif part[0] == ")":
            within.pop()
        if within and within[-1] and part[0] in ("UNION(", ",") and _TAG_NAME.match(type_[part.end() :].lstrip()):
            return True
    return False


def text_file_form(type_: str) -> str:
    """Return the type with which a column of `type_` is read from a CSV or JSON file, before it is cast.

    >>> text_file_form("BIGINT"), text_file_form("BIT[]")
    ('BIGINT', 'VARCHAR[]')
    """
    return _replaced(type_, _TEXTS)


def _replaced(type_: str, forms: Iterable[tuple[re.Pattern[str], str]]) -> str:
    """Return a type in which other types replace some, but not the names in quotes."""
    for pattern, form in forms:
        type_ = "".join(p if _QUOTED.fullmatch(p) else pattern.sub(form, p) for p in _QUOTED.split(type_))
    return type_


def is_plain(type_: str) -> bool:
    """Return whether Parquet preserves a type without a cast.

    >>> is_plain("VARCHAR"), is_plain("FLOAT[2]"), is_plain("HUGEINT")
    (True, False, False)
    """
    return parquet_form(type_) == type_ and _CHANGED.search(type_) is None


def default_value(column: Column) -> str:
    """Return, as SQL, a column's value for rows that are written without a value.

    >>> default_value(Column("a", "INTEGER", default="3")), default_value(Column("b", "DATE"))
    ("CAST('3' AS INTEGER)", 'CAST(NULL AS DATE)')
    """
    constant = "NULL" if column.default is None else text_literal(column.default)
    return f"CAST({f'({column.default_expression})' if column.default_expression else constant} AS {column.type})"


def check_storable(columns: Iterable[Column]) -> None:
    """Raise unless every column can be stored without loss.

    Raises:
        BindError: A column has no type (all NULL), names differ only in case, or a name is reserved for reading files.
    """
    seen: dict[str, str] = {}
    for column in columns:
        if column.name.lower() in _TAKEN:
            raise BindError(f'"{column.name}" is a reserved column name; choose another name', code="reserved-name")
        if column.type == '"NULL"':
            raise BindError(
                f'column "{column.name}" contains only NULL and has no type; cast it, as in NULL::VARCHAR',
                code="null-column",
            )
        if _has_member_of_tag(column.type):
            raise BindError(
                f'column "{column.name}" has type {column.type}: a member of a UNION in tables must not be named '
                f"{_TAG}, the name of the tag in Parquet files; choose another name",
                code="unstorable-type",
            )
        folded = column.name.lower()
        if folded in seen:
            raise BindError(
                f'columns "{seen[folded]}" and "{column.name}" differ only in case; rename one', code="duplicate-name"
            )
        seen[folded] = column.name

"""Feature dtypes, the SQL that reads columns as these dtypes, and checks of the columns' values."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from snapdb.arrays import Array, Int64s
from snapdb.errors import DataError
from snapdb.sql_engine import ROW_ID, SqlSession, quote, quote_all
from snapdb.types import Column, FeatureSpec

_FLOATS = ("FLOAT", "DOUBLE")
_NUMBERS = (
    *_FLOATS,
    "TINYINT",
    "SMALLINT",
    "INTEGER",
    "BIGINT",
    "UTINYINT",
    "USMALLINT",
    "UINTEGER",
    "UBIGINT",
    "HUGEINT",
    "UHUGEINT",
    "BOOLEAN",
)

DTYPES = {
    "float16": "DOUBLE",  # DOUBLE is exact, so numpy rounds a value only once
    "float32": "FLOAT",
    "float64": "DOUBLE",
    "int8": "TINYINT",
    "int16": "SMALLINT",
    "int32": "INTEGER",
    "int64": "BIGINT",
    "uint8": "UTINYINT",
    "bool": "BOOLEAN",
}
"""A feature's numpy dtype → the SQL type used to read it."""

_HALF = 65520
"""The smallest number that float16 rounds to infinity."""

_ID = quote(ROW_ID)


class FeatureColumn(NamedTuple):
    """One column of a feature."""

    name: str
    """The column's name."""
    sql: str
    """The SQL expression of the column."""
    type: str
    """The column's DuckDB type."""
    dtype: str
    """The feature's numpy dtype."""

    @property
    def is_list(self) -> bool:
        return "[" in self.type

    @property
    def base(self) -> str:
        """The type of the individual numbers."""
        return self.type.partition("[")[0]

    @property
    def fixed(self) -> int | None:
        """The number of values in a row, if the type determines it."""
        if not self.is_list:
            return 1
        length = re.search(r"\[(\d+)\]$", self.type)
        return int(length[1]) if length else None

    @property
    def plain(self) -> str:
        """The SQL for the column as a number, or as a list of numbers."""
        return f"CAST({self.sql} AS {self.base}[])" if self.is_list else self.sql

    @property
    def read(self) -> str:
        """The SQL type used to read the numbers."""
        # float32 represents these types exactly, and uses half the bytes.
        small = self.base in ("FLOAT", "BOOLEAN", "TINYINT", "UTINYINT", "SMALLINT", "USMALLINT")
        return "FLOAT" if self.dtype == "float16" and small else DTYPES[self.dtype]

    @property
    def missing(self) -> str:
        """An SQL condition that a row contains NULL or NaN."""
        nan = "isnan(v)" if self.base in _FLOATS else "false"
        return self._any(f"v IS NULL OR {nan}", f"{self.sql} IS NULL OR ")

    @property
    def infinite(self) -> str:
        """An SQL condition that a row of a float column contains an infinite number."""
        return self._any("v IS NOT NULL AND isinf(v)", "")

    @property
    def misfit(self) -> str | None:
        """An SQL condition that a row contains a number that the dtype cannot represent.

        The condition is None if the dtype can represent all numbers.
        """
        condition = _misfit(self.base, self.dtype)
        return None if condition is None else self._any(condition, "")

    @property
    def value(self) -> str:
        """The SQL for the column as the type `read`, with NULL instead of NaN if the dtype has no NaN."""
        holey = self.base in _FLOATS and np.dtype(self.dtype).kind != "f"
        known = "CASE WHEN isnan(v) THEN NULL ELSE v END" if holey else "v"
        cast = f"CAST({known} AS DOUBLE) <> 0" if self.dtype == "bool" else f"CAST({known} AS {self.read})"
        if not self.is_list:
            return _over(cast, self.sql)
        if self.dtype != "bool" and not holey:
            # A cast of the list is faster than a lambda for each number.
            return f"CAST({self.sql} AS {self.read}[])"
        return f"list_transform({self.plain}, lambda v: {cast})"

    def _any(self, condition: str, before: str) -> str:
        """Return an SQL condition that at least one number in a row meets a condition on v."""
        if self.is_list:
            return f"{before}len(list_filter({self.plain}, lambda v: {condition})) > 0"
        return f"({_over(condition, self.sql)})"


@dataclass(frozen=True, slots=True)
class FeatureSource:
    """The rows from which the features of one element are read."""

    element: str
    """The element's name, for error messages."""
    rows: str
    """A SELECT of the element's columns and `ROW_ID`: a vertex's dense id, an edge's id, or an index of `dense`."""
    columns: tuple[Column, ...]
    """The columns of the element's table."""
    count: int
    """The number of ids. Every id is in 0 ≤ id < count. Ids without a row get the feature's DEFAULT, or zeros."""
    key: tuple[str, ...]
    """The key columns, which identify rows in error messages."""
    dense: Array | None = None
    """[row ids] the id of each row, or -1 for rows to leave out. `ROW_ID` is then the row id. None: it is the id."""

    def batches(self, session: SqlSession, columns: str, rows: int) -> Iterator[tuple[Int64s, pa.RecordBatch]]:
        """Yield the ids of the rows and the given columns, an SQL list, in batches of at most `rows` rows."""
        for batch in session.reader(f"SELECT {columns}, {_ID} FROM ({self.rows})", rows=rows):
            ids = batch.column(batch.num_columns - 1).to_numpy()
            if self.dense is None:
                yield ids, batch
                continue
            ids = self.dense[ids].astype(np.int64, copy=False)
            there = ids >= 0
            yield (ids, batch) if there.all() else (ids[there], batch.filter(pa.array(there)))

    def parts(self, spec: FeatureSpec) -> tuple[FeatureColumn, ...]:
        """Return a feature's columns in order. Sparse rows without a value column have the value 1.

        >>> source = FeatureSource("n", "", (Column("ix", "INTEGER[]"),), 0, ())
        >>> source.parts(FeatureSpec("x", ("ix",), sparse=True))[1].sql
        'list_transform("ix", lambda v: true)'
        """
        columns = [next(c for c in self.columns if c.name.lower() == name.lower()) for name in spec.columns]
        parts = tuple(FeatureColumn(c.name, quote(c.name), c.type, spec.read_dtype) for c in columns)
        if not spec.sparse or len(parts) > 1:
            return parts
        ones = f"list_transform({parts[0].sql}, lambda v: true)"
        return (*parts, FeatureColumn(parts[0].name, ones, "BOOLEAN[]", spec.dtype))


def is_feature_type(type_: str) -> bool:
    """Return whether a column can be a feature or part of one. It must be a number, or a list or array of numbers.

    >>> is_feature_type("FLOAT[128]"), is_feature_type("DECIMAL(9,2)"), is_feature_type("VARCHAR")
    (True, True, False)
    """
    base = type_.partition("[")[0]
    return (base in _NUMBERS or base.startswith("DECIMAL")) and type_.count("[") <= 1


def fill_value(dtype: str, default: float | None) -> Any:
    """Return the value of a missing row, which is the DEFAULT or zero, as a numpy scalar of the dtype.

    >>> fill_value("int8", 3.0), fill_value("bool", None)
    (np.int8(3), np.False_)
    """
    return np.dtype(dtype).type(0 if default is None else default)


def numbers_of(values: pa.Array, part: FeatureColumn, default: float | None) -> Array:
    """Flatten an Arrow array of `FeatureColumn.value` to numbers of the dtype.

    NULL and NaN are replaced with the DEFAULT.

    Rows whose list is NULL are excluded.
    """
    flat = values.flatten() if part.is_list else values
    fill = fill_value(part.dtype, default)
    if flat.null_count:
        flat = flat.fill_null(pa.scalar(fill.item(), flat.type))
    numbers: Array = flat.to_numpy(zero_copy_only=False).astype(part.dtype, copy=False)
    if default is not None and numbers.dtype.kind == "f":
        numbers = np.where(np.isnan(numbers), fill, numbers)
    return numbers


def _over(expression: str, column: str) -> str:
    """Return an SQL expression of v with a column substituted for v."""
    return re.sub(r"\bv\b", lambda _: column, expression)


def _misfit(base: str, dtype: str) -> str | None:
    """Return an SQL condition that `dtype` cannot represent v, a value of type `base`, or None if it always can."""
    overflow = _overflow(base, dtype)
    there = "v IS NOT NULL" + (" AND NOT isnan(v)" if base in _FLOATS else "")
    return None if overflow is None else f"{there} AND ({overflow})"


def _overflow(base: str, dtype: str) -> str | None:
    """Return an SQL condition that `dtype` cannot represent v, a number of type `base`, or None if it always can."""
    read = DTYPES[dtype]
    if dtype == "float16":
        small = base in ("BOOLEAN", "TINYINT", "UTINYINT", "SMALLINT")
        size = "abs(CAST(v AS DOUBLE))"
        return None if small else f"{size} >= {_HALF} AND {size} < CAST('inf' AS DOUBLE)"
    if base in ("BOOLEAN", read) or dtype == "float64":
        return None
    if dtype == "float32":
        return "TRY_CAST(v AS FLOAT) IS NULL" if base in ("DOUBLE", "UHUGEINT") else None
    if dtype == "bool":
        return "CAST(v AS DOUBLE) NOT IN (0, 1)"
    whole = base not in _FLOATS and not base.startswith("DECIMAL")
    return f"TRY_CAST(v AS {read}) IS NULL" + ("" if whole else " OR v <> trunc(v)")


# Checks that run before features are built. Each check is a condition that no row may meet.


class RowCheck(NamedTuple):
    """A condition that no row may meet."""

    broken: str
    """The SQL condition on a row."""
    problem: str
    """A description of the problem with such rows, for the error message."""
    advice: str
    """The remedy, for the error message."""


def check_features(session: SqlSession, source: FeatureSource, specs: Sequence[FeatureSpec]) -> None:
    """Check that every feature can be built.

    Raises:
        DataError: The rows contain NULL or NaN but the feature has no DEFAULT, a value cannot be represented by the
            dtype, lists have different lengths, or a sparse row is invalid. The message contains the number of such
            rows and three ids.
    """
    own = [spec for spec in specs if spec.history is None]
    checks = [check for spec in own for check in (_sparse_checks if spec.sparse else _dense_checks)(source, spec)]
    check_rows(session, source, checks)
    for spec in own:
        for part in () if spec.sparse else source.parts(spec):
            if part.fixed is None:
                _check_even(session, source, part)


def check_rows(session: SqlSession, source: FeatureSource, checks: Sequence[RowCheck]) -> None:
    """Check, in one pass over the rows, that no row meets any of the conditions.

    Raises:
        DataError: Some rows meet a condition. For the first such condition, the message contains the number of rows and
            three ids.
    """
    if not checks:
        return
    counts = ", ".join(f"count_if({check.broken})" for check in checks)
    for check, count in zip(checks, session.rows(f"SELECT {counts} FROM ({source.rows})")[0], strict=True):
        if count:
            who = f"1 row of {source.element} has" if count == 1 else f"{count} rows of {source.element} have"
            raise DataError(
                f"{who} {check.problem} (ids {_shown(session, source, check.broken)}); {check.advice}",
                code="bad-feature",
            )


def _dense_checks(source: FeatureSource, spec: FeatureSpec) -> Iterator[RowCheck]:
    """Yield the checks of a dense feature's columns."""
    for part in source.parts(spec):
        if spec.default is None:
            advice = f"correct them, or write FEATURES ({part.name} DEFAULT 0)"
            yield RowCheck(part.missing, f'NULL or NaN in feature column "{part.name}"', advice)
        if (misfit := part.misfit) is not None:
            yield _fits(part, misfit)
        if spec.stored == "int8" and part.base in _FLOATS:
            advice = "correct it, or store the feature as bfloat16"
            yield RowCheck(part.infinite, f'an infinite value in feature column "{part.name}" STORED int8', advice)


def _sparse_checks(source: FeatureSource, spec: FeatureSpec) -> Iterator[RowCheck]:
    """Yield the checks of a sparse feature's index list and value list. Without a value column, all values are 1."""
    index, value = source.parts(spec)
    names = [f'"{name}"' for name in dict.fromkeys((index.name, value.name))]
    both, i, v = f"list{'s' * (len(names) > 1)} {' and '.join(names)}", index.sql, value.sql
    empty = f"use empty lists for empty rows, coalesce({index.name}, [])"
    yield RowCheck(f"{i} IS NULL OR {v} IS NULL", f"NULL in the {both} of a sparse feature", empty)
    each = "write one value per index"
    yield RowCheck(f"len({i}) <> len({v})", f"{both} of different lengths", each)
    holes = "leave out missing entries"
    yield RowCheck(f"{index.missing} OR {value.missing}", f"NULL or NaN within the {both}", holes)
    if spec.width is None:
        outside, range_ = f"list_min({index.plain}) < 0", "0 or more"
    else:
        outside = f"list_min({index.plain}) < 0 OR list_max({index.plain}) >= {spec.width}"
        range_ = f"less than {spec.width}, and not less than 0"
    yield RowCheck(outside, f'an index out of range in "{index.name}"', f"indices must be {range_}")
    twice = "add up the values of each index when loading"
    yield RowCheck(f"len(list_distinct({index.plain})) < len({i})", f'duplicate indices in "{index.name}"', twice)
    if (misfit := value.misfit) is not None:
        yield _fits(value, misfit)


def _fits(part: FeatureColumn, misfit: str) -> RowCheck:
    """Return the check that the dtype can represent the values."""
    problem = f'a value in feature column "{part.name}" of type {part.type} that does not fit {part.dtype}'
    return RowCheck(misfit, problem, "change them, or write another TYPE")


def _check_even(session: SqlSession, source: FeatureSource, part: FeatureColumn) -> None:
    """Raise DataError if the lists in a column have different lengths."""
    query = f"SELECT len({part.sql}), count(*) FROM ({source.rows}) WHERE {part.sql} IS NOT NULL"
    lengths = session.rows(f"{query} GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT 4")
    if len(lengths) > 1:
        counts = ", ".join(f"{length} in {count} rows" for length, count in lengths[:3])
        raise DataError(
            f'feature column "{part.name}" of {source.element} is ragged: lengths {counts}; '
            f"all lists of a feature must have the same length: pad the lists, or write SPARSE",
            code="ragged-feature",
        )


def _shown(session: SqlSession, source: FeatureSource, condition: str) -> str:
    """Return the keys of up to three rows that meet a condition."""
    key = ", ".join(f"CAST({quote(name)} AS VARCHAR)" for name in source.key)
    rows = session.rows(f"SELECT {key} FROM ({source.rows}) WHERE {condition} ORDER BY {quote_all(source.key)} LIMIT 3")
    return ", ".join(str(row[0]) if len(row) == 1 else f"({', '.join(map(str, row))})" for row in rows)

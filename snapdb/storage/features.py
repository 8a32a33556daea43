"""Features and targets as .npy files in id order, so that a row is one seek away."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from snapdb.errors import DataError
from snapdb.relational import ROW_ID, Session, quote
from snapdb.types import Column, FeatureSpec

__all__ = ["FeatureSource", "check_features", "is_feature_type", "write_features", "write_target"]

_NUMBERS = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT", "HUGEINT",
            "UHUGEINT", "FLOAT", "DOUBLE", "BOOLEAN")  # fmt: skip
_BATCH = 50_000
_ID = quote(ROW_ID)


@dataclass(frozen=True, slots=True)
class FeatureSource:
    """Where the features of one element come from."""

    element: str
    """For messages."""
    rows: str
    """SELECT of the element's columns and `ROW_ID`: the dense id of a vertex, the edge id of an edge."""
    columns: tuple[Column, ...]
    count: int
    """Ids are 0 ≤ id < count; ids without a row become zeros."""
    key: tuple[str, ...]
    """The columns by which a person knows a row."""


def is_feature_type(type_: str) -> bool:
    """Whether a column can be (part of) a feature: a number, or a list or array of numbers.

    >>> is_feature_type("FLOAT[128]"), is_feature_type("DECIMAL(9,2)"), is_feature_type("VARCHAR")
    (True, True, False)
    """
    base = type_.partition("[")[0]
    return (base in _NUMBERS or base.startswith("DECIMAL")) and type_.count("[") <= 1


def check_features(session: Session, source: FeatureSource, specs: Sequence[FeatureSpec]) -> None:
    """Nothing when every feature can be built.

    Raises:
        DataError: NULL or NaN without a DEFAULT, or lists of different lengths; it counts them and shows three ids.
    """
    for spec in specs:
        for name in spec.columns:
            column = _column(source, name)
            _check_present(session, source, column, spec)
            if _is_list(column):
                _check_even(session, source, column)


def write_features(
    session: Session, source: FeatureSource, specs: Sequence[FeatureSpec], directory: Path
) -> dict[str, Any]:
    """Write one float32 array [count, width] a feature, and return their widths. Run `check_features` first."""
    widths = {}
    for spec in specs:
        parts = [_width(session, source, _column(source, name)) for name in spec.columns]
        out = np.lib.format.open_memmap(
            directory / f"feature-{spec.name}.npy", mode="w+", dtype=np.float32, shape=(source.count, sum(parts))
        )
        out[:] = 0 if spec.default is None else spec.default
        at = 0
        for name, width in zip(spec.columns, parts, strict=True):
            _fill(session, source, _column(source, name), spec.default, out[:, at : at + width])
            at += width
        out.flush()
        widths[spec.name] = sum(parts)
    return {"widths": widths}


def write_target(session: Session, source: FeatureSource, name: str, directory: Path) -> dict[str, Any]:
    """Write `target.npy` [count]: int64 (NULL: -1), float32 (NULL: NaN), or codes of the sorted distinct strings."""
    column = _column(source, name)
    quoted = quote(column.name)
    classes: list[str] | None = None
    if column.type in ("FLOAT", "DOUBLE") or column.type.startswith("DECIMAL"):
        expression, out = f"CAST({quoted} AS FLOAT)", np.full(source.count, np.nan, np.float32)
    elif column.type in _NUMBERS:
        expression, out = f"coalesce(CAST({quoted} AS BIGINT), -1)", np.full(source.count, -1, np.int64)
    else:
        text = f"CAST({quoted} AS VARCHAR)"
        query = f"SELECT DISTINCT {text} FROM ({source.rows}) WHERE {quoted} IS NOT NULL ORDER BY 1"
        classes = [row[0] for row in session.rows(query)]
        out = np.full(source.count, -1, np.int64)
        expression = text
    for batch in session.reader(f"SELECT {_ID}, {expression} AS y FROM ({source.rows})", rows=_BATCH):
        ids, values = batch.column(0).to_numpy(), batch.column(1)
        if classes is not None:
            values = pc.fill_null(pc.index_in(values, pa.array(classes, values.type)), -1)
        out[ids] = values.to_numpy(zero_copy_only=False)
    np.save(directory / "target.npy", out)
    return {"target": {"column": column.name, "classes": classes}}


def _column(source: FeatureSource, name: str) -> Column:
    return next(c for c in source.columns if c.name.lower() == name.lower())


def _is_list(column: Column) -> bool:
    return "[" in column.type


def _check_present(session: Session, source: FeatureSource, column: Column, spec: FeatureSpec) -> None:
    if spec.default is not None:
        return
    name = quote(column.name)
    if _is_list(column):
        as_list = f"CAST({name} AS DOUBLE[])"
        bad = f"{name} IS NULL OR len(list_filter({as_list}, lambda v: v IS NULL OR isnan(v))) > 0"
    else:
        bad = f"{name} IS NULL OR isnan(CAST({name} AS DOUBLE))"
    if found := _count(session, source, bad):
        count, shown = found
        raise DataError(
            f'{count} rows of {source.element} have NULL or NaN in feature column "{column.name}" (ids {shown}); '
            f"fix them, or say FEATURES ({column.name} DEFAULT 0)"
        )


def _check_even(session: Session, source: FeatureSource, column: Column) -> None:
    name = quote(column.name)
    found = f"SELECT len({name}), count(*) FROM ({source.rows}) WHERE {name} IS NOT NULL"
    lengths = session.rows(f"{found} GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT 4")
    if len(lengths) > 1:
        found = ", ".join(f"{length} in {count} rows" for length, count in lengths[:3])
        raise DataError(f'feature column "{column.name}" of {source.element} is ragged: lengths {found}; '
                        f"a feature needs one length")  # fmt: skip


def _count(session: Session, source: FeatureSource, condition: str) -> tuple[int, str] | None:
    (count,) = session.rows(f"SELECT count(*) FROM ({source.rows}) WHERE {condition}")[0]
    if not count:
        return None
    key = ", ".join(f"CAST({quote(name)} AS VARCHAR)" for name in source.key)
    rows = session.rows(f"SELECT {key} FROM ({source.rows}) WHERE {condition} ORDER BY {_ID} LIMIT 3")
    return count, ", ".join(str(row[0]) if len(row) == 1 else f"({', '.join(map(str, row))})" for row in rows)


def _width(session: Session, source: FeatureSource, column: Column) -> int:
    if not _is_list(column):
        return 1
    if fixed := re.search(r"\[(\d+)\]$", column.type):
        return int(fixed[1])
    (longest,) = session.rows(f"SELECT coalesce(max(len({quote(column.name)})), 0) FROM ({source.rows})")[0]
    return int(longest)


def _fill(
    session: Session, source: FeatureSource, column: Column, default: float | None, out: npt.NDArray[Any]
) -> None:
    """Write a column's rows into `out` [count, width], in batches."""
    name, width = quote(column.name), out.shape[1]
    value = f"CAST({name} AS FLOAT[])" if _is_list(column) else f"CAST({name} AS FLOAT)"
    query = f"SELECT {_ID}, {value} AS value FROM ({source.rows}) WHERE {name} IS NOT NULL"
    for batch in session.reader(query, rows=_BATCH):
        if batch.num_rows == 0 or width == 0:
            continue
        values = batch.column(1)
        flat = values.flatten() if _is_list(column) else values
        numbers = flat.to_numpy(zero_copy_only=False).reshape(-1, width)
        if default is not None:
            numbers = np.where(np.isnan(numbers), np.float32(default), numbers)
        out[batch.column(0).to_numpy()] = numbers

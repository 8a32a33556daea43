"""What a seed query says of its seeds beside their ids: times in the unit of event times, targets, and what else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from snapdb.catalog.elements import time_expression
from snapdb.errors import DataError
from snapdb.execute.operator import Engine
from snapdb.plan.fits import key_family
from snapdb.plan.samples import SamplePlan
from snapdb.relational import Names
from snapdb.storage.arrays import STATIC
from snapdb.types import Column

Int64s = npt.NDArray[np.int64]


def seed_times(engine: Engine, plan: SamplePlan, table: pa.Table, column: Column) -> Int64s:
    """[rows] the times of seeds: microseconds since 1970 UTC, or the user's integers.

    Raises:
        DataError: some are NULL or infinite (they are counted, three seeds are shown), or beyond 64 bits.
    """
    assert plan.columns.time is not None
    values = table.column(plan.columns.time)
    if pa.types.is_integer(values.type) or column.type in ("HUGEINT", "UHUGEINT"):
        try:
            times = values.cast(pa.int64())
        except pa.ArrowInvalid as error:
            raise DataError(
                f'SEEDS gives a "{column.name}" that is beyond 64 bits; event times are not', code="seed-time"
            ) from error
    else:
        given = pa.table({"at": values})
        with engine.relational.session(Names(sources={"seeds": given})) as session:
            times = session.table(f"SELECT {time_expression(Column('at', column.type))} FROM seeds").column(0)
    if times.null_count:
        rows = np.flatnonzero(times.is_null().to_numpy())
        shown = shown_keys(plan, table, rows)
        raise DataError(
            f"{rows.size} of {len(times)} seeds have no time: {column.name} is NULL or infinite ({shown}); "
            "give each one, or leave them out",
            code="seed-time",
        )
    found: Int64s = times.to_numpy()
    if (static := np.flatnonzero(found == STATIC)).size:
        shown = shown_keys(plan, table, static)
        raise DataError(
            f'SEEDS gives a "{column.name}" of -2^63, which stands for "always" ({shown}); give a later one',
            code="seed-time",
        )
    return found


def edge_ids(values: pa.ChunkedArray) -> Int64s:
    """[rows] the ids of seed edges; -1, which no edge has, for NULL and what is beyond 64 bits."""
    try:
        whole = values.cast(pa.int64())
    except pa.ArrowInvalid:
        whole = pa.array([v if v is not None and 0 <= v < 2**63 else None for v in values.to_pylist()], pa.int64())
    found: Int64s = whole.fill_null(-1).to_numpy()
    return found


def seed_targets(values: pa.ChunkedArray, type_: str) -> npt.NDArray[Any]:
    """[rows], or [rows, n] of arrays: the column `y` of a DuckDB type, as int64 (NULL: -1) or float32 (NULL: NaN).

    Raises:
        DataError: a value is beyond 64 bits or float32.
    """
    if _dtype(type_) in (np.bool_, np.int64):
        return _each_place(values, lambda part: _whole(part, "y").fill_null(-1).to_numpy())
    return _each_place(values, _single)


def seed_column(plan: SamplePlan, table: pa.Table, place: int, column: Column) -> npt.NDArray[Any]:
    """[rows], or [rows, n] of arrays: a further column, as bool, int64, float32 (of FLOAT) or float64.

    Raises:
        DataError: some are NULL (they are counted, three seeds are shown), or beyond 64 bits.
    """
    values, dtype = table.column(place), _dtype(column.type)
    missing = _each_place(values, lambda part: part.is_null().to_numpy())
    if missing.any():
        rows = np.flatnonzero(missing.reshape(len(missing), -1).any(axis=1))
        raise DataError(
            f'{rows.size} of {len(missing)} seeds have NULL as "{column.name}" '
            f"({shown_keys(plan, table, rows)}); say coalesce({column.name}, …), or leave them out",
            code="seed-null",
        )
    if dtype is np.int64:
        return _each_place(values, lambda part: _whole(part, column.name).to_numpy())
    return _each_place(values, lambda part: part.cast(pa.from_numpy_dtype(dtype)).to_numpy())


def _dtype(type_: str) -> type[np.generic]:
    """What the numbers of a DuckDB type, or those of its arrays, are held in."""
    base = type_.partition("[")[0]
    if key_family(base) == "integer":
        return np.int64
    return {"BOOLEAN": np.bool_, "FLOAT": np.float32}.get(base, np.float64)


def _each_place(values: pa.ChunkedArray, read: Callable[[pa.ChunkedArray], npt.NDArray[Any]]) -> npt.NDArray[Any]:
    """What `read` makes of the column; of a column of arrays, of each place in them, side by side."""
    if not pa.types.is_fixed_size_list(values.type):
        return read(values)
    return np.stack([read(pc.list_element(values, i)) for i in range(values.type.list_size)], axis=1)


def _whole(values: pa.ChunkedArray, name: str) -> pa.ChunkedArray:
    """Whole numbers or booleans as int64."""
    try:
        return values.cast(pa.int64())
    except pa.ArrowInvalid as error:
        raise DataError(
            f'SEEDS gives a "{name}" that is beyond 64 bits; scale it, or cast it to FLOAT', code="seed-range"
        ) from error


def _single(values: pa.ChunkedArray) -> npt.NDArray[np.float32]:
    """Real numbers as float32."""
    real = values.cast(pa.float64()).to_numpy()
    if (np.abs(real[np.isfinite(real)]) > np.finfo(np.float32).max).any():
        raise DataError('SEEDS gives a "y" that is beyond float32; scale it', code="seed-range")
    found: npt.NDArray[np.float32] = real.astype(np.float32)
    return found


def shown_keys(plan: SamplePlan, table: pa.Table, rows: Int64s) -> str:
    """The keys of the first three of some rows, for a message."""
    first = table.select(list(plan.columns.key)).take(pa.array(rows[:3])).to_pylist()
    keys = [["NULL" if key is None else str(key) for key in row.values()] for row in first]
    return ", ".join(key[0] if len(key) == 1 else f"({', '.join(key)})" for key in keys)

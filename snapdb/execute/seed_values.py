"""What a seed query says of its seeds beside their ids: times in the unit of event times, and targets."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from snapdb.catalog.elements import time_expression
from snapdb.errors import BindError, DataError
from snapdb.execute.operator import Engine
from snapdb.plan.logical import SamplePlan
from snapdb.relational import Names
from snapdb.storage.arrays import STATIC
from snapdb.types import Column

__all__ = ["edge_ids", "seed_targets", "seed_times", "shown_keys"]

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
        raise DataError(f"{rows.size} of {len(times)} seeds have no time: {column.name} is NULL or infinite ({shown}); "
                        "give each one, or leave them out", code="seed-time")  # fmt: skip
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


def seed_targets(values: pa.ChunkedArray, type_: str) -> npt.NDArray[np.generic]:
    """[rows] the column `y` of a DuckDB type: int64 (NULL: -1) or float32 (NULL: NaN).

    Raises:
        BindError: it is no number.
        DataError: a value is beyond 64 bits or float32.
    """
    if pa.types.is_integer(values.type) or pa.types.is_boolean(values.type) or type_ in ("HUGEINT", "UHUGEINT"):
        try:
            whole: Int64s = values.cast(pa.int64()).fill_null(-1).to_numpy()
        except pa.ArrowInvalid as error:
            raise DataError(
                'SEEDS gives a "y" that is beyond 64 bits; scale it, or cast it to FLOAT', code="seed-range"
            ) from error
        return whole
    if pa.types.is_floating(values.type) or pa.types.is_decimal(values.type):
        real = values.cast(pa.float64()).to_numpy()
        if (np.abs(real[np.isfinite(real)]) > np.finfo(np.float32).max).any():
            raise DataError('SEEDS gives a "y" that is beyond float32; scale it', code="seed-range")
        single: npt.NDArray[np.float32] = real.astype(np.float32)
        return single
    raise BindError(f'SEEDS gives "y" of type {type_}; it must be a number (for classes by name say TARGET in the '
                    "graph, so that every seed set has the same codes)", code="seed-type")  # fmt: skip


def shown_keys(plan: SamplePlan, table: pa.Table, rows: Int64s) -> str:
    """The keys of the first three of some rows, for a message."""
    first = table.select(list(plan.columns.key)).take(pa.array(rows[:3])).to_pylist()
    keys = [["NULL" if key is None else str(key) for key in row.values()] for row in first]
    return ", ".join(key[0] if len(key) == 1 else f"({', '.join(key)})" for key in keys)

"""Results as Excel workbooks, by openpyxl."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from io import BytesIO
from typing import Any

import pyarrow as pa

from snapdb.errors import InputError
from snapdb.execute.rendering import JSON, PLAIN, Spelling, spell
from snapdb.on_first_use import module_on_first_use

openpyxl = module_on_first_use("openpyxl")
cells = module_on_first_use("openpyxl.cell")

ROWS = 1_048_576
"""The number of rows of a sheet, with the row of column names."""
_EXACT = 2**53
"""The integers that Excel's numbers represent exactly end here. Others are written as text."""
_TEXTS = Spelling(str, "", " ", PLAIN.not_finite, nested=JSON)
_UNPRINTABLE = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f]")
_EPOCH = datetime(1900, 3, 1)  # Excel has no zones; before this day, its calendar is wrong
_NATIVE = (
    *(pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean, pa.types.is_decimal, pa.types.is_date),
    *(pa.types.is_timestamp, pa.types.is_time, pa.types.is_duration),
)
"""The types that cells have. Values of other types are written as text."""


def workbook(schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> Iterator[bytes]:
    """Yield an Excel workbook with one sheet: the column names, then the rows.

    Text is never a formula. Times with a zone are in UTC.

    Raises:
        InputError: openpyxl is not installed, or there are more rows than a sheet has.
    """
    try:
        book = openpyxl.Workbook(write_only=True)
    except ModuleNotFoundError:
        raise InputError(
            "an Excel file needs openpyxl, which is not installed: pip install 'snapdb[excel]'", code="package-missing"
        ) from None
    sheet = book.create_sheet("rows")
    try:
        for row in _rows(sheet, schema, batches):
            sheet.append(row)
    finally:
        sheet.close()  # it writes through a generator, which must end
    file = BytesIO()
    book.save(file)
    yield file.getvalue()


def _rows(sheet: Any, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> Iterator[list[Any]]:
    yield [_cell(sheet, name) for name in schema.names]
    written = 1
    for batch in batches:
        if (written := written + batch.num_rows) > ROWS:
            raise InputError(
                f"an Excel sheet has at most {ROWS - 1:,} rows below the column names; write CSV or Parquet, or add "
                "LIMIT",
                code="output-format",
            )
        for row in zip(*map(_values, batch.columns), strict=True):
            yield [_cell(sheet, value) for value in row]


def _values(column: pa.Array) -> list[Any]:
    if any(fits(column.type) for fits in _NATIVE):
        return list(map(_native, column.to_pylist()))
    return list(spell(column, _TEXTS))


def _native(value: Any) -> Any:
    """Return a value that a cell can have, or its text."""
    match value:
        case datetime():
            # Excel has no zones.
            plain = value if value.tzinfo is None else (value - value.utcoffset()).replace(tzinfo=None)  # type: ignore[operator]
            return plain if plain >= _EPOCH else str(value)
        case date():
            return value if value >= _EPOCH.date() else str(value)
        case bool() | time() | timedelta() | None:
            return value
        case int():
            return value if -_EXACT <= value <= _EXACT else str(value)
        case Decimal():
            return value if len(value.as_tuple().digits) <= 15 else str(value)  # Excel's digits
        case float():
            return value if math.isfinite(value) else str(value)
    return str(value)


def _cell(sheet: Any, value: Any) -> Any:
    if not isinstance(value, str):
        return value
    cell = cells.WriteOnlyCell(sheet, _UNPRINTABLE.sub("\ufffd", value))
    cell.data_type = "s"  # otherwise a text that begins with = is a formula
    return cell

"""Lossless values: Arrow extension types for types that plain Arrow lacks, and their conversion to Arrow or Python.

By default, DuckDB's Arrow results convert HUGEINT to DECIMAL(38, 0), drop the zone of a time of day, and so on.
`SqlSession.exact_reader` returns such columns as DuckDB's own extension types, with DuckDB's type in their metadata.
DuckDB itself converts them for users, so tables and Python values are the same as those of its Python client.
"""

import atexit
import importlib.util
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import cache
from typing import Any
from zoneinfo import ZoneInfo

import duckdb
import pyarrow as pa
from duckdb.sqltypes import DuckDBPyType

from snapdb.errors import InputError, QueryError
from snapdb.sql_engine.sources import quote

EXACT = "arrow_lossless_conversion"
"""The DuckDB setting that enables extension types for types that Arrow lacks."""

_TYPE = b"snapdb.type"
"""The metadata key for a column's DuckDB type."""
_ZONED = "timestamp with time zone"
_UTC = ZoneInfo("UTC")


def marked(schema: pa.Schema, types: Sequence[object]) -> pa.Schema:
    """Return the schema of exact values, with the DuckDB type in the metadata of each column that is not plain Arrow.

    Args:
        schema: The schema of the batches.
        types: The DuckDB types of the columns. A TUPLE, whose fields have no names, is a struct in Arrow.
    """
    fields = []
    for field, kind in zip(schema, map(str, types), strict=True):
        noted = _is_extended(field.type) or "TUPLE(" in kind
        fields.append(field.with_metadata({**(field.metadata or {}), _TYPE: kind}) if noted else field)
    return pa.schema(fields)


def empty(schema: pa.Schema) -> pa.RecordBatch:
    """Return a batch without rows. pyarrow's own functions do not support unions or extension types in lists."""
    return pa.RecordBatch.from_arrays([pa.nulls(0, field.type) for field in schema], schema=schema)


def plain_schema(schema: pa.Schema) -> pa.Schema:
    """Return the schema of `plain` batches."""
    return plain(empty(schema)).schema


def plain(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return the batch with types that every Arrow reader supports, or the same batch if it already has such types.

    Raises:
        QueryError: A UHUGEINT exceeds the range of Arrow's integers, which ends at 2^127.
    """
    columns, fields = list(batch.columns), list(batch.schema)
    for i, field in enumerate(fields):
        if (column := _simply_plain(columns[i])) is not None:
            columns[i], fields[i] = column, pa.field(field.name, column.type)
    exact = [i for i, field in enumerate(fields) if _TYPE in (field.metadata or {})]
    if not exact:
        return batch if fields == list(batch.schema) else pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields))
    casts = {i: _changed(_noted(batch.schema.field(i)), {"uhugeint": "HUGEINT"}) for i in exact}
    try:
        table = _cast(pa.Table.from_batches([batch]).select(exact), [casts[i] for i in exact]).to_arrow_table()
    except duckdb.ConversionException as error:
        raise QueryError(
            "a UHUGEINT of this result exceeds 2^127, which Arrow cannot represent; cast it to VARCHAR, or read the "
            "result with fetchall()",
            code="not-in-arrow",
        ) from error
    for i, field, column in zip(exact, table.schema, table.columns, strict=True):
        columns[i] = pa.concat_arrays(column.chunks) if column.num_chunks else pa.nulls(0, column.type)
        fields[i] = field.with_name(batch.schema.field(i).name)
    return pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields))


def python_rows(table: pa.Table) -> list[tuple[Any, ...]]:
    """Return the rows as DuckDB's Python client does, with the same Python type for each SQL type.

    Times with a zone are in UTC, even if the package that provides DuckDB's zones is missing.

    Raises:
        QueryError: DuckDB's client has no Python value for a column, such as a map whose keys are BIGNUM.
        InputError: The package is missing, and a UNION or VARIANT has times with a zone.
    """
    # The rows are built by position, because two columns may have the same name.
    if all(_is_alike(field) for field in table.schema):
        return list(zip(*map(_alike_values, table.columns), strict=True))
    relation = _cast(table, _noted_types(table.schema))
    zones: list[_Change | None] = [None] * table.num_columns
    if importlib.util.find_spec("pytz") is None:
        kinds = list(relation.types)
        zones = [_zoning(kind) for kind in kinds]
        if any(zones):
            relation = _cast(table, [_changed(kind, {_ZONED: "TIMESTAMP"}) for kind in kinds])
    try:
        rows: list[tuple[Any, ...]] = relation.fetchall()
    except duckdb.Error as error:
        if "pytz" not in str(error):
            reason = str(error).splitlines()[0]
            raise QueryError(
                f"Python cannot represent a column of this result ({reason}); cast it to VARCHAR", code="not-in-python"
            ) from error
        raise InputError(
            "timestamps with time zone in a UNION or VARIANT need pytz, which is not installed: pip install pytz",
            code="package-missing",
        ) from error
    if not any(zones):
        return rows
    return [tuple(v if zone is None else zone(v) for v, zone in zip(row, zones, strict=True)) for row in rows]


def numpy_columns(table: pa.Table) -> dict[str, Any]:
    """Return the columns as numpy arrays, as DuckDB's Python client does: masked arrays if there are NULLs.

    Raises:
        QueryError: numpy has no type for a column.
    """
    try:
        arrays = _cast(table, _noted_types(table.schema)).fetchnumpy()
    except duckdb.Error as error:
        reason = str(error).splitlines()[0]
        raise QueryError(
            f"numpy cannot represent a column of this result ({reason}); cast it to VARCHAR", code="not-in-python"
        ) from error
    return {name: arrays[f"c{i}"] for i, name in enumerate(table.column_names)}


def sql_types(schema: pa.Schema) -> list[str]:
    """Return the names of the columns' SQL types, such as `BIGINT`."""
    table = pa.Table.from_batches([empty(schema)])
    return [str(kind).upper() for kind in _cast(table, _noted_types(schema)).types]


def _noted_types(schema: pa.Schema) -> list[str | None]:
    """Return the DuckDB type of each column that is not plain Arrow, and None for the others."""
    return [str(_noted(field)) if _TYPE in (field.metadata or {}) else None for field in schema]


def _is_extended(kind: pa.DataType) -> bool:
    """Return whether the type is or contains an extension type."""
    if isinstance(kind, pa.BaseExtensionType):
        return True
    if pa.types.is_dictionary(kind):
        return False
    return any(_is_extended(kind.field(i).type) for i in range(kind.num_fields))


_ALIKE: tuple[Callable[[pa.DataType], bool], ...] = (
    *(pa.types.is_integer, pa.types.is_float32, pa.types.is_float64, pa.types.is_boolean, pa.types.is_null),
    *(pa.types.is_string, pa.types.is_large_string, pa.types.is_binary, pa.types.is_large_binary),
)
"""The types that Arrow converts to the same Python values as DuckDB."""


def _is_alike(field: pa.Field) -> bool:
    return str(field.type) in _SIMPLE or any(fits(field.type) for fits in _ALIKE)


_HUGEINT = "extension<arrow.opaque[storage_type=fixed_size_binary[16], type_name=hugeint, vendor_name=DuckDB]>"
_SIMPLE = ("extension<arrow.bool8>", _HUGEINT)
"""The types of comparisons and sums, which are common in small results. They are converted here, without a query."""


def _alike_values(column: pa.ChunkedArray) -> list[Any]:
    values: list[Any] = column.to_pylist()
    if str(column.type) != _HUGEINT:
        return values
    return [None if value is None else int.from_bytes(value, "little", signed=True) for value in values]


def _simply_plain(column: pa.Array) -> pa.Array | None:
    """Return a column of one of the `_SIMPLE` types in plain Arrow, or None for other types."""
    if str(column.type) not in _SIMPLE:
        return None
    if str(column.type) != _HUGEINT:
        return column.storage.cast(pa.bool_())
    return pa.Array.from_buffers(pa.decimal128(38, 0), len(column), column.buffers(), offset=column.offset)


def _noted(field: pa.Field) -> Any:
    return DuckDBPyType(field.metadata[_TYPE].decode())


@cache
def _engine(process: int) -> Any:
    """Return a single-threaded DuckDB for conversions. Each process has its own, because it does not survive a fork."""
    engine = duckdb.connect(":memory:", config={"threads": "1", "python_enable_replacements": "false"})
    engine.execute("SET GLOBAL TimeZone = 'UTC'")
    atexit.register(_engine.cache_clear)  # otherwise DuckDB reports it on stderr as leaked at exit
    return engine


def _cast(table: pa.Table, types: Sequence[str | None]) -> Any:
    """Return DuckDB's relation for a table. Casts each column for which `types` contains a type."""
    names = [f"c{i}" for i in range(table.num_columns)]
    columns = []
    for column in table.columns:
        kind = _decoded(column.type)
        columns.append(column if kind == column.type else column.cast(kind))
    schema = pa.schema([f.with_name(n).with_type(c.type) for f, n, c in zip(table.schema, names, columns, strict=True)])
    relation = _engine(os.getpid()).cursor().from_arrow(pa.Table.from_arrays(columns, schema=schema))
    if not any(types):
        return relation
    casts = zip(names, types, strict=True)
    return relation.project(", ".join(n if t is None else f"CAST({n} AS {t}) AS {n}" for n, t in casts))


def _decoded(kind: pa.DataType, within: bool = False) -> pa.DataType:
    """Replace dictionaries inside fixed-size lists with their value types, because DuckDB would read the codes."""
    if pa.types.is_dictionary(kind):
        return kind.value_type if within else kind
    if pa.types.is_fixed_size_list(kind):
        return pa.list_(kind.value_field.with_type(_decoded(kind.value_type, True)), kind.list_size)
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_decoded(kind.value_type, within)))
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_decoded(field.type, within)) for field in kind])
    return kind


def _changed(kind: Any, changes: Mapping[str, str]) -> str:
    """Return the SQL of a type, with nested types replaced."""
    match kind.id:
        case "list":
            return f"{_changed(kind.child, changes)}[]"
        case "array":
            (_, child), (_, size) = kind.children
            return f"{_changed(child, changes)}[{size}]"
        case "struct":
            return f"STRUCT({', '.join(f'{quote(n)} {_changed(k, changes)}' for n, k in kind.children)})"
        case "tuple":
            return f"TUPLE({', '.join(_changed(k, changes) for _, k in kind.children)})"
        case "map":
            return f"MAP({', '.join(_changed(k, changes) for _, k in kind.children)})"
    return changes.get(kind.id, str(kind))


_Change = Callable[[Any], Any]


def _zoning(kind: Any) -> _Change | None:
    """Return the function that adds the zone to times in values of a type, or None if there are no such times."""
    if kind.id == _ZONED:
        return _in_utc
    if kind.id in {"list", "array"}:
        inner = _zoning(kind.children[0][1])
        make: Any = list if kind.id == "list" else tuple
        return inner and (lambda value: None if value is None else make(map(inner, value)))
    if kind.id in {"struct", "tuple"}:
        return _zoning_fields([_zoning(k) for _, k in kind.children])
    return _zoning_map(*(_zoning(k) for _, k in kind.children)) if kind.id == "map" else None


def _zoning_fields(inner: Sequence[_Change | None]) -> _Change | None:
    if not any(inner):
        return None

    def fields(values: Any) -> Iterator[Any]:
        return (value if zone is None else zone(value) for value, zone in zip(values, inner, strict=True))

    def change(value: Any) -> Any:
        if isinstance(value, dict):
            return dict(zip(value, fields(value.values()), strict=True))
        return None if value is None else tuple(fields(value))

    return change


def _zoning_map(key: _Change | None, item: _Change | None) -> _Change | None:
    """Return the same function for a map.

    If a map's keys cannot be hashed, it is a list of keys and a list of values.
    """
    if key is None and item is None:
        return None
    keys, items = key or _same, item or _same

    def change(value: Any) -> Any:
        if value is None:
            return None
        if list(value) == ["key", "value"] and isinstance(value["key"], list):
            return {"key": list(map(keys, value["key"])), "value": list(map(items, value["value"]))}
        return {keys(k): items(v) for k, v in value.items()}

    return change


def _same(value: Any) -> Any:
    return value


def _in_utc(value: Any) -> Any:
    """Return a time in UTC. Infinities have no zone, and dates beyond Python's range are text, as in DuckDB."""
    if isinstance(value, str):
        return f"{value}+00"
    if value is None or value in {datetime.max, datetime.min}:
        return value
    return value.replace(tzinfo=_UTC)

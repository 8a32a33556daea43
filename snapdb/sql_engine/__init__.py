"""The SQL engine: DuckDB, which only this package imports; queries over Parquet segments, types, errors with a span."""

from snapdb.sql_engine.engine import Session, SqlEngine
from snapdb.sql_engine.files import absolute_paths, file_literal, files_literal, is_hidden
from snapdb.sql_engine.inspection import Conjunct, OrderKey, conjuncts, files_behind, order_keys
from snapdb.sql_engine.sources import Names, no_rows, quote, quote_all, quote_odd, text_literal, together
from snapdb.sql_engine.tables import (
    ROW_ID,
    check_storable,
    default_value,
    deleted_rows,
    is_plain,
    key_bounds,
    key_rows,
    parquet_files,
    parquet_form,
    table_rows,
)

__all__ = [
    "ROW_ID",
    "Conjunct",
    "Names",
    "OrderKey",
    "Session",
    "SqlEngine",
    "absolute_paths",
    "check_storable",
    "conjuncts",
    "default_value",
    "deleted_rows",
    "file_literal",
    "files_behind",
    "files_literal",
    "is_hidden",
    "is_plain",
    "key_bounds",
    "key_rows",
    "no_rows",
    "order_keys",
    "parquet_files",
    "parquet_form",
    "quote",
    "quote_all",
    "quote_odd",
    "table_rows",
    "text_literal",
    "together",
]

"""The SQL engine: DuckDB, which only this package imports. Runs queries over Parquet, and maps types and errors."""

from snapdb.sql_engine.attached import files_in
from snapdb.sql_engine.engine import Conjunct, Parameters, SqlEngine, SqlSession
from snapdb.sql_engine.sources import (
    Names,
    absolute_paths,
    file_literal,
    files_literal,
    is_hidden,
    no_rows,
    quote,
    quote_all,
    quote_odd,
    text_literal,
    together,
)
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
    "Parameters",
    "SqlEngine",
    "SqlSession",
    "absolute_paths",
    "check_storable",
    "default_value",
    "deleted_rows",
    "file_literal",
    "files_in",
    "files_literal",
    "is_hidden",
    "is_plain",
    "key_bounds",
    "key_rows",
    "no_rows",
    "parquet_files",
    "parquet_form",
    "quote",
    "quote_all",
    "quote_odd",
    "table_rows",
    "text_literal",
    "together",
]

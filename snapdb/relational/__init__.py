"""DuckDB's seat, and the only room that imports it: queries over Parquet segments, types, errors with their place."""

from snapdb.relational.engine import Relational, Session
from snapdb.relational.files import absolute_paths, file_literal, files_literal, is_hidden
from snapdb.relational.inspection import Conjunct, OrderKey, conjuncts, files_behind, order_keys
from snapdb.relational.quote import quote, quote_all, quote_odd, text_literal
from snapdb.relational.sources import Names, no_rows, together
from snapdb.relational.tables import (
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
    "Relational",
    "Session",
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

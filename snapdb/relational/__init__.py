"""DuckDB's seat, and the only room that imports it: queries over Parquet segments, types, errors with their place."""

from snapdb.relational.columns import check_storable, default_value, is_plain, parquet_form
from snapdb.relational.expressions import Conjunct, OrderKey, conjuncts, order_keys
from snapdb.relational.files import file_literal, files_behind, files_literal, is_hidden
from snapdb.relational.folders import absolute_paths
from snapdb.relational.names import Names, no_rows, together
from snapdb.relational.quote import quote, quote_all, quote_odd, text_literal
from snapdb.relational.seat import Relational, Session
from snapdb.relational.tables import ROW_ID, deleted_rows, key_bounds, key_rows, parquet_files, table_rows

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

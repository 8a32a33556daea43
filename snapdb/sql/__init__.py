"""The SQL language: parses text into immutable statements with source spans, without depending on an SQL engine."""

from snapdb.sql.lexer import is_complete, split
from snapdb.sql.parser import format_sql, parse, parse_each, parse_one

__all__ = ["format_sql", "is_complete", "parse", "parse_each", "parse_one", "split"]

"""The language: text → frozen statements with spans. It knows no engine and imports none."""

from snapdb.sql.lexer import is_complete, split
from snapdb.sql.parser import parse, parse_each, parse_one
from snapdb.sql.print import format_sql, to_sql

__all__ = ["format_sql", "is_complete", "parse", "parse_each", "parse_one", "split", "to_sql"]

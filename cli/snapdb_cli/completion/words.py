"""The words that completion offers, and groups of candidates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

from snapdb.sql.lexer import READS

RELATION = frozenset({"FROM", "JOIN", "INTO", "TABLE", "DESCRIBE", "SUMMARIZE", "PIVOT", "UNPIVOT"})
"""A table follows these."""
CLAUSES = RELATION | {
    "SELECT",
    "WHERE",
    "ON",
    "USING",
    "BY",
    "HAVING",
    "QUALIFY",
    "LIMIT",
    "OFFSET",
    "VALUES",
    "WITH",
    "SET",
    "OVER",
}
AFTER_TABLE = (
    "AS",
    "ASOF JOIN",
    "AT (VERSION =>",
    "AT (TAG =>",
    "AT (TIMESTAMP =>",
    "CROSS JOIN",
    "EXCEPT",
    "FULL JOIN",
    "GROUP BY",
    "HAVING",
    "INNER JOIN",
    "INTERSECT",
    "JOIN",
    "LEFT JOIN",
    "LIMIT",
    "OFFSET",
    "ON",
    "ORDER BY",
    "QUALIFY",
    "RIGHT JOIN",
    "SEMI JOIN",
    "UNION ALL",
    "USING",
    "USING SAMPLE",
    "WHERE",
    "WINDOW",
)
AFTER_VALUE = (
    "AND",
    "AS",
    "ASC",
    "BETWEEN",
    "DESC",
    "ELSE",
    "END",
    "EXCEPT",
    "EXCLUDE",
    "FILTER",
    "FROM",
    "GROUP BY",
    "HAVING",
    "ILIKE",
    "IN",
    "INTERSECT",
    "IS NOT NULL",
    "IS NULL",
    "JOIN",
    "LEFT JOIN",
    "LIKE",
    "LIMIT",
    "NOT IN",
    "NOT LIKE",
    "NULLS FIRST",
    "NULLS LAST",
    "OFFSET",
    "ON",
    "OR",
    "ORDER BY",
    "OVER",
    "PARTITION BY",
    "QUALIFY",
    "REPLACE",
    "THEN",
    "UNION ALL",
    "USING",
    "WHEN",
    "WHERE",
    "WINDOW",
)
IN_VALUE = (
    "ALL",
    "ANY",
    "CASE",
    "CAST",
    "DATE",
    "DISTINCT",
    "EXISTS",
    "FALSE",
    "INTERVAL",
    "NOT",
    "NULL",
    "SELECT",
    "TIMESTAMP",
    "TRUE",
    "TRY_CAST",
    "WHEN",
    "ORDER BY",
    "PARTITION BY",
    "COLUMNS",
)
SQL_TYPES = (
    "BIGINT",
    "BLOB",
    "BOOLEAN",
    "DECIMAL",
    "DOUBLE",
    "FLOAT",
    "HUGEINT",
    "INTEGER",
    "SMALLINT",
    "TIME",
    "TIMESTAMPTZ",
    "TINYINT",
    "UBIGINT",
    "UINTEGER",
    "UUID",
    "VARCHAR",
)
SQL_WORDS = frozenset(
    word
    for phrase in (*AFTER_TABLE, *AFTER_VALUE, *IN_VALUE, *SQL_TYPES, *CLAUSES, *READS)
    for word in phrase.split()
    if word.isalpha()
)
"""The words of DuckDB's SQL that are offered."""


# Groups of candidates, before the typed letters select among them


class Group(NamedTuple):
    """Candidates of one kind."""

    kind: str
    """What a person sees beside them."""
    texts: Sequence[str]
    form: Literal["name", "word", "text"]
    """A name is quoted where it must be, a word takes the case that is being typed, a text stays as it is."""
    eager: bool = True
    """Whether they are offered before a letter is typed."""


def names(kind: str, texts: Sequence[str]) -> Group:
    """Names, offered at once."""
    return Group(kind, texts, "name")


def words(texts: Sequence[str], *, eager: bool = True) -> Group:
    """Keywords."""
    return Group("", texts, "word", eager)


def functions(texts: Sequence[str]) -> Group:
    """Functions, with the bracket that follows them."""
    return Group("function", [f"{text}(" for text in texts], "word", eager=False)

"""The words of DuckDB's SQL, by where they stand."""

from __future__ import annotations

from snapdb.sql.islands import READS

__all__ = ["AFTER_TABLE", "AFTER_VALUE", "CLAUSES", "IN_VALUE", "RELATION", "SQL_TYPES", "SQL_WORDS"]

RELATION = frozenset({"FROM", "JOIN", "INTO", "TABLE", "DESCRIBE", "SUMMARIZE", "PIVOT", "UNPIVOT"})
"""A table follows these."""
CLAUSES = RELATION | {
    "SELECT", "WHERE", "ON", "USING", "BY", "HAVING", "QUALIFY", "LIMIT", "OFFSET", "VALUES", "WITH", "SET", "OVER",
}  # fmt: skip
AFTER_TABLE = (
    "AS", "ASOF JOIN", "AT (VERSION =>", "AT (TAG =>", "AT (TIMESTAMP =>", "CROSS JOIN", "EXCEPT", "FULL JOIN",
    "GROUP BY", "HAVING", "INNER JOIN", "INTERSECT", "JOIN", "LEFT JOIN", "LIMIT", "OFFSET", "ON", "ORDER BY",
    "QUALIFY", "RIGHT JOIN", "SEMI JOIN", "UNION ALL", "USING", "USING SAMPLE", "WHERE", "WINDOW",
)  # fmt: skip
AFTER_VALUE = (
    "AND", "AS", "ASC", "BETWEEN", "DESC", "ELSE", "END", "EXCEPT", "EXCLUDE", "FILTER", "FROM", "GROUP BY", "HAVING",
    "ILIKE", "IN", "INTERSECT", "IS NOT NULL", "IS NULL", "JOIN", "LEFT JOIN", "LIKE", "LIMIT", "NOT IN", "NOT LIKE",
    "NULLS FIRST", "NULLS LAST", "OFFSET", "ON", "OR", "ORDER BY", "OVER", "PARTITION BY", "QUALIFY", "REPLACE",
    "THEN", "UNION ALL", "USING", "WHEN", "WHERE", "WINDOW",
)  # fmt: skip
IN_VALUE = (
    "ALL", "ANY", "CASE", "CAST", "DATE", "DISTINCT", "EXISTS", "FALSE", "INTERVAL", "NOT", "NULL", "SELECT",
    "TIMESTAMP", "TRUE", "TRY_CAST", "WHEN", "ORDER BY", "PARTITION BY", "COLUMNS",
)  # fmt: skip
SQL_TYPES = (
    "BIGINT", "BLOB", "BOOLEAN", "DECIMAL", "DOUBLE", "FLOAT", "HUGEINT", "INTEGER", "SMALLINT", "TIME", "TIMESTAMPTZ",
    "TINYINT", "UBIGINT", "UINTEGER", "UUID", "VARCHAR",
)  # fmt: skip
SQL_WORDS = frozenset(
    word for phrase in (*AFTER_TABLE, *AFTER_VALUE, *IN_VALUE, *SQL_TYPES, *CLAUSES, *READS)
    for word in phrase.split() if word.isalpha()
)  # fmt: skip
"""The words of DuckDB's SQL that are offered."""

"""A dialect for SQLAlchemy Core: `create_engine("snapdb:///shop.snapdb")`, over `snapdb.dbapi`.

It reflects tables and columns, and covers SELECT, INSERT, UPDATE and DELETE. Options follow the path, as in
`snapdb:///shop.snapdb?read_only=true&threads=2`.
"""

from __future__ import annotations

import re
from types import ModuleType
from typing import Any

from sqlalchemy import Connection, types
from sqlalchemy.engine import URL, default
from sqlalchemy.exc import NoSuchTableError
from sqlalchemy.sql import compiler

from snapdb import dbapi
from snapdb.sql_engine import quote

_TYPES: dict[str, type[types.TypeEngine[Any]]] = {
    "TINYINT": types.SMALLINT,
    "SMALLINT": types.SMALLINT,
    "INTEGER": types.INTEGER,
    "BIGINT": types.BIGINT,
    "HUGEINT": types.NUMERIC,
    "UTINYINT": types.SMALLINT,
    "USMALLINT": types.INTEGER,
    "UINTEGER": types.BIGINT,
    "UBIGINT": types.NUMERIC,
    "UHUGEINT": types.NUMERIC,
    "FLOAT": types.REAL,
    "DOUBLE": types.DOUBLE,
    "BOOLEAN": types.BOOLEAN,
    "VARCHAR": types.VARCHAR,
    "BLOB": types.BLOB,
    "DATE": types.DATE,
    "TIME": types.TIME,
    "TIMESTAMP": types.TIMESTAMP,
    "TIMESTAMP_S": types.TIMESTAMP,
    "TIMESTAMP_MS": types.TIMESTAMP,
    "TIMESTAMP_NS": types.TIMESTAMP,
    "INTERVAL": types.Interval,
    "UUID": types.UUID,
}
"""The SQL type of a column → SQLAlchemy's type. Nested and other types have SQLAlchemy's NULLTYPE."""
_SINGLE = 24
"""The number of binary digits of a 32-bit float."""


def _reflected(kind: str) -> types.TypeEngine[Any]:
    """Return SQLAlchemy's type for an SQL type.

    >>> _reflected("DECIMAL(9,2)"), _reflected("FLOAT[2]")
    (NUMERIC(precision=9, scale=2), NullType())
    """
    if match := re.fullmatch(r"DECIMAL\((\d+),(\d+)\)", kind):
        return types.NUMERIC(int(match[1]), int(match[2]))
    if kind == "TIMESTAMP WITH TIME ZONE":
        return types.TIMESTAMP(timezone=True)
    return _TYPES.get(kind.partition("(")[0], types.NullType)()


class _TypeCompiler(compiler.GenericTypeCompiler):
    """Writes SQLAlchemy's types as DuckDB's."""

    def visit_FLOAT(self, type_: Any, **kw: Any) -> str:  # noqa: N802  # SQLAlchemy's names
        return "FLOAT" if type_.precision is not None and type_.precision <= _SINGLE else "DOUBLE"

    def visit_TEXT(self, type_: Any, **kw: Any) -> str:  # noqa: N802
        return "VARCHAR"

    def visit_DATETIME(self, type_: Any, **kw: Any) -> str:  # noqa: N802
        return "TIMESTAMPTZ" if type_.timezone else "TIMESTAMP"

    def visit_TIMESTAMP(self, type_: Any, **kw: Any) -> str:  # noqa: N802
        return "TIMESTAMPTZ" if type_.timezone else "TIMESTAMP"


class _DdlCompiler(compiler.DDLCompiler):
    """Writes no statements for indexes, which pandas and others request: snapshots are indexed automatically."""

    def visit_create_index(
        self, create: Any, include_schema: bool = False, include_table_schema: bool = True, **kw: Any
    ) -> str:
        return ""

    def visit_drop_index(self, drop: Any, **kw: Any) -> str:
        return ""


class SnapdbDialect(default.DefaultDialect):
    """SQLAlchemy's dialect for snapdb."""

    name = "snapdb"
    driver = "snapdb"
    default_paramstyle = "qmark"
    type_compiler_cls = _TypeCompiler
    ddl_compiler = _DdlCompiler
    supports_statement_cache = True
    supports_native_boolean = True
    supports_native_decimal = True
    supports_multivalues_insert = True
    supports_sane_multi_rowcount = True
    supports_alter = False
    supports_sequences = False
    postfetch_lastrowid = False
    insert_null_pk_still_autoincrements = False
    default_schema_name = None

    @classmethod
    def import_dbapi(cls) -> ModuleType:
        """Return the module of the driver."""
        return dbapi

    def create_connect_args(self, url: URL) -> tuple[list[Any], dict[str, Any]]:
        """Return the arguments of `snapdb.dbapi.connect` for a URL."""
        options: dict[str, Any] = dict(url.query)
        for name, value in options.items():
            if name in ("read_only", "verify", "variables", "autocommit"):
                options[name] = str(value).lower() in ("1", "true", "yes")
            elif name == "threads":
                options[name] = int(value)
        return [url.database or None], options

    def initialize(self, connection: Connection) -> None:
        """Do nothing: all databases have the same features."""

    def do_execute(self, cursor: Any, statement: str, parameters: Any, context: Any = None) -> None:
        """Run a statement, unless it is empty, as those for indexes are."""
        if statement:
            cursor.execute(statement, parameters)

    def get_schema_names(self, connection: Connection, **kw: Any) -> list[str]:
        """Return no schemas: tables have none."""
        return []

    def get_table_names(self, connection: Connection, schema: str | None = None, **kw: Any) -> list[str]:
        """Return the names of the tables."""
        return [name for (name,) in connection.exec_driver_sql("SELECT name FROM snapdb.tables ORDER BY name")]

    def get_view_names(self, connection: Connection, schema: str | None = None, **kw: Any) -> list[str]:
        """Return no views."""
        return []

    def has_table(self, connection: Connection, table_name: str, schema: str | None = None, **kw: Any) -> bool:
        """Return whether a table exists. Names are compared without case, as in SQL."""
        return table_name.lower() in (name.lower() for name in self.get_table_names(connection, schema, **kw))

    def get_columns(self, connection: Connection, table_name: str, schema: str | None = None, **kw: Any) -> Any:
        """Return the columns of a table."""
        if not self.has_table(connection, table_name, schema, **kw):
            raise NoSuchTableError(table_name)
        rows = connection.exec_driver_sql(f"SHOW COLUMNS OF {quote(table_name)}").mappings()
        return [
            {
                "name": row["name"],
                "type": _reflected(row["type"]),
                "nullable": row["nullable"],
                "default": row["default_value"],
            }
            for row in rows
        ]

    def get_pk_constraint(self, connection: Connection, table_name: str, schema: str | None = None, **kw: Any) -> Any:
        """Return the primary key of a table, with no columns if it has none."""
        keys = "SELECT columns, name FROM snapdb.constraints WHERE kind = 'PRIMARY KEY' AND lower(\"table\") = lower(?)"
        row = connection.exec_driver_sql(keys, (table_name,)).one_or_none()
        columns, name = ([], None) if row is None else (list(row[0]), row[1])
        return {"constrained_columns": columns, "name": name}

    def get_foreign_keys(self, connection: Connection, table_name: str, schema: str | None = None, **kw: Any) -> Any:
        """Return no foreign keys."""
        return []

    def get_indexes(self, connection: Connection, table_name: str, schema: str | None = None, **kw: Any) -> Any:
        """Return no indexes: tables have none."""
        return []

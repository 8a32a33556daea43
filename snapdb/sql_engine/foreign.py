"""The tables of other databases in files: DuckDB's and SQLite's. They are opened read-only."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from snapdb.errors import InputError, SnapdbError
from snapdb.sql_engine.sources import quote
from snapdb.sql_engine.values import EXACT
from snapdb.types import Column

_SQLITE, _DUCKDB = b"SQLite format 3\0", b"DUCK"
_MAGIC_AT = 8
"""Where the magic bytes of a DuckDB file begin, after a checksum."""
_ROWS = 50_000
"""The number of rows of SQLite that become one batch."""
_AFFINITIES = (("INT", "BIGINT"), ("CHAR", "VARCHAR"), ("CLOB", "VARCHAR"), ("TEXT", "VARCHAR"), ("BLOB", "BLOB"))
_NUMBERS = (("REAL", "DOUBLE"), ("FLOA", "DOUBLE"), ("DOUB", "DOUBLE"), ("BOOL", "BIGINT"))
"""Parts of a declared type → SQL type, by the rules of SQLite's column affinity."""
_TIME = re.compile("DATE|TIME", re.IGNORECASE)
_ARROW = {"BIGINT": pa.int64(), "VARCHAR": pa.string(), "BLOB": pa.binary(), "DOUBLE": pa.float64()}


class ForeignDatabase:
    """Another database in a file. Use it as a context manager."""

    def __init__(self, path: str) -> None:
        """Open the file.

        Raises:
            InputError: The file does not exist, is no database of DuckDB or SQLite, or cannot be opened.
        """
        self._path = path
        self._broken: InputError | None = None
        try:
            with Path(path).open("rb") as file:
                head = file.read(len(_SQLITE))
        except OSError as error:
            raise InputError(f"cannot read {path}: {error.strerror}", code="unreadable-database") from error
        self._lite = head == _SQLITE
        if not self._lite and not head[_MAGIC_AT:].startswith(_DUCKDB):
            raise InputError(
                f"{path} is no database of DuckDB or SQLite; COPY t FROM reads Parquet, CSV and JSON files",
                code="unreadable-database",
            )
        try:
            self._connection: Any = (
                sqlite3.connect(f"{Path(path).absolute().as_uri()}?mode=ro", uri=True, check_same_thread=False)
                if self._lite
                else duckdb.connect(path, read_only=True, config={"autoinstall_known_extensions": "false"})
            )
        except (sqlite3.Error, duckdb.Error) as error:
            raise self._failed(error) from error
        if not self._lite:
            self._connection.execute(f"SET {EXACT} = true")

    def __enter__(self) -> ForeignDatabase:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def tables(self) -> Mapping[str, tuple[Column, ...]]:
        """Return the columns of each table, in the order of their names. Views and system tables are left out."""
        try:
            if self._lite:
                listed = (
                    "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY name"
                )
                names = [name for (name,) in self._connection.execute(listed)]
                return {name: tuple(self._lite_columns(name)) for name in names}
            listed = "SELECT table_name FROM duckdb_tables() WHERE schema_name = 'main' AND NOT internal ORDER BY ALL"
            names = [name for (name,) in self._connection.execute(listed).fetchall()]
            return {name: tuple(self._duck_columns(name)) for name in names}
        except (sqlite3.Error, duckdb.Error) as error:
            raise self._failed(error) from error

    @contextmanager
    def rows(self, name: str, columns: tuple[Column, ...]) -> Iterator[pa.RecordBatchReader]:
        """Yield a reader of a table's rows."""
        select = f"SELECT {', '.join(quote(column.name) for column in columns)} FROM {quote(name)}"
        try:
            if self._lite:
                schema = pa.schema([(column.name, _ARROW[column.type]) for column in columns])
                with closing(self._connection.execute(select)) as cursor:
                    yield pa.RecordBatchReader.from_batches(schema, self._batches(cursor, schema, name))
            else:
                yield self._connection.sql(select).to_arrow_reader()
        except (sqlite3.Error, duckdb.Error) as error:
            raise self._failed(error) from error
        except SnapdbError:
            # The error of a reader arrives as one of the query that reads it.
            if self._broken is not None:
                raise self._broken from None
            raise

    def _lite_columns(self, name: str) -> Iterator[Column]:
        for _, column, declared, required, *_ in self._connection.execute(f"PRAGMA table_info({quote(name)})"):
            kinds = (kind for part, kind in (*_AFFINITIES, *_NUMBERS) if part in declared.upper())
            default = (
                "DOUBLE"
                if declared and "DATE" not in declared.upper() and "TIME" not in declared.upper()
                else "VARCHAR"
            )
            yield Column(column, next(kinds, default), not required)

    def _duck_columns(self, name: str) -> Iterator[Column]:
        described = self._connection.execute(f"DESCRIBE {quote(name)}").fetchall()
        return (Column(column, kind, null == "YES") for column, kind, null, *_ in described)

    def _batches(self, cursor: Any, schema: pa.Schema, name: str) -> Iterator[pa.RecordBatch]:
        while rows := cursor.fetchmany(_ROWS):
            arrays = []
            for field, values in zip(schema, zip(*rows, strict=True), strict=True):
                try:
                    arrays.append(pa.array(map(_as_text, values) if field.type == pa.string() else values, field.type))
                except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
                    self._broken = InputError(
                        f"column {field.name} of {name} in {self._path} has values of several types: {error}; correct "
                        "them in SQLite, or declare the column as TEXT",
                        code="unreadable-database",
                    )
                    raise self._broken from error
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)

    def _failed(self, error: Exception) -> InputError:
        reason = str(error).splitlines()[0]
        return InputError(f"cannot read {self._path}: {reason}", code="unreadable-database")


def _as_text(value: Any) -> str | None:
    return None if value is None else value if isinstance(value, str) else str(value)

"""Sequences of queries: each starts at its next value, and the values that a query took are recorded at its end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from snapdb.errors import DatabaseError, moved
from snapdb.sql_engine import DefinedName, Names, SqlSession, text_literal
from snapdb.types import Definition

if TYPE_CHECKING:
    from snapdb.plan.scope import BindContext

_STATE = """
    SELECT schema_name, sequence_name, start_value, CAST(regexp_extract(sql, 'START (-?[0-9]+)', 1) AS BIGINT)
    FROM duckdb_sequences() WHERE database_name = {} AND last_value IS NOT NULL
"""
"""Selects where each used sequence started, and its next value, of which DuckDB shows only the statement."""


def sequence_options(definition: Definition, value_of: Callable[[Definition, int], int]) -> str:
    """Return the options of a sequence, with its next value as START."""
    before, _, start = definition.body.rpartition("START ")
    return f"{before}START {value_of(definition, int(start))}"


def sequences_of(names: Names) -> list[DefinedName]:
    """Return the sequences that a query uses."""
    return [key for key in names.definitions if key.kind == "sequence"]


def advance_sequences(context: BindContext, session: SqlSession, used: Sequence[DefinedName]) -> None:
    """Record the next values of the sequences that a query used. They belong to no version, as in PostgreSQL.

    Raises:
        DatabaseError: The database was opened read-only.
        CommitConflict: Another process took values concurrently.
    """
    for schema, name, start, following in session.rows(_STATE.format(text_literal(session.space))):
        key = next((key for key in used if key.name == name and key.schema in (schema, "")), None)
        if key is None:
            continue
        whole = f"{key.schema}.{key.name}" if key.schema else key.name
        definition = context.catalog.definition("sequence", whole)
        if context.store.db_dir.read_only:
            raise DatabaseError(
                f"nextval('{whole}') changes the sequence, but the database was opened read-only; open it without "
                "read_only (--read-only)",
                code="read-only",
            )
        with context.store.catalog_db.writing(counted=False) as connection:
            query = "UPDATE sequences SET next = ? WHERE id = ? AND next = ?"
            changed = connection.execute(query, (following, definition.id, start)).rowcount
        if not changed:
            raise moved(f"another statement took values of sequence {whole} concurrently", code="sequence-moved")

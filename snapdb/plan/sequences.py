"""Sequences of queries: each starts at its next value, and the values that a query took are recorded at its end.

If an earlier statement of the session took a value, the sequence starts at that value, which is taken again before the
query, so that `currval` returns it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from snapdb.errors import DatabaseError, moved
from snapdb.sql_engine import Names, SqlSession, text_literal
from snapdb.types import Definition

if TYPE_CHECKING:
    from snapdb.plan.scope import BindContext

_STATE = """
    SELECT schema_name, sequence_name, start_value, last_value,
           CAST(regexp_extract(sql, 'START (-?[0-9]+)', 1) AS BIGINT)
    FROM duckdb_sequences() WHERE database_name = {} AND last_value IS NOT NULL
"""
"""Selects where each used sequence started, its last and its next value, of which DuckDB shows only the statement."""
_OPTIONS = re.compile(r"INCREMENT BY (\S+) MINVALUE (\S+) MAXVALUE (\S+) (NO CYCLE|CYCLE) START (\S+)")


class SequenceState(NamedTuple):
    """How a query's sequence is created."""

    options: str
    """The options of CREATE SEQUENCE."""
    second: int | None
    """The value after START if the session took the value at START, or None if it takes that value next."""


def sequence_state(context: BindContext, definition: Definition, *, takes: bool) -> SequenceState:
    """Return how a query's sequence is created.

    Args:
        context: The context of the query.
        definition: The sequence.
        takes: Whether the query may take values.
    """
    options = _OPTIONS.fullmatch(definition.body)
    assert options is not None, "CREATE SEQUENCE stores all options"
    step, least, most = int(options[1]), int(options[2]), int(options[3])
    following = context.sequence_value(definition, int(options[5]))
    before = definition.body[: options.start(5)]
    if (last := context.taken.get(definition.id)) is None:
        return SequenceState(f"{before}{following}", None)
    second = last + step
    if options[4] == "CYCLE" and not least <= second <= most:
        second = least if step > 0 else most
    # After other sessions took values, no sequence has both the session's last value and the next one.
    if takes and second != following:
        return SequenceState(f"{before}{following}", None)
    return SequenceState(f"{before}{last}", second)


def advance_sequences(context: BindContext, session: SqlSession, names: Names) -> None:
    """Record the values of the sequences that a query used. They belong to no version, as in PostgreSQL.

    Raises:
        DatabaseError: The database was opened read-only.
        CommitConflict: Another process took values concurrently.
    """
    used = [key for key in names.definitions if key.kind == "sequence"]
    if not used:
        return
    for schema, name, start, last, following in session.rows(_STATE.format(text_literal(session.space))):
        key = next((key for key in used if key.name == name and key.schema in (schema, "")), None)
        if key is None or following == names.taken.get(key):
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
            changed = connection.execute(query, (following, definition.id, names.taken.get(key, start))).rowcount
        if not changed:
            raise moved(f"another statement took values of sequence {whole} concurrently", code="sequence-moved")
        context.taken[definition.id] = last

"""When the command line creates a database: a mistyped path must not become one by a statement that only reads."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from snapdb.database import Database, connect
from snapdb.sql.explain import Explain
from snapdb.sql.exports import CopySampleTo, CopySnapshotTo, CopyTo
from snapdb.sql.maintenance import BackupDatabase, CheckDatabase
from snapdb.sql.queries import Query
from snapdb.sql.samples import Audit, Sample, SampleUsing
from snapdb.sql.show import Describe, Show, Summarize
from snapdb.sql.syntax import Statement
from snapdb.sql.versions import Begin, Commit, DiffGraph, DiffSnapshot, DiffTable, Rollback
from snapdb.storage.catalog_db.db_dir import CATALOG, open_home

from .diagnostics import Diagnostics
from .scripts import Step
from .settings import Settings

_READS = (
    Audit,
    BackupDatabase,
    CheckDatabase,
    CopySampleTo,
    CopySnapshotTo,
    CopyTo,
    Describe,
    DiffGraph,
    DiffSnapshot,
    DiffTable,
    Query,
    Sample,
    SampleUsing,
    Show,
    Summarize,
)
_BRACKETS = (Begin, Commit, Rollback)
"""Statements that neither read nor write: the one after them decides."""


def open_for(path: Path | None, steps: Iterable[Step], diagnostics: Diagnostics, settings: Settings) -> Database:
    """The database that statements run in; one that does not exist is created only where the first of them writes.

    Raises:
        DatabaseError: it does not exist, and the first statement only reads; or it cannot be opened or created.
    """
    if path is None or (path / CATALOG).exists():
        return connect(path, **settings.opening)
    decisive = (step.statement for step in steps if not isinstance(step.statement, _BRACKETS))
    first = next(decisive, None)
    if first is None or only_reads(first):
        open_home(path, read_only=settings.read_only, make=False)
    database = connect(path, **settings.opening)
    diagnostics.announce(f"created the database {path}")
    return database


def only_reads(statement: Statement) -> bool:
    """Whether a statement leaves every database as it is, by its text alone, before a database is open.

    `Plan.is_read` decides the same by its plan.
    """
    match statement:
        case Explain():
            return not statement.analyze or only_reads(statement.statement)
        case _:
            return isinstance(statement, _READS) or bool(getattr(statement, "dry_run", False))

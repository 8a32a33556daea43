"""When the command line creates a database: a mistyped path must not become one by a statement that only reads."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from snapdb.database import Database, connect
from snapdb.sql import ast
from snapdb.storage.home import CATALOG, open_home

from .diagnostics import Diagnostics
from .scripts import Step
from .settings import Settings

_READS = (
    ast.Audit,
    ast.BackupDatabase,
    ast.CheckDatabase,
    ast.CopySampleTo,
    ast.CopySnapshotTo,
    ast.CopyTo,
    ast.Describe,
    ast.DiffGraph,
    ast.DiffSnapshot,
    ast.DiffTable,
    ast.Query,
    ast.Sample,
    ast.SampleUsing,
    ast.Show,
    ast.Summarize,
)
_BRACKETS = (ast.Begin, ast.Commit, ast.Rollback)
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


def only_reads(statement: ast.Statement) -> bool:
    """Whether a statement leaves every database as it is, by its text alone, before a database is open.

    `Plan.is_read` decides the same by its plan.
    """
    match statement:
        case ast.Explain():
            return not statement.analyze or only_reads(statement.statement)
        case _:
            return isinstance(statement, _READS) or bool(getattr(statement, "dry_run", False))

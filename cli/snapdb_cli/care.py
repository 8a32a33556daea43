"""`snapdb check`, `snapdb backup` and `snapdb upgrade`: looking after a database directory."""

from __future__ import annotations

from pathlib import Path

from snapdb.catalog.listing import listing
from snapdb.database import connect
from snapdb.execute.maintenance import PROBLEMS
from snapdb.storage.catalog_db.connection import Ledger
from snapdb.storage.catalog_db.db_dir import Home, open_home
from snapdb.storage.catalog_db.locks import TablesLock
from snapdb.storage.catalog_db.upgrade import upgrade as upgrade_database
from snapdb.storage.check.catalog import Problem
from snapdb.storage.check.database import check_database

from .diagnostics import Diagnostics, ExitCode
from .output import Output
from .progress import Progress


def check(path: Path, diagnostics: Diagnostics, format: str) -> ExitCode:  # noqa: A002  # the option's name
    """Show what is wrong with a database, which is not written to; FAILED when something is damaged."""
    home = open_home(path, read_only=True)
    with Progress(diagnostics, f"checking {path}") as progress:
        problems = _problems(home, progress)
        batch = listing(PROBLEMS, problems)
        Output(format).write(batch.schema, [batch], progress.stop)
    damage = sum(problem.is_damage for problem in problems)
    notes = len(problems) - damage
    diagnostics.narrate(
        f"{path}: {damage} damaged, {notes} files that nothing points at" if problems else f"{path}: ok"
    )
    return ExitCode.FAILED if damage else ExitCode.OK


def backup(path: Path, target: Path, diagnostics: Diagnostics, *, copies: bool) -> ExitCode:
    """Copy a database, which is not written to, and say what the copy holds."""
    with connect(path, read_only=True) as database, Progress(diagnostics, f"copying {path}") as progress:
        database.progress = progress.update
        text = "'" + str(target).replace("'", "''") + "'"
        result = database.execute(f"BACKUP DATABASE TO {text}{' (COPY)' * copies}")
    diagnostics.say(result.message or "")
    return ExitCode.OK


def upgrade(path: Path, diagnostics: Diagnostics) -> ExitCode:
    """Bring a database to this snapdb's format and say what was done."""
    diagnostics.say(upgrade_database(path))
    return ExitCode.OK


def _problems(home: Home, progress: Progress) -> list[Problem]:
    ledger = Ledger(home)
    lock = TablesLock(home)
    try:
        return list(check_database(home, ledger, progress.update))
    finally:
        lock.release()
        ledger.close()

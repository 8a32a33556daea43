"""BACKUP DATABASE TO: a checked copy of the database, while others write to it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from snapdb.errors import InputError
from snapdb.execute.export_folder import size_words
from snapdb.execute.operator import Engine, Outcome, Rows
from snapdb.plan.maintenance import BackupPlan
from snapdb.storage.backup import back_up
from snapdb.types.text import counted


@dataclass(frozen=True, slots=True)
class Backup:
    """Copies the catalog, links or copies every file, and reads all of them again."""

    plan: BackupPlan

    def run(self, engine: Engine) -> Rows:
        yield from ()
        target = Path(os.path.abspath(os.path.expanduser(self.plan.path)))

        def report(what: str, share: float | None) -> None:
            engine.check_stopped()
            engine.report(what, share)

        try:
            engine.relational.check_folder(target)
            done = back_up(engine.home, engine.ledger, target, link=not self.plan.copies, report=report)
        except InputError as error:
            error.span = error.span or self.plan.span
            raise
        how = f", {counted(done.linked, 'hard link')}" if done.linked else ""
        return Outcome(
            f"backup of version {done.version} at {self.plan.path}: {counted(done.files, 'file')}, "
            f"{size_words(done.bytes)}{how}; all checked"
        )

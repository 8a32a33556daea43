"""The statements of a task, one after another: each is marked when it is done, and none is done again."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from snapdb.errors import QueryError
from snapdb.execute.own_database import OwnDatabase
from snapdb.execute.run_progress import Progress
from snapdb.execute.stopping import Watch
from snapdb.sql import ast
from snapdb.storage.disk import MANIFEST, hash_file, is_hidden_beside
from snapdb.storage.home import Home
from snapdb.storage.ledger import Ledger
from snapdb.storage.metered_disk import MeteredDisk
from snapdb.storage.run_rows import RunMark, exports_of, find_run, note_export, note_run
from snapdb.types import Run, RunExport
from snapdb.types.text import counted

_EXCERPT = 60
"""Characters of a statement that stand in the log."""


@dataclass(slots=True)
class Body:
    """Runs what is left of a task's statements for one attempt of a run.

    What a statement publishes in the catalog says in the same transaction that it is done. An export takes its name
    outside of the catalog: a row of exports says before which folder it puts there, so that a later attempt knows it.
    """

    home: Home
    ledger: Ledger
    run: Run
    progress: Progress
    watch: Watch

    def disk(self) -> MeteredDisk:
        """The disk that the run's database is to be opened on."""
        return MeteredDisk(self.home.disk, self._leaving)

    def go(self, database: OwnDatabase, statements: Sequence[ast.Statement], disk: MeteredDisk) -> None:
        """Run the statements that are not done yet.

        Raises:
            QueryError: the run is to end (code 'interrupted'); also what a statement raises.
            CommitConflict: the run was given up.
        """
        with database.reading() as engine:
            own, work = engine.ledger, engine.work
        own.mark = mark = RunMark(self.run)
        with self.ledger.reading() as connection:
            before = exports_of(connection, self.run)
        for number, statement in enumerate(statements, start=1):
            if number <= self.run.step:
                continue
            self.watch.check()
            self.progress.statement = mark.statement = number
            started = time.perf_counter()
            if any(_stands(export) for export in before if export.statement == number):
                rows, said = 0, "its folder was put there before an earlier attempt ended"
            else:
                rows, said = self._one(database, statement)
            self._say(number, statement, said, time.perf_counter() - started)
            if isinstance(statement, ast.Rollback):
                self.progress.pending = 0
            self.progress.done(rows, in_transaction=work.state != "idle")
            if work.state == "idle":
                self.progress.bytes += disk.taken()
                self._note_done(own, number)
        if work.state != "idle":
            raise QueryError(
                "the last statement leaves a transaction open, so nothing of it was kept; end it with COMMIT",
                code="transaction-open",
            )

    def _one(self, database: OwnDatabase, statement: ast.Statement) -> tuple[int, str]:
        """How many rows a statement added or removed, and what it did, in words."""
        self.progress.under_way, given = True, 0
        result = database.run(statement)
        for batch in result:  # read to the end, and not kept
            given += batch.num_rows
        said = "; ".join(filter(None, (result.message, counted(given, "row") if result.is_query else "")))
        return 0 if result.is_query else result.rowcount, said

    def _say(self, number: int, statement: ast.Statement, said: str, seconds: float) -> None:
        text = " ".join(statement.source[statement.span.start : statement.span.stop].split())
        short = text if len(text) <= _EXCERPT else f"{text[: _EXCERPT - 1]}…"
        self.progress.lines.append(f"{number} {short}: {said} ({seconds:.2f} s)")

    def _note_done(self, own: Ledger, number: int) -> None:
        """Note a statement that published nothing."""
        with own.reading() as connection:
            row = find_run(connection, self.run)
        if row is None or row.step < number:
            with own.writing(publishes=True, counted=False):
                pass  # the mark is all there is to write

    def _leaving(self, source: Path, target: Path) -> None:
        """Record what is about to get a name outside the database; CommitConflict once the run is given up."""
        if target.is_relative_to(self.home.path) or is_hidden_beside(target):
            return
        manifest, statement = source / MANIFEST, self.progress.statement
        note = f"{statement} puts {json.dumps(str(target))}"
        with self.ledger.writing(counted=False) as connection:
            if manifest.is_file():
                note_export(connection, self.run, RunExport(statement, str(target), hash_file(manifest)[1]))
            note_run(connection, self.run, note)
        self.progress.notes.append(note)


def _stands(export: RunExport) -> bool:
    """Whether a folder is there, and its manifest is the one that was meant: it got its name when it was whole."""
    manifest = Path(export.path) / MANIFEST
    return manifest.is_file() and hash_file(manifest)[1] == export.sha256

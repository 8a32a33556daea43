"""Runs the statements of -c, -f and stdin."""

import stat
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from snapdb.database import Database, connect
from snapdb.errors import InputError, QueryError
from snapdb.storage.catalog_db.db_dir import CATALOG, open_db_dir
from snapdb.storage.disk import hidden_beside
from snapdb_cli.commands.arguments import Settings
from snapdb_cli.diagnostics import Diagnostics, ExitCode, worse
from snapdb_cli.output import BINARY, Output, OutputStyle
from snapdb_cli.scripts import ScriptStep
from snapdb_cli.shell import Shell


def _open_for(path: Path | None, steps: Iterable[ScriptStep], diagnostics: Diagnostics, settings: Settings) -> Database:
    """Return the database in which to run statements. A new database is created only if the first statement writes.

    Raises:
        DatabaseError: The database does not exist and the first statement only reads, or it cannot be opened or
            created.
    """
    if path is None or (path / CATALOG).exists():
        return connect(path, **settings.opening)
    decisive = (step.statement for step in steps if not step.statement.delimits)
    first = next(decisive, None)
    if first is None or first.only_reads():
        open_db_dir(path, read_only=settings.read_only, make=False)
    database = connect(path, **settings.opening)
    diagnostics.announce(f"created the database {path}")
    return database


class _AtomicFile:
    """A temporary file, and whether it replaces the target."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.kept = False
        """Whether the new file replaces the old one at the end of the block."""


@contextmanager
def _atomic_file(path: Path) -> Iterator[_AtomicFile]:
    """Yield a temporary file in the same directory, and rename it to `path` if the block sets `kept`.

    The new file has the old file's permissions. A pipe or device is written in place. Raises OSError if the file cannot
    be created.
    """
    real = path.resolve()
    known = real.stat().st_mode if real.exists() else None
    if known is not None and not stat.S_ISREG(known):
        yield _AtomicFile(real)
        return
    target = _AtomicFile(hidden_beside(real))
    try:
        target.path.touch(exist_ok=False)
        yield target
        if target.kept:
            if known is not None:
                target.path.chmod(stat.S_IMODE(known))
            target.path.replace(real)
    finally:
        target.path.unlink(missing_ok=True)


def run(path: Path | None, steps: Sequence[ScriptStep], diagnostics: Diagnostics, settings: Settings) -> ExitCode:
    """Run the statements in the database, roll back an open transaction, and return the exit code.

    The output file is replaced if all statements succeeded or, with `keep_going`, if the last one was attempted.
    """
    with ExitStack() as stack:
        target = None if settings.output is None else stack.enter_context(_atomic_file(settings.output))
        # Scripts show all rows, even on a terminal.
        style = OutputStyle(settings.null, settings.header, settings.max_rows, screen_rows=None)
        output = Output(settings.format or "table", style=style)
        if target is not None:
            output.redirect(target.path)
            stack.callback(output.redirect, None)
        code = _statements(path, steps, diagnostics, settings, output)
        if target is not None and settings.format in BINARY and not output.written:
            error = InputError(
                f"no statement returned rows, so no {settings.format} file was written to {settings.output}",
                code="output-format",
            )
            return worse(code, diagnostics.report(error))
        if target is not None:
            output.redirect(None)
            target.kept = code is ExitCode.OK or (settings.keep_going and code is not ExitCode.INTERRUPTED)
        return code


def _statements(
    path: Path | None, steps: Sequence[ScriptStep], diagnostics: Diagnostics, settings: Settings, output: Output
) -> ExitCode:
    with _open_for(path, steps, diagnostics, settings) as database:
        shell = Shell(database, output, diagnostics, keep_going=settings.keep_going, parameters=settings.parameters)
        code = shell.run(steps)
        if database.transaction_state == "idle":
            return code
        error = QueryError(
            "the script ended inside a transaction, which was rolled back; add COMMIT", code="open-transaction"
        )
        return worse(code, diagnostics.report(error))

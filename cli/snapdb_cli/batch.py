"""Statements from the command line, files or stdin, run without a prompt."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from snapdb.errors import InputError, QueryError

from .binary import BINARY
from .creation import open_for
from .diagnostics import Diagnostics, ExitCode, worse
from .formats import Look
from .output import Output
from .scripts import Step
from .settings import Settings
from .shell import Shell
from .target import replacing


def run(path: Path | None, found: Sequence[Step], diagnostics: Diagnostics, settings: Settings) -> ExitCode:
    """Open the database, run the statements and close it; the exit code. What is not committed then, never was.

    A file for the output is replaced when all statements ran, or when `keep_going` let the last one be tried.
    """
    with ExitStack() as stack:
        target = None if settings.output is None else stack.enter_context(replacing(settings.output))
        output = Output(
            settings.format or "table", look=Look(settings.null, settings.header), max_rows=settings.max_rows
        )
        output.screen_rows = None  # a script shows all rows, wherever it is run
        if target is not None:
            output.redirect(target.path)
            stack.callback(output.redirect, None)
        code = _statements(path, found, diagnostics, settings, output)
        if target is not None and settings.format in BINARY and not output.written:
            error = InputError(
                f"no statement gave rows, so there is no {settings.format} for {settings.output}", code="output-format"
            )
            return worse(code, diagnostics.report(error))
        if target is not None:
            output.redirect(None)
            target.kept = code is ExitCode.OK or (settings.keep_going and code is not ExitCode.INTERRUPTED)
        return code


def _statements(
    path: Path | None, found: Sequence[Step], diagnostics: Diagnostics, settings: Settings, output: Output
) -> ExitCode:
    with open_for(path, found, diagnostics, settings) as database:
        shell = Shell(database, output, diagnostics, keep_going=settings.keep_going)
        shell.parameters = settings.parameters
        code = shell.run(found)
        if database.transaction_state == "idle":
            return code
        error = QueryError(
            "the script ends inside a transaction, which was rolled back; COMMIT ends it", code="open-transaction"
        )
        return worse(code, diagnostics.report(error))

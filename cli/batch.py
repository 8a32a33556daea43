"""Statements from the command line, files or stdin, without a prompt; and the way to the prompt."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from snapdb.database import connect
from snapdb.errors import QueryError

from .diagnostics import Diagnostics, ExitCode, worse
from .output import Output
from .scripts import Step
from .shell import Shell

__all__ = ["run"]


def run(
    path: Path | None,
    found: Sequence[Step],
    diagnostics: Diagnostics,
    *,
    format: str,  # noqa: A002  # the option's name
    read_only: bool,
    keep_going: bool,
) -> ExitCode:
    """Open the database, run the statements and close it; the exit code. What is not committed then, never was."""
    with connect(path, read_only=read_only) as database:
        code = Shell(database, Output(format), diagnostics, keep_going=keep_going).run(found)
        if database.transaction_state == "idle":
            return code
        error = QueryError("the script ends inside a transaction, which was rolled back; COMMIT ends it", code="open")
        return worse(code, diagnostics.report(error))

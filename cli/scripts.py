"""Texts to statements, all of them before an engine is loaded."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

from snapdb.errors import SnapdbError
from snapdb.sql import parse
from snapdb.sql.ast import Statement
from snapdb.sql.split import split

from .diagnostics import Diagnostics, ExitCode, worse

__all__ = ["Script", "Step", "steps"]


@dataclass(frozen=True, slots=True)
class Script:
    """Statements as they were given."""

    text: str
    origin: str | None = None
    """The file they stand in; None for the command line, stdin and the prompt."""


@dataclass(frozen=True, slots=True)
class Step:
    """A statement to run, and where it came from."""

    statement: Statement
    origin: str | None


def steps(
    scripts: Iterable[Script], diagnostics: Diagnostics, *, keep_going: bool = False
) -> tuple[list[Step], ExitCode]:
    """The statements of all scripts in order, and OK when all of them could be read.

    What cannot be read is reported. Then nothing should run, unless `keep_going`: the other statements still count.
    """
    found: list[Step] = []
    code = ExitCode.OK
    for script in scripts:
        try:
            found += [Step(statement, script.origin) for statement in parse(script.text)]
        except SnapdbError as error:
            if not keep_going:
                return [], diagnostics.report(error, script.origin)
            code = worse(code, _readable(script, found, diagnostics))
    return found, code


def _readable(script: Script, found: list[Step], diagnostics: Diagnostics) -> ExitCode:
    """Add the statements of a script that can be read, and report each of the others."""
    code = ExitCode.OK
    try:
        spans = split(script.text)
    except SnapdbError as error:
        return diagnostics.report(error, script.origin)
    for span in spans:
        # Blanks in place of what stands before keep every place, so that the whole text can be put back
        text = re.sub(r"[^\n]", " ", script.text[: span.start]) + script.text[span.start : span.stop]
        try:
            found += [Step(replace(s, source=script.text), script.origin) for s in parse(text)]
        except SnapdbError as error:
            error.text = script.text
            code = worse(code, diagnostics.report(error, script.origin))
    return code

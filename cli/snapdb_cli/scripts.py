"""Parses all statements of texts and files before an engine is loaded."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from snapdb.errors import SnapdbError
from snapdb.sql import parse, parse_each
from snapdb.sql.queries import Value, marks_of, value_of
from snapdb.sql.syntax import Statement
from snapdb_cli.diagnostics import Diagnostics, ExitCode, worse


@dataclass(frozen=True, slots=True)
class Script:
    """Statements as they were given."""

    text: str
    origin: str | None = None
    """The file of the text; None for the command line, stdin and the prompt."""


@dataclass(frozen=True, slots=True)
class Step:
    """A statement to run, and the file that it comes from."""

    statement: Statement
    origin: str | None


def steps(
    scripts: Iterable[Script], diagnostics: Diagnostics, *, keep_going: bool = False
) -> tuple[list[Step], ExitCode]:
    """The statements of all scripts in order, and OK when all of them could be read.

    What cannot be read is reported. Then nothing should run, unless `keep_going`: the other statements still count.
    """
    parsed: list[Step] = []
    code = ExitCode.OK
    for script in scripts:
        try:
            parsed += [Step(statement, script.origin) for statement in parse(script.text)]
        except SnapdbError as error:
            if not keep_going:
                return [], diagnostics.report(error, script.origin)
            code = worse(code, _readable(script, parsed, diagnostics))
    return parsed, code


def values(given: Mapping[str, str]) -> dict[str, Value]:
    """The values of parameters that were given as text."""
    return {name: value_of(text) for name, text in given.items()}


def marks(parsed: Iterable[Step]) -> list[str]:
    """The parameters that statements name."""
    return [mark for step in parsed for mark in marks_of(step.statement)]


def _readable(script: Script, parsed: list[Step], diagnostics: Diagnostics) -> ExitCode:
    """Add the statements of a script that can be read, and report each of the others."""
    code = ExitCode.OK
    for item in parse_each(script.text):
        if isinstance(item, SnapdbError):
            code = worse(code, diagnostics.report(item, script.origin))
        else:
            parsed.append(Step(item, script.origin))
    return code

"""The statements of -c, -f and stdin, and the values of their parameters. They are read before the engine is loaded."""

import difflib
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import click

from snapdb.errors import SnapdbError
from snapdb.sql import parse, parse_each
from snapdb.sql.queries import Value, marks_of, value_of
from snapdb.sql.syntax import Statement
from snapdb_cli.diagnostics import Diagnostics, ExitCode, worse

_PARAMETER = re.compile(r"(?!\d)\w+")


class ScriptStep(NamedTuple):
    """A statement to run."""

    statement: Statement
    origin: str | None = None
    """The file name, or None for the command line, stdin and the prompt."""


def texts_of(order: Sequence[str], commands: Sequence[str], files: Sequence[Path]) -> list[tuple[str, str | None]]:
    """Return the texts of -c and -f in the given order, or of stdin if there are none, each with its file name."""
    if not commands and not files:
        return [(_read(Path("-")), None)]
    rest: dict[str, Iterator[tuple[str, str | None]]] = {
        "texts": ((_unescaped(text), None) for text in commands),
        "files": ((_read(path), None if str(path) == "-" else str(path)) for path in files),
    }
    return [next(rest[kind]) for kind in order]


def steps(
    texts: Iterable[tuple[str, str | None]], diagnostics: Diagnostics, *, keep_going: bool = False
) -> tuple[list[ScriptStep], ExitCode]:
    """Return the statements of all texts in order, and OK if all are valid. Each text is paired with its file name.

    Errors are reported. If there are any, the caller should not run anything unless `keep_going` is set, in which case
    the valid statements are still returned.
    """
    parsed: list[ScriptStep] = []
    code = ExitCode.OK
    for text, origin in texts:
        if not keep_going:
            try:
                parsed += [ScriptStep(statement, origin) for statement in parse(text)]
            except SnapdbError as error:
                return [], diagnostics.report(error, origin)
            continue
        for item in parse_each(text):
            if isinstance(item, SnapdbError):
                code = worse(code, diagnostics.report(item, origin))
            else:
                parsed.append(ScriptStep(item, origin))
    return parsed, code


def parameters(arguments: Iterable[str]) -> dict[str, Value]:
    """Return the values of arguments such as `name=value`, by name."""
    values: dict[str, Value] = {}
    for text in arguments:
        name, equals, value = text.partition("=")
        name = name.removeprefix("$")
        if not equals or not _PARAMETER.fullmatch(name):
            raise click.UsageError(f"--param must be name=value, found {text!r}")
        if name in values:
            raise click.UsageError(f"--param {name} is specified twice")
        values[name] = value_of(_unescaped(value))
    return values


def check_parameters(values: Mapping[str, Value], parsed: Iterable[ScriptStep]) -> None:
    """Raise UsageError for a parameter without a value, and for a value that no statement uses."""
    named = list(dict.fromkeys(mark for step in parsed for mark in marks_of(step.statement)))
    for mark in named:
        name = mark.removeprefix("$")
        if not _PARAMETER.fullmatch(name):
            raise click.UsageError(f"{mark} has no value on the command line; write $name, and pass --param name=value")
        if name not in values:
            close = difflib.get_close_matches(name, list(values), n=1)
            hint = f" (did you mean {close[0]}?)" if close else ""
            raise click.UsageError(f"{mark} has no value; add --param {name}=…{hint}")
    for name in values:
        if f"${name}" not in named:
            hint = f"; their parameters are {', '.join(named)}" if named else "; they have no parameters"
            raise click.UsageError(f"no statement uses ${name}, which --param passes{hint}")


def _unescaped(text: str) -> str:
    """Return an argument decoded as UTF-8, even if the locale is not UTF-8, as under LC_ALL=C."""
    return _decoded(text.encode("utf-8", "surrogateescape"), "an argument")


def _read(path: Path) -> str:
    if str(path) == "-":
        return _decoded(sys.stdin.buffer.read(), "stdin")
    return _decoded(path.read_bytes(), str(path))


def _decoded(data: bytes, name: str) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise click.UsageError(f"{name} is not valid UTF-8: {error.reason} at byte {error.start}") from None

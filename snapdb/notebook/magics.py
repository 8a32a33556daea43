"""`%snap` and `%%snap`: statements in a notebook, over one open database, and the options of a magic's line."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from keyword import iskeyword
from pathlib import Path
from typing import Any

from IPython.display import display

from snapdb.database import Database, connect
from snapdb.errors import InputError, ParseError, QueryError, SnapdbError
from snapdb.execute.results import Result
from snapdb.interrupts import interruptible
from snapdb.sql import parse
from snapdb.sql.queries import marks_of, value_of
from snapdb.sql.syntax import Statement
from snapdb.types.text import did_you_mean

FORMATS = ("result", "df", "arrow", "polars")

USAGE = f"""\
%load_ext snapdb
%snap shop.snapdb                    open a database (--read-only: never write to it), or use the one of a variable
%snap SELECT …                       run a statement; rows = %snap SELECT … keeps its result
%%snap [OPTIONS]                     run the statements of the cell
  -o, --out NAME                     keep the last result in the variable NAME instead of showing it
  -f, --format {"|".join(FORMATS)}   what a result is
  -p, --param NAME[=VALUE]           the value of $NAME; without VALUE that of the variable NAME, and of no other
%snap --close                        close the database"""

_WORD = re.compile(r"\s*('(?:[^']|'')*'|\"[^\"]*\"|\S+)")
_NAME = re.compile(r"(?!\d)\w+")


@dataclass(frozen=True, slots=True)
class Wish:
    """A magic's line, read."""

    rest: str = ""
    """What follows the options: a database, statements, or nothing."""
    out: str | None = None
    format: str = "result"
    parameters: Mapping[str, Any] = field(default_factory=dict)
    read_only: bool = False
    close: bool = False
    help: bool = False


def read(line: str, variables: Mapping[str, Any]) -> Wish:
    """The wish of a line; only variables that `--param` names are looked at.

    >>> read("--out rows -f df --param n SELECT $n", {"n": 7})
    Wish(rest='SELECT $n', out='rows', format='df', parameters={'n': 7}, read_only=False, close=False, help=False)

    Raises:
        InputError: an option is not known, or has no value, or a variable is not there.
    """
    wish, rest = Wish(), line.strip()
    while rest.startswith("-") and not rest.startswith("--  ") and not re.match(r"--\s", rest):
        word, rest = _word(rest)
        name, equals, value = word.partition("=")
        option = _OPTIONS.get(name)
        if option is None:
            raise InputError(
                f"no option {name} of snap{did_you_mean(name, _OPTIONS)}; %snap --help lists them", code="notebook-line"
            )
        takes, change = option
        if takes and not equals:
            value, rest = _word(rest)
            if not value:
                raise InputError(f"{name} needs {takes}; %snap --help tells how", code="notebook-line")
        wish = change(wish, value, variables)
    return replace(wish, rest=rest)


def _word(text: str) -> tuple[str, str]:
    """The first word of a text, without its quotes, and the rest."""
    found = _WORD.match(text)
    if found is None:
        return "", ""
    word, rest = found[1], text[found.end() :].strip()
    return (word[1:-1] if len(word) > 1 and word[0] == word[-1] == '"' else word), rest


def _out(wish: Wish, value: str, variables: Mapping[str, Any]) -> Wish:
    if not value.isidentifier() or iskeyword(value):
        raise InputError(f"--out takes the name of a variable, found {value!r}", code="notebook-line")
    return replace(wish, out=value)


def _format(wish: Wish, value: str, variables: Mapping[str, Any]) -> Wish:
    if value not in FORMATS:
        raise InputError(f"--format takes {', '.join(FORMATS)}, found {value!r}", code="notebook-line")
    return replace(wish, format=value)


def _param(wish: Wish, value: str, variables: Mapping[str, Any]) -> Wish:
    name, equals, text = value.partition("=")
    name = name.removeprefix("$")
    if not _NAME.fullmatch(name):
        raise InputError(f"--param takes NAME or NAME=VALUE, found {value!r}", code="notebook-line")
    if not equals and name not in variables:
        known = [known for known in variables if not known.startswith("_")]
        raise InputError(f"there is no variable {name} for $" + name + did_you_mean(name, known), code="notebook-line")
    return replace(wish, parameters={**wish.parameters, name: value_of(text) if equals else variables[name]})


Change = Callable[[Wish, str, Mapping[str, Any]], Wish]

_OPTIONS: dict[str, tuple[str, Change]] = {
    "-o": ("the name of a variable", _out),
    "--out": ("the name of a variable", _out),
    "-f": (f"one of {', '.join(FORMATS)}", _format),
    "--format": (f"one of {', '.join(FORMATS)}", _format),
    "-p": ("NAME or NAME=VALUE", _param),
    "--param": ("NAME or NAME=VALUE", _param),
    "--read-only": ("", lambda wish, value, variables: replace(wish, read_only=True)),
    "--close": ("", lambda wish, value, variables: replace(wish, close=True)),
    "-h": ("", lambda wish, value, variables: replace(wish, help=True)),
    "--help": ("", lambda wish, value, variables: replace(wish, help=True)),
}
"""Option → what its value is, nothing for a switch, and what it changes."""


_SHAPES: Mapping[str, Callable[[Result], Any]] = {
    "result": lambda result: result,
    "df": Result.df,
    "arrow": Result.arrow,
    "polars": Result.pl,
}


class SnapMagics:
    """The magics of one IPython shell, and the database they use."""

    def __init__(self, shell: Any) -> None:
        self.shell = shell
        self.database: Database | None = None
        self._own = False

    def snap(self, line: str, cell: str | None = None) -> Any:
        """Open a database or run statements; `%snap --help` tells how."""
        try:
            return self._snap(line, cell)
        except SnapdbError as error:
            # What is wrong is in the statement and not in Python: IPython asks the error itself how to show it
            shown = str(error).splitlines()
            vars(error)["_render_traceback_"] = lambda: shown
            raise error.with_traceback(None) from None

    def close(self) -> None:
        """Let go of the database; one that the magic opened is closed."""
        if self.database is not None and self._own:
            self.database.close()
        self.database, self._own = None, False

    def _snap(self, line: str, cell: str | None) -> Any:
        wish = read(line, self.shell.user_ns)
        if wish.help:
            print(USAGE)
            return None
        if wish.close:
            return self.close()
        if cell is not None:
            if wish.rest:
                self._connect(wish)
            return self._run(cell, wish)
        if wish.rest and not self._is_place(wish.rest):
            return self._run(wish.rest, wish)
        if wish.rest:
            self._connect(wish)
        return self._connected()

    def _is_place(self, text: str) -> bool:
        """Whether a line names a database rather than being a statement."""
        if isinstance(self.shell.user_ns.get(text), Database):
            return True
        place = _path(text)
        # not Path.is_dir, which raises for a statement that is longer than names of files are
        is_folder = os.path.isdir(place)
        if any(sign in text for sign in "\n;(") or (" " in text and not is_folder):
            return False
        return is_folder or "/" in text or "." in text

    def _connect(self, wish: Wish) -> None:
        """Use another database from now on."""
        given = self.shell.user_ns.get(wish.rest)
        opened = given if isinstance(given, Database) else connect(_path(wish.rest), read_only=wish.read_only)
        self.close()
        self.database, self._own = opened, opened is not given

    def _connected(self) -> Database:
        if self.database is None:
            self.database, self._own = connect(), True
            print("snapdb: a temporary database, gone when the kernel ends; %snap PATH opens another", file=sys.stderr)
        return self.database

    def _run(self, text: str, wish: Wish) -> Any:
        """The last result of the statements, which are all read before the first runs; those before it are shown."""
        statements = self._parsed(text)
        _check_parameters(statements, wish.parameters)
        database = self._connected()
        last = None
        for number, statement in enumerate(statements, 1):
            result = self._result(database, statement, wish.parameters)
            shaped = _SHAPES[wish.format](result) if result.is_query else result
            if number < len(statements) and result.is_query:
                display(shaped)
            last = shaped
        if wish.out is None:
            return last
        self.shell.user_ns[wish.out] = last
        return None

    def _parsed(self, text: str) -> tuple[Statement, ...]:
        try:
            return parse(text)
        except ParseError as error:
            if len(text.split()) == 1:
                error.message += f"; to open a new database of that name say %snap ./{text}"
            raise

    def _result(self, database: Database, statement: Statement, parameters: Mapping[str, Any]) -> Result:
        """The result of a statement, with all its rows: a kernel's interrupt stops it, however deep it is."""
        with interruptible(database.interrupt) as pressed:
            result = database.run(statement, parameters or None)
            if result.is_query:
                result.arrow()
        if pressed.is_set():
            raise QueryError("interrupted", code="interrupted")
        return result


def _check_parameters(statements: Sequence[Statement], given: Mapping[str, Any]) -> None:
    """Raise for a parameter that has no value, and for a value that no statement asks for."""
    named = {mark.removeprefix("$"): mark for statement in statements for mark in marks_of(statement)}
    for name, mark in named.items():
        if name.startswith("?"):
            raise InputError(f"{mark} has no value in a notebook; write $name and say -p name", code="notebook-line")
        if name not in given:
            raise InputError(
                f"{mark} has no value; say -p {name} for the variable {name}, or -p {name}=value", code="notebook-line"
            )
    if unused := [name for name in given if name not in named]:
        raise InputError(f"no statement names ${unused[0]}, which -p gives", code="notebook-line")


def _path(text: str) -> Path:
    if text.startswith("-"):
        raise InputError(f"{text!r} is no database; %snap --help tells how to say it", code="notebook-line")
    return Path(text.strip("'\"")).expanduser()

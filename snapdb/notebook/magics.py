"""The `%snap` and `%%snap` magics, which run statements in one open database, and completion of its names."""

import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from keyword import iskeyword
from pathlib import Path
from typing import Any, NamedTuple, cast

from IPython.core.completer import CompletionContext, SimpleCompletion, SimpleMatcherResult, context_matcher
from IPython.core.magic import no_var_expand
from IPython.display import display

from snapdb.database import Database, connect
from snapdb.errors import InputError, ParseError, QueryError, SnapdbError
from snapdb.execute.results import Result
from snapdb.interrupts import interruptible
from snapdb.pictures.growth import charts_html
from snapdb.plan.variables import caller_variables
from snapdb.sql import parse
from snapdb.sql.queries import marks_of, value_of
from snapdb.sql.reference import help_text
from snapdb.sql.show import Show, Summarize
from snapdb.sql.syntax import Statement
from snapdb.types.text import did_you_mean

_FORMATS = ("result", "df", "arrow", "polars")

_USAGE = f"""\
%load_ext snapdb
%snap shop.snapdb                    open a database (--read-only: never write to it), or the one in a variable
%snap SELECT …                       run a statement; rows = %snap SELECT … keeps its result
%%snap [OPTIONS]                     run the statements of the cell
  -o, --out NAME                     keep the last result in the variable NAME instead of showing it
  -f, --format {"|".join(_FORMATS)}   type of the result
  -p, --param NAME[=VALUE]           the value of $NAME; without VALUE, the value of the variable NAME
%snap \\h STATEMENT                   show the syntax of a statement; without STATEMENT list the statements
%snap --close                        close the database"""

_WORD = re.compile(r"\s*('(?:[^']|'')*'|\"[^\"]*\"|\S+)")
_NAME = re.compile(r"(?!\d)\w+")
_SYNTAX = re.compile(r"\\h\b\s*(.*)", re.DOTALL)
_COLUMNS = 100
"""The number of characters in a line of help."""


class _MagicOptions(NamedTuple):
    """The options on a magic's line, and the text after them."""

    rest: str
    """The text after the options, which is a database, statements or nothing."""
    parameters: Mapping[str, Any]
    out: str | None = None
    format: str = "result"
    read_only: bool = False
    close: bool = False
    help: bool = False


def _read(line: str, variables: Mapping[str, Any]) -> _MagicOptions:
    """Parse the options of a line. It reads only the variables that `--param` names.

    >>> _read("--out rows -f df --param n SELECT $n", {"n": 7})[:4]
    ('SELECT $n', {'n': 7}, 'rows', 'df')

    Raises:
        InputError: An option is unknown or has no value, or a variable does not exist.
    """
    options: dict[str, Any] = {}
    parameters: dict[str, Any] = {}
    rest = line.strip()
    # A double hyphen and a blank start an SQL comment, not an option.
    while rest.startswith("-") and not rest.startswith("--  ") and not re.match(r"--\s", rest):
        word, rest = _word(rest)
        name, equals, value = word.partition("=")
        if name not in _OPTIONS:
            raise InputError(
                f"unknown option {name} of %snap{did_you_mean(name, _OPTIONS)}; %snap --help lists the options",
                code="notebook-line",
            )
        option, takes = _OPTIONS[name]
        if takes and not equals:
            value, rest = _word(rest)
            if not value:
                raise InputError(f"{name} needs {takes}; see %snap --help", code="notebook-line")
        if option == "parameters":
            parameters |= _parameter(value, variables)
        else:
            options[option] = _checked(option, value) if takes else True
    return _MagicOptions(rest, parameters, **options)


def _word(text: str) -> tuple[str, str]:
    """Return the first word of a text, without its quotes, and the rest of the text."""
    match = _WORD.match(text)
    if match is None:
        return "", ""
    word, rest = match[1], text[match.end() :].strip()
    return (word[1:-1] if len(word) > 1 and word[0] == word[-1] == '"' else word), rest


def _checked(option: str, value: str) -> str:
    if option == "out" and (not value.isidentifier() or iskeyword(value)):
        raise InputError(f"--out must be the name of a variable, found {value!r}", code="notebook-line")
    if option == "format" and value not in _FORMATS:
        raise InputError(f"--format must be one of {', '.join(_FORMATS)}, found {value!r}", code="notebook-line")
    return value


def _parameter(text: str, variables: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameter from NAME=VALUE, or from NAME, whose value is that of the variable."""
    name, equals, value = text.partition("=")
    name = name.removeprefix("$")
    if not _NAME.fullmatch(name):
        raise InputError(f"--param must be NAME or NAME=VALUE, found {text!r}", code="notebook-line")
    if not equals and name not in variables:
        known = [known for known in variables if not known.startswith("_")]
        raise InputError(
            f"variable {name} does not exist for $" + name + did_you_mean(name, known), code="notebook-line"
        )
    return {name: value_of(value) if equals else variables[name]}


_OPTIONS = {
    "-o": ("out", "the name of a variable"),
    "--out": ("out", "the name of a variable"),
    "-f": ("format", f"one of {', '.join(_FORMATS)}"),
    "--format": ("format", f"one of {', '.join(_FORMATS)}"),
    "-p": ("parameters", "NAME or NAME=VALUE"),
    "--param": ("parameters", "NAME or NAME=VALUE"),
    "--read-only": ("read_only", ""),
    "--close": ("close", ""),
    "-h": ("help", ""),
    "--help": ("help", ""),
}
"""Option → its field of `_MagicOptions`, and a description of its value, which is empty for a switch."""

_CONVERSIONS: Mapping[str, Callable[[Result], Any]] = {
    "result": lambda result: result,
    "df": Result.df,
    "arrow": Result.arrow,
    "polars": Result.pl,
}


class _SnapMagics:
    """The magics of one IPython shell, and the database that they use."""

    def __init__(self, shell: Any) -> None:
        self.shell = shell
        self.database: Database | None = None
        self._own = False

    def snap(self, line: str, cell: str | None = None) -> Any:
        """Open a database or run statements; see `%snap --help`."""
        try:
            return self._snap(line, cell)
        except SnapdbError as error:
            # The mistake is in the statement rather than in Python code, so the error itself is rendered in IPython.
            shown = error.report().splitlines()
            vars(error)["_render_traceback_"] = lambda: shown
            raise error.with_traceback(None) from None

    def close(self) -> None:
        """Close the database if the magic opened it, and stop using it."""
        if self.database is not None and self._own:
            self.database.close()
        self.database, self._own = None, False

    def _snap(self, line: str, cell: str | None) -> Any:
        options = _read(line, self.shell.user_ns)
        if options.help:
            print(_USAGE)
            return None
        if options.close:
            return self.close()
        if cell is None and (asked := _SYNTAX.match(options.rest)) is not None:
            return self._syntax(asked[1])
        if cell is not None:
            if options.rest:
                self._connect(options)
            return self._run(cell, options)
        if options.rest and not self._is_place(options.rest):
            return self._run(options.rest, options)
        if options.rest:
            self._connect(options)
        return self._connected()

    def _syntax(self, words: str) -> None:
        """Print the syntax of a statement, like `\\h` in the prompt."""
        try:
            print(help_text(words, _COLUMNS))
        except ValueError as error:
            raise InputError(f"{error}; %snap \\h lists the statements", code="notebook-line") from None

    def _is_place(self, text: str) -> bool:
        """Return whether a line names a database rather than a statement."""
        if isinstance(self.shell.user_ns.get(text), Database):
            return True
        place = _path(text)
        # Not Path.is_dir, which raises if a statement is longer than a file name may be.
        is_folder = os.path.isdir(place)
        if any(sign in text for sign in "\n;(") or (" " in text and not is_folder):
            return False
        return is_folder or "/" in text or "." in text

    def _connect(self, options: _MagicOptions) -> None:
        """Use another database from now on."""
        given = self.shell.user_ns.get(options.rest)
        opened = given if isinstance(given, Database) else connect(_path(options.rest), read_only=options.read_only)
        self.close()
        self.database, self._own = opened, opened is not given

    def _connected(self) -> Database:
        if self.database is None:
            self.database, self._own = connect(), True
            print("snapdb: temporary database, removed when the kernel ends; %snap PATH opens another", file=sys.stderr)
        return self.database

    def _run(self, text: str, options: _MagicOptions) -> Any:
        """Run the statements, all of which are parsed first. Display all results but the last, which is returned."""
        statements = self._parsed(text)
        _check_parameters(statements, options.parameters)
        database = self._connected()
        last = None
        for number, statement in enumerate(statements, 1):
            result = self._result(database, statement, options.parameters)
            shaped = _CONVERSIONS[options.format](result) if result.is_query else result
            if number < len(statements) and result.is_query:
                display(shaped)
            last = shaped
        if options.out is None:
            return last
        self.shell.user_ns[options.out] = last
        return None

    def _parsed(self, text: str) -> tuple[Statement, ...]:
        try:
            return parse(text)
        except ParseError as error:
            if len(text.split()) == 1:
                error.message += f"; to create a database of that name, write %snap ./{text}"
            raise

    def _result(self, database: Database, statement: Statement, parameters: Mapping[str, Any]) -> Result:
        """Return the result of a statement with all its rows, so that an interrupt of the kernel stops the query."""
        with interruptible(database.interrupt) as pressed:
            with caller_variables(self.shell.user_ns.get):
                result = database.run(statement, parameters or None)
            if result.is_query:
                table = result.arrow()
                result.charts = charts_html(table) if _has_charts(statement) else ""
        if pressed.is_set():
            raise QueryError("interrupted", code="interrupted")
        return result


def _has_charts(statement: Statement) -> bool:
    """Return whether a statement's result is shown with charts: SHOW VERSIONS and SUMMARIZE SNAPSHOT."""
    return isinstance(statement, Summarize) or (isinstance(statement, Show) and statement.what == "VERSIONS")


def _check_parameters(statements: Sequence[Statement], given: Mapping[str, Any]) -> None:
    """Raise InputError for a parameter without a value, or for a value that no statement uses."""
    named = {mark.removeprefix("$"): mark for statement in statements for mark in marks_of(statement)}
    for name, mark in named.items():
        if name.startswith("?"):
            raise InputError(f"{mark} has no value in a notebook; write $name and pass -p name", code="notebook-line")
        if name not in given:
            raise InputError(
                f"{mark} has no value; pass -p {name} for the variable {name}, or -p {name}=value", code="notebook-line"
            )
    if unused := [name for name in given if name not in named]:
        raise InputError(f"no statement uses ${unused[0]}, which -p passes", code="notebook-line")


def _path(text: str) -> Path:
    if text.startswith("-"):
        raise InputError(f"{text!r} is not a database; see %snap --help", code="notebook-line")
    return Path(text.strip("'\"")).expanduser()


_LOADED = "_snapdb"
"""The attribute of IPython's shell that stores the loaded magics."""
_MOST = 200
"""The maximum number of names that are offered at once."""
_LINE = re.compile(r"^\s*(?:[\w.,\s]+=\s*)?%snap\s")


def load_ipython_extension(shell: Any) -> None:
    """Add the magics and their completion to an IPython shell, unless they are already loaded."""
    if getattr(shell, _LOADED, None) is None:
        magics = _SnapMagics(shell)

        def snap(line: str, cell: str | None = None) -> Any:
            """Open a database or run statements; see `%snap --help`."""
            return magics.snap(line, cell)

        # Otherwise IPython replaces $name in a statement with the value of that variable.
        shell.register_magic_function(no_var_expand(snap), "line_cell", "snap")
        matcher = _matcher(magics)
        shell.Completer.custom_matchers.append(matcher)
        setattr(shell, _LOADED, (magics, matcher))


def unload_ipython_extension(shell: Any) -> None:
    """Remove the magics and close the database that they opened."""
    if (loaded := getattr(shell, _LOADED, None)) is not None:
        magics, matcher = loaded
        magics.close()
        shell.Completer.custom_matchers.remove(matcher)
        for kind in ("line", "cell"):
            shell.magics_manager.magics[kind].pop("snap", None)
        setattr(shell, _LOADED, None)


def _matcher(magics: _SnapMagics) -> Callable[[CompletionContext], SimpleMatcherResult]:
    """Return a matcher for IPython that offers tables, graphs, snapshots and columns in magic lines."""

    def names(context: CompletionContext) -> SimpleMatcherResult:
        if not _is_ours(context):
            return SimpleMatcherResult(completions=[])
        start = re.split(r"\W", context.token)[-1].casefold()
        offered = [name for name in _names(magics) if name.casefold().startswith(start)]
        return SimpleMatcherResult(
            completions=[SimpleCompletion(name, type="snapdb") for name in offered[:_MOST]],
            suppress=bool(offered),
            matched_fragment=start,
        )

    matcher: Callable[[CompletionContext], SimpleMatcherResult] = context_matcher(identifier="snapdb")(names)
    return matcher


def _is_ours(context: CompletionContext) -> bool:
    first: str = context.full_text.lstrip().partition("\n")[0]
    if first.startswith("%%"):
        return first.startswith("%%snap") and int(context.cursor_line) > 0
    return _LINE.match(context.line_with_cursor) is not None


def _names(magics: _SnapMagics) -> list[str]:
    """Return all names in the database, without duplicates; empty if no database is open or it cannot be read."""
    if magics.database is None:
        return []
    try:
        kinds = cast("Mapping[str, list[str]]", magics.database.names())
    except SnapdbError:
        return []
    return list(dict.fromkeys(name for names in kinds.values() for name in names))

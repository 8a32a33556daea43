"""The state of one prompt: a shell, preferences, the last statements, and the destination of results."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
from prompt_toolkit.history import History, InMemoryHistory

from snapdb.catalog.vocabulary import Vocabulary
from snapdb.database import Database, connect
from snapdb.errors import ParseError, SnapdbError
from snapdb.plan.show import DropPlan
from snapdb.remote import is_url, shown_place
from snapdb.sql.lexer import parts
from snapdb.sql.maintenance import ExpireSnapshots, Vacuum
from snapdb.sql.show import Drop
from snapdb.sql.syntax import Statement
from snapdb.types.text import counted
from snapdb_cli.commands.arguments import Settings, format_of
from snapdb_cli.diagnostics import Diagnostics, ExitCode
from snapdb_cli.output import Output
from snapdb_cli.repl.preferences import Preferences
from snapdb_cli.repl.words import DatabaseNames
from snapdb_cli.shell import Shell
from snapdb_cli.terminal import Pager, PagerClosed

_COMMAND_LINE = re.compile(r"\s*[\\.][A-Za-z?!]")

_NAMED = 8
"""The maximum number of names in a question. Any further names are only counted."""


class ReplSession:
    """The state of one prompt, which commands change. It is also the front end of its shell."""

    def __init__(
        self,
        database: Database,
        output: Output,
        diagnostics: Diagnostics,
        preferences: Preferences | None = None,
        *,
        pager: Pager | None = None,
        history: History | None = None,
        settings: Settings | None = None,
        ask: Callable[[str], bool] | None = None,
    ) -> None:
        settings = settings or Settings()
        self.shell = Shell(
            database,
            output,
            diagnostics,
            keep_going=settings.keep_going,
            parameters=settings.parameters or None,
            front=self,
        )
        self.history = InMemoryHistory() if history is None else history
        self.opening = settings.opening
        """The keyword arguments of `connect` for opening other databases."""
        self._pager = pager
        self._ask = ask
        self.last = ""
        """The last statements that ran."""
        self.next_target = ""
        """The file or program that receives only the results of the next statements."""
        self.draft = ""
        """The initial text of the next prompt."""
        self._files: list[Path] = []
        self._of_file: str | None = None
        """The format implied by the output file's extension, if any."""
        self._known: tuple[Vocabulary | None, DatabaseNames] = (None, DatabaseNames())
        """The names that the database last reported, and the same names for completion."""
        self.preferences = preferences or Preferences()
        self.apply()

    @property
    def database(self) -> Database:
        """The open database."""
        return self.shell.database

    def confirm(self, statement: Statement) -> bool:
        """Return whether a typed statement should run. Asks the user before statements that remove something."""
        if self._ask is None or not self.preferences.confirm:
            return True
        text = _question(self.database, statement)
        return text is None or self._ask(text)

    def abandon(self) -> None:
        """Discard the buffered output of a result that ended before its last row."""
        if self._pager is not None:
            self._pager.drop()

    def may_leave(self) -> bool:
        """Return whether the prompt can end. Asks the user if a transaction is open."""
        if self._ask is None or self.state() != "open" or not self.preferences.confirm:
            return True
        return self._ask("a transaction is open; roll it back and quit?")

    def say(self, text: str) -> None:
        """Write a message to stderr."""
        self.shell.diagnostics.say(text)

    def show(self, text: str) -> None:
        """Show a text in the pager if it is longer than the screen."""
        if self._pager is None or not self._pager.isatty():
            self.say(text)
            return
        with suppress(PagerClosed):
            self._pager.write(text + "\n")
            self._pager.flush()

    def set(self, name: str, given: Any) -> None:
        """Change a preference for this session. Raises ValueError if the preference or the value is not valid."""
        self.preferences = self.preferences.changed(name, given)
        self.apply()

    def apply(self) -> None:
        """Apply the preferences to the output, the shell and the pager."""
        wanted, output = self.preferences, self.shell.output
        self._set_format()
        output.style = replace(
            output.style,
            null=None if wanted.null == Preferences().null else wanted.null,  # each format has its own default
            header=wanted.header,
            screen_rows=wanted.max_rows,
            seconds=wanted.times == "seconds",
            expanded=wanted.expanded,
            hint="\\x, \\maxrows all and \\pager on show all",
        )
        self.shell.timing = wanted.timing
        if self._pager is not None:
            self._pager.setting = wanted.pager

    def known(self) -> DatabaseNames:
        """Return the names that completion offers."""
        names = self.shell.names()
        if names is not self._known[0]:
            self._known = names, DatabaseNames() if names is None else DatabaseNames.from_names(names)
        return self._known[1]

    def execute(self, text: str) -> ExitCode:
        """Run the typed text, and record it as the last one."""
        self.last = text.strip()
        return self.shell.execute(text)

    def run_file(self, given: str, run_command: Callable[[ReplSession, str], None]) -> ExitCode:
        """Run the statements and commands of a file. Relative paths are resolved against the file's directory."""
        path = Path(given).expanduser()
        if self._files and not path.is_absolute():
            path = self._files[-1].parent / path
        if path in self._files:
            raise ValueError(f"{given} runs itself; remove its \\i command")
        text = path.read_text(encoding="utf-8-sig")
        self._files.append(path)
        try:
            return self._run_pieces(text, given, run_command)
        finally:
            self._files.pop()

    def _run_pieces(self, text: str, origin: str, run_command: Callable[[ReplSession, str], None]) -> ExitCode:
        code = ExitCode.OK
        for piece, is_command in _pieces(text):
            if is_command:
                run_command(self, piece)
            elif piece.strip():
                code = self.shell.execute(piece, origin)
            if code is not ExitCode.OK and not self.shell.keep_going:
                return code
        return code

    def open(self, path: str) -> None:
        """Switch to another database, or to a temporary one for ''. If this fails, the current one remains open."""
        place = path if is_url(path) else Path(path).expanduser() if path else None
        opened = connect(place, **({} if place is None or is_url(place) else self.opening))
        before, self.shell.database = self.shell.database, opened
        before.close()

    @contextmanager
    def once(self, target: str) -> Iterator[None]:
        """Send the results of the block to a file or, with `|`, to a program."""
        self.send(target)
        try:
            yield
        finally:
            self.send("")

    def send(self, target: str) -> None:
        """Send results to a file, to a program if the target starts with `|`, or to the screen if it is empty.

        If the preferred format is table, the file's extension determines the format.
        """
        program = target.startswith("|")
        if program and self._pager is None:
            raise ValueError("results can be sent to a program only at a prompt")
        file = Path(target).expanduser() if target and not program else None
        try:
            of_file = format_of(None, file)
        except click.UsageError as error:
            if self.preferences.format == "table":
                raise ValueError(error.message) from None
            of_file = None
        self.shell.output.redirect(file)
        self._of_file = of_file
        self._set_format()
        if self._pager is not None:
            self._pager.pipe(target[1:].strip() if program else None)

    def _set_format(self) -> None:
        wanted = self.preferences.format
        self.shell.output.format = (wanted == "table" and self._of_file) or wanted

    def state(self) -> str:
        """Return the state of the transaction: idle, open or failed."""
        return self.database.transaction_state

    def close(self) -> None:
        """Close the database, which rolls back an open transaction, and the file or program for results."""
        if self.state() != "idle":
            self.say("the open transaction was rolled back")
        self.send("")
        self.database.close()

    def title(self) -> str:
        """Return the name of the database, which is the name of its directory."""
        if self.database.temporary:
            return "temporary"
        return os.path.basename(shown_place(self.database.path.absolute()))


def _pieces(text: str) -> Iterator[tuple[str, bool]]:
    """Yield the statements and the command lines of a file, in order. Commands must be between statements."""
    held = ""
    for line in text.splitlines(keepends=True):
        if _COMMAND_LINE.match(line) and not _open(held):
            yield held, False
            yield line.strip(), True
            held = ""
        else:
            held += line
    yield held, False


def _open(text: str) -> bool:
    """Return whether the last statement of a text is incomplete."""
    try:
        statements = list(parts(text))
    except ParseError:
        return True
    return bool(statements) and not statements[-1].ended


def _question(database: Database, statement: Statement) -> str | None:
    """Return the question to ask before a statement runs, or None if it does not remove anything or would fail."""
    idle = database.transaction_state == "idle"  # in a transaction, the other statements raise errors
    with suppress(SnapdbError):
        match statement:
            case Drop():
                return _drop(database, statement)
            case ExpireSnapshots(dry_run=False) if idle:
                return _expire(database, statement)
            case Vacuum(dry_run=False) if idle:
                return _vacuum(database, statement)
    return None


def _drop(database: Database, statement: Drop) -> str | None:
    plan = database.plan(statement)
    if not isinstance(plan, DropPlan):
        return None  # no object has that name
    kind = statement.kind.lower()
    names = sorted(f"{type(d).__name__.removeprefix('Property').lower()} {d.name}" for d in plan.dependants)
    also = f" and its dependents ({_listed(names)})" if names else ""
    return f"drop {kind} {plan.target.name}{also}?"


def _expire(database: Database, statement: ExpireSnapshots) -> str | None:
    rows = _rows(database, replace(statement, dry_run=True))
    names = [str(row["snapshot"]) for row in rows if row["action"] == "expire"]
    return f"expire {counted(len(names), 'snapshot')}: {_listed(names)}?" if names else None


def _vacuum(database: Database, statement: Vacuum) -> str | None:
    rows = [row for row in _rows(database, replace(statement, dry_run=True)) if row["action"] != "keep"]
    size = sum(row["bytes"] or 0 for row in rows)
    return f"merge or remove {counted(len(rows), 'item')}, {size:,} bytes?" if rows else None


def _rows(database: Database, statement: Statement) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = database.run(statement).arrow().to_pylist()
    return rows


def _listed(names: list[str]) -> str:
    more = [f"{len(names) - _NAMED} more"] if len(names) > _NAMED else []
    return ", ".join([*names[:_NAMED], *more])

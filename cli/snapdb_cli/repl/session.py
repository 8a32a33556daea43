"""The state of one prompt: a shell, preferences, what ran last, and where results go."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
from prompt_toolkit.completion import CompleteEvent, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.history import History, InMemoryHistory

from snapdb.database import Database, connect
from snapdb.errors import ParseError
from snapdb.sql.lexer import parts
from snapdb_cli.commands.arguments import format_of
from snapdb_cli.completion.names import Known
from snapdb_cli.diagnostics import ExitCode
from snapdb_cli.output.pager import Screen
from snapdb_cli.repl.preferences import Preferences, changed
from snapdb_cli.shell import Shell

_COMMAND_LINE = re.compile(r"\s*[\\.][A-Za-z?!]")


class Session:
    """The state of one prompt; commands change it."""

    def __init__(
        self,
        shell: Shell,
        preferences: Preferences | None = None,
        *,
        screen: Screen | None = None,
        history: History | None = None,
        opening: dict[str, Any] | None = None,
    ) -> None:
        self.shell = shell
        self.screen = screen
        """Where results go when it is not a stream of somebody else's."""
        self.history = InMemoryHistory() if history is None else history
        self.opening = opening or {}
        """How another database is opened."""
        self.last = ""
        """The statements that were run last."""
        self.next_target = ""
        """Where the results of the next statements go, once."""
        self.draft = ""
        """What the next prompt begins with."""
        self.run_command: Callable[[Session, str], None] = lambda session, text: None
        """Runs a command line in a file."""
        self.completer: Callable[[Document, CompleteEvent], Iterable[Completion]] = lambda document, event: ()
        self._files: list[Path] = []
        self._of_file: str | None = None
        """What the suffix of the file says where results go, if any."""
        self._named: tuple[Any, Known] = (None, Known())
        if screen is not None:
            shell.abandon = screen.drop
        self.preferences = preferences or Preferences()
        self.apply()

    @property
    def database(self) -> Database:
        """The database that is open."""
        return self.shell.database

    def say(self, text: str) -> None:
        """Tell the person something that is no result."""
        self.shell.diagnostics.say(text)

    def set(self, name: str, given: Any) -> None:
        """Change a preference for this session. Raises ValueError when there is none such, or no such value."""
        self.preferences = changed(self.preferences, name, given)
        self.apply()

    def apply(self) -> None:
        """Let the preferences count."""
        wanted, output = self.preferences, self.shell.output
        self._format()
        null = None if wanted.null == Preferences().null else wanted.null  # each format has its own way
        output.look = replace(output.look, null=null, header=wanted.header)
        output.screen_rows = wanted.max_rows
        output.expanded = wanted.expanded
        output.hint = "\\maxrows all and \\x show everything"
        self.shell.timing = wanted.timing
        if self.screen is not None:
            self.screen.pager = wanted.pager

    def known(self) -> Known:
        """The names that completion offers."""
        names = self.shell.names()
        if names is not self._named[0]:
            self._named = names, Known.found(names)
        return self._named[1]

    def execute(self, text: str) -> ExitCode:
        """Run what a person typed, and remember it."""
        self.last = text.strip()
        return self.shell.execute(text)

    def run_file(self, given: str) -> ExitCode:
        """Run the statements and commands of a file; a relative path is looked for beside the file that names it."""
        path = Path(given).expanduser()
        if self._files and not path.is_absolute():
            path = self._files[-1].parent / path
        if path in self._files:
            raise ValueError(f"{given} runs itself; take its \\i out")
        text = path.read_text(encoding="utf-8-sig")
        self._files.append(path)
        try:
            return self._run_pieces(text, given)
        finally:
            self._files.pop()

    def _run_pieces(self, text: str, origin: str) -> ExitCode:
        code = ExitCode.OK
        for piece, is_command in _pieces(text):
            if is_command:
                self.run_command(self, piece)
            elif piece.strip():
                code = self.shell.execute(piece, origin)
            if code is not ExitCode.OK and not self.shell.keep_going:
                return code
        return code

    def open(self, path: str) -> None:
        """Work with another database from now on; None for a temporary one. Raises SnapdbError, and keeps this one."""
        place = Path(path).expanduser() if path else None
        opened = connect(place, **({} if place is None else self.opening))
        before, self.shell.database = self.shell.database, opened
        before.close()

    @contextmanager
    def once(self, target: str) -> Iterator[None]:
        """Send the results of the block to a file, or with `|` to a program."""
        self.send(target)
        try:
            yield
        finally:
            self.send("")

    def send(self, target: str) -> None:
        """Send results to a file, with `|` before it to a program, and back to the screen for nothing.

        A table becomes what the file's suffix says.
        """
        program = target.startswith("|")
        if program and self.screen is None:
            raise ValueError("results go to a program only from a prompt")
        file = Path(target).expanduser() if target and not program else None
        try:
            of_file = format_of(None, file)
        except click.UsageError as error:
            if self.preferences.format == "table":
                raise ValueError(error.message) from None
            of_file = None
        self.shell.output.redirect(file)
        self._of_file = of_file
        self._format()
        if self.screen is not None:
            self.screen.pipe(target[1:].strip() if program else None)

    def _format(self) -> None:
        said = self.preferences.format
        self.shell.output.format = (said == "table" and self._of_file) or said

    def state(self) -> str:
        """The state of the transaction: idle, open or failed."""
        return self.database.transaction_state

    def complete(self, document: Document, event: CompleteEvent) -> Iterable[Completion]:
        """The completions at a place."""
        return self.completer(document, event)

    def close(self) -> None:
        """Let go of everything; an open transaction is rolled back."""
        if self.state() != "idle":
            self.say("the open transaction was rolled back")
        self.send("")
        self.database.close()

    def title(self) -> str:
        """What the database is called: its folder's name."""
        return "temporary" if self.database.temporary else os.path.basename(os.path.abspath(self.database.path))


def _pieces(text: str) -> Iterator[tuple[str, bool]]:
    """The statements and the command lines of a file in order; a command starts a line where no statement is open."""
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
    """Whether the last statement of a text goes on."""
    try:
        found = list(parts(text))
    except ParseError:
        return True
    return bool(found) and not found[-1].ended

"""The prompt: lines in, statements and commands run, until the user leaves."""

from __future__ import annotations

import os
from pathlib import Path

from prompt_toolkit import PromptSession
from prompt_toolkit.auto_suggest import AutoSuggestFromHistory
from prompt_toolkit.filters import completion_is_selected, has_focus
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent

from snapdb import __version__
from snapdb.database import connect
from snapdb.sql.split import is_complete

from .commands import Leave, is_command, run_command
from .completion import NamesCompleter, highlighter
from .diagnostics import Diagnostics, ExitCode
from .output import Output
from .shell import Shell

__all__ = ["history_file", "loop", "run"]

_PROMPTS = {"idle": "snapdb> ", "open": "snapdb*> ", "failed": "snapdb!> "}
"""By the state of the transaction."""
_CONTINUED = "   ...> "


def run(
    path: Path | None,
    diagnostics: Diagnostics,
    *,
    format: str,  # noqa: A002  # the option's name
    read_only: bool,
    keep_going: bool,
) -> ExitCode:
    """Open the database and serve a person at a terminal."""
    with connect(path, read_only=read_only) as database:
        shell = Shell(database, Output(format), diagnostics, keep_going=keep_going)
        place = "a temporary database, removed when you leave" if path is None else str(path)
        diagnostics.narrate(f"snapdb {__version__} on {place}{' (read only)' if read_only else ''}")
        diagnostics.narrate("Statements end with ; and \\? shows help, \\q leaves.")
        loop(shell)
        if database.transaction_state != "idle":
            diagnostics.say("the open transaction was rolled back")
    return ExitCode.OK


def loop(shell: Shell) -> None:
    """Read and run until the user leaves."""
    session = _session(shell)
    while True:
        try:
            text = session.prompt(_PROMPTS[shell.database.transaction_state])
        except KeyboardInterrupt:
            continue  # the line is cleared
        except EOFError:
            return
        try:
            if is_command(text):
                run_command(shell, text)
            else:
                shell.execute(text)
        except Leave:
            return


def history_file() -> Path:
    """Where what was typed is kept between sessions."""
    state = os.environ.get("XDG_STATE_HOME")
    return (Path(state) if state else Path.home() / ".local" / "state") / "snapdb" / "history"


def _history() -> History:
    """The file when it can be written, else only this session's memory."""
    try:
        path = history_file()
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        os.close(os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600))  # what people type may be private
    except (OSError, RuntimeError):  # RuntimeError: there is no home
        return InMemoryHistory()
    return FileHistory(path)


def _session(shell: Shell) -> PromptSession[str]:
    return PromptSession(
        prompt_continuation=_CONTINUED,
        multiline=True,
        key_bindings=_keys(),
        lexer=highlighter(),
        completer=NamesCompleter(shell.names),
        complete_while_typing=False,
        auto_suggest=AutoSuggestFromHistory(),
        history=_history(),
    )


def _keys() -> KeyBindings:
    keys = KeyBindings()

    @keys.add("enter", filter=has_focus("DEFAULT_BUFFER") & ~completion_is_selected)
    def _(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        text = buffer.text
        if not text.strip() or is_command(text) or is_complete(text):
            buffer.validate_and_handle()
        else:
            buffer.insert_text("\n")

    @keys.add("enter", filter=has_focus("DEFAULT_BUFFER") & completion_is_selected)
    def _(event: KeyPressEvent) -> None:
        event.current_buffer.complete_state = None  # takes the selected completion and stays on the line

    return keys

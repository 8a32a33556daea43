"""Lines in, statements and commands run, until the user leaves."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from prompt_toolkit import PromptSession
from prompt_toolkit.completion import CompleteEvent, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.history import History

from snapdb.database import connect
from snapdb.sql.syntax import Statement

from .commands import run_command, run_typed
from .commands_core import Leave
from .completion import NamesCompleter, suggest
from .completion_names import Known
from .config import Preferences, changed, start_file
from .diagnostics import Diagnostics
from .output import Output
from .pager import Screen
from .repl_confirm import question
from .repl_prompt import line, make_prompt
from .repl_session import Session
from .settings import Settings
from .shell import Shell


def open_session(
    path: Path | None, diagnostics: Diagnostics, settings: Settings, preferences: Preferences, history: History
) -> Session:
    """A session on the database at `path`. Raises SnapdbError when it cannot be opened."""
    for name in ("format", "null"):
        if (said := getattr(settings, name)) is not None:
            preferences = changed(preferences, name, said)
    if not settings.header:
        preferences = changed(preferences, "header", False)
    database = connect(path, **settings.opening)
    screen: Any = Screen(pager=preferences.pager)
    shell = Shell(
        database, Output(stream=screen, max_rows=settings.max_rows), diagnostics, keep_going=settings.keep_going
    )
    shell.parameters = settings.parameters or None
    session = at_prompt(Session(shell, preferences, screen=screen, history=history, opening=settings.opening))
    if settings.config and start_file().is_file():
        run_command(session, f"\\i {start_file()}")
    return session


def at_prompt(session: Session) -> Session:
    """The same session, which may now ask the person who sits there."""
    session.run_command = run_command
    session.completer = lambda document, event: _completions(session, document, event)
    session.shell.confirm = lambda statement: _agreed(session, statement)
    return session


def warm() -> None:
    """Build the grammars, which completion asks."""
    suggest("", Known())


def _completions(session: Session, document: Document, event: CompleteEvent) -> Iterable[Completion]:
    return NamesCompleter(session.known).get_completions(document, event)


def loop(session: Session, prompt: PromptSession[str] | None = None) -> None:
    """Read and run until the user leaves."""
    at_prompt(session)
    prompt = prompt or make_prompt(session, session.history)
    while True:
        try:
            text = line(prompt, session)
        except KeyboardInterrupt:
            continue  # the line is cleared
        except EOFError:
            if _may_leave(session):
                return
            continue
        if not run_line(session, text):
            return


def run_line(session: Session, text: str) -> bool:
    """Run what was typed; whether the session goes on."""
    try:
        run_typed(session, text)
    except KeyboardInterrupt:
        session.say("interrupted")
    except Leave:
        return not _may_leave(session)
    return True


def _ask(text: str) -> bool:
    """Whether a person says yes; Enter, Ctrl-C and Ctrl-D mean no."""
    try:
        answer = PromptSession[str]().prompt(f"{text} [y/N] ")
    except (KeyboardInterrupt, EOFError):
        return False
    return answer.strip().lower() in ("y", "yes")


def _agreed(session: Session, statement: Statement) -> bool:
    """Whether a statement that takes something away shall run."""
    if not session.preferences.confirm:
        return True
    asked = question(session.database, statement)
    return asked is None or _ask(asked)


def _may_leave(session: Session) -> bool:
    if session.state() != "open" or not session.preferences.confirm:
        return True
    return _ask("a transaction is open; leave, and roll it back?")

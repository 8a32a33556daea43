"""The prompt's loop: reads lines, runs them, and asks for confirmation before data is lost."""

from pathlib import Path
from typing import TextIO, cast

from prompt_toolkit import PromptSession
from prompt_toolkit.history import History

from snapdb.database import connect
from snapdb_cli.commands.arguments import Settings
from snapdb_cli.diagnostics import Diagnostics
from snapdb_cli.output import Output, OutputStyle
from snapdb_cli.repl.commands import Leave, run_command, run_typed
from snapdb_cli.repl.completer import NamesCompleter, suggest
from snapdb_cli.repl.preferences import Preferences, start_file
from snapdb_cli.repl.prompt import line, make_prompt
from snapdb_cli.repl.session import ReplSession
from snapdb_cli.repl.words import DatabaseNames
from snapdb_cli.terminal import Pager


def open_session(
    path: Path | None, diagnostics: Diagnostics, settings: Settings, preferences: Preferences, history: History
) -> ReplSession:
    """Open a session on the database at `path`. Raises SnapdbError if it cannot be opened."""
    for name in ("format", "null"):
        if (value := getattr(settings, name)) is not None:
            preferences = preferences.changed(name, value)
    if not settings.header:
        preferences = preferences.changed("header", False)
    database = connect(path, **settings.opening)
    pager = Pager(setting=preferences.pager)
    output = Output(stream=cast(TextIO, pager), style=OutputStyle(max_rows=settings.max_rows))
    session = ReplSession(
        database, output, diagnostics, preferences, pager=pager, history=history, settings=settings, ask=ask
    )
    if settings.config and start_file().is_file():
        run_command(session, f"\\i {start_file()}")
    return session


def warm() -> None:
    """Build the grammars that completion needs."""
    suggest("", DatabaseNames())


def loop(session: ReplSession, prompt: PromptSession[str] | None = None) -> None:
    """Read and run lines until the user exits."""
    prompt = prompt or make_prompt(session, session.history, NamesCompleter(session.known))
    while True:
        try:
            text = line(prompt, session)
        except KeyboardInterrupt:
            continue  # Ctrl-C clears the line
        except EOFError:
            if session.may_leave():
                return
            continue
        if not run_line(session, text):
            return


def run_line(session: ReplSession, text: str) -> bool:
    """Run a typed line. Returns False if the prompt ends."""
    try:
        run_typed(session, text)
    except KeyboardInterrupt:
        session.say("interrupted")
    except Leave:
        return not session.may_leave()
    return True


def ask(text: str) -> bool:
    """Return whether the user answers yes. Enter, Ctrl-C and Ctrl-D mean no."""
    try:
        answer = PromptSession[str]().prompt(f"{text} [y/N] ")
    except (KeyboardInterrupt, EOFError):
        return False
    return answer.strip().lower() in ("y", "yes")

"""Opens the prompt. It appears immediately, because a thread imports the engine while the user reads and types."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from prompt_toolkit.application import get_app
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.history import History

from snapdb.errors import SnapdbError
from snapdb.release import __version__
from snapdb.remote import shown_place
from snapdb_cli.commands.arguments import Settings, module
from snapdb_cli.diagnostics import Diagnostics, ExitCode
from snapdb_cli.repl.preferences import Preferences, config_file, load, start_file
from snapdb_cli.repl.prompt import history, line, make_prompt

if TYPE_CHECKING:
    from snapdb_cli.repl.session import ReplSession


def run(path: Path | None, diagnostics: Diagnostics, settings: Settings) -> ExitCode:
    """Open the database, and run the prompt until the user exits."""
    preferences, wrong = load(config_file()) if settings.config else (Preferences(), [])
    for complaint in wrong:
        diagnostics.say(complaint)
    place = "a temporary database, deleted on exit" if path is None else shown_place(path)
    diagnostics.narrate(f"snapdb {__version__} on {place}{' (read-only)' if settings.read_only else ''}")
    if path is not None and not settings.read_only and not path.exists() and path.absolute().parent.is_dir():
        diagnostics.announce(f"{path} does not exist, so a new database is created")
    diagnostics.narrate("Statements end with ;. \\? shows help, and \\q quits.")
    entries = history()
    opening = _Opening(path, diagnostics, settings, preferences, entries)
    try:
        _serve(opening, settings, entries)
    except SnapdbError as error:
        return diagnostics.report(error)
    finally:
        opening.close()
    return ExitCode.OK


class _Opening:
    """The host of the prompt while the session is opened in the background."""

    def __init__(
        self,
        path: Path | None,
        diagnostics: Diagnostics,
        settings: Settings,
        preferences: Preferences,
        history: History,
    ) -> None:
        self.preferences = preferences
        self.draft = ""
        self.session: ReplSession | None = None
        self._path = path
        self._arguments = (path, diagnostics, settings, preferences, history)
        self._loading: threading.Thread | None = None
        self._loaded = threading.Event()

    def begin(self, *_: object) -> None:
        """Start importing the session's modules, and then open the session. Called once the prompt has been drawn."""
        if self._loading is None:
            loop = get_app().loop
            self._loading = threading.Thread(target=self._load, args=(loop,), name="snapdb-loading", daemon=True)
            self._loading.start()

    def _load(self, loop: asyncio.AbstractEventLoop | None) -> None:
        try:
            loaded = _load()
        finally:
            self._loaded.set()
        if loop is not None:
            with contextlib.suppress(RuntimeError):  # the first line has already been entered
                loop.call_soon_threadsafe(self._open)
        loaded.warm()

    def _open(self) -> None:
        """Open the session while the user types. If that fails, end the prompt."""
        try:
            self.wait()
        except SnapdbError as error:
            if get_app().is_running:
                get_app().exit(exception=error)

    def wait(self) -> ReplSession:
        """Return the session, opening it first if necessary. Raises KeyboardInterrupt on Ctrl-C."""
        if self.session is None:
            if self._loading is not None:
                self._loaded.wait()  # Ctrl-C during an import that another thread also runs can deadlock both
            session: ReplSession = _load().open_session(*self._arguments)
            self.session, self.preferences = session, session.preferences
        return self.session

    def title(self) -> str:
        """Return the name of the database."""
        if self.session is not None:
            return self.session.title()
        return "temporary" if self._path is None else shown_place(self._path.resolve()).rpartition("/")[2]

    def state(self) -> str:
        """Return the state of the transaction."""
        return "idle" if self.session is None else self.session.state()

    def close(self) -> None:
        """Close the database, which rolls back an open transaction.

        It first waits for the imports, because Python must not exit during an import.
        """
        if self._loading is not None:
            self._loading.join()
        if self.session is not None:
            self.session.close()


class _Completions(Completer):
    """The completions of the session, which may have to be opened first."""

    def __init__(self, opening: _Opening) -> None:
        self._opening = opening

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterator[Completion]:
        """Yield the completions at the cursor."""
        try:
            session = self._opening.wait()
        except SnapdbError as error:
            get_app().exit(exception=error)
            return
        yield from _load().NamesCompleter(session.known).get_completions(document, complete_event)


def _load() -> ModuleType:
    return module("repl.loop")


def _serve(opening: _Opening, settings: Settings, history: History) -> None:
    """Read the first line while modules are imported, then run the loop."""
    if settings.config and start_file().is_file():
        opening.wait()  # the output of the file precedes the prompt
    prompt = make_prompt(opening, history, _Completions(opening))
    prompt.app.after_render += opening.begin
    session = None
    while session is None:
        try:
            text = line(prompt, opening)
            session = opening.wait()
        except KeyboardInterrupt:
            continue  # Ctrl-C clears the line, or prevents it from running
        except EOFError:
            return
    if _load().run_line(session, text):
        _load().loop(session)

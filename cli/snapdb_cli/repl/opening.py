"""The prompt appears at once: a thread imports what statements need while the person reads and types."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from prompt_toolkit.application import get_app
from prompt_toolkit.completion import CompleteEvent, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.history import History

from snapdb.errors import SnapdbError
from snapdb.release import __version__
from snapdb_cli.commands.arguments import Settings
from snapdb_cli.diagnostics import Diagnostics, ExitCode
from snapdb_cli.repl.preferences import Preferences, config_file, load, start_file
from snapdb_cli.repl.prompt import history, line, make_prompt


def run(path: Path | None, diagnostics: Diagnostics, settings: Settings) -> ExitCode:
    """Open the database and serve a person at a terminal."""
    preferences, wrong = load(config_file()) if settings.config else (Preferences(), [])
    for complaint in wrong:
        diagnostics.say(complaint)
    place = "a temporary database, removed when you leave" if path is None else str(path)
    diagnostics.narrate(f"snapdb {__version__} on {place}{' (read only)' if settings.read_only else ''}")
    if path is not None and not settings.read_only and not path.exists() and path.absolute().parent.is_dir():
        diagnostics.announce(f"{path} does not exist and is created")
    diagnostics.narrate("Statements end with ; and \\? shows help, \\q leaves.")
    kept = history()
    opening = _Opening(path, diagnostics, settings, preferences, kept)
    try:
        _serve(opening, settings, kept)
    except SnapdbError as error:
        return diagnostics.report(error)
    finally:
        opening.close()
    return ExitCode.OK


class _Opening:
    """Whom the prompt belongs to until, and after, there is a session."""

    def __init__(
        self, path: Path | None, diagnostics: Diagnostics, settings: Settings, preferences: Preferences, kept: History
    ) -> None:
        self.preferences = preferences
        self.draft = ""
        self.session: Any = None
        self._path = path
        self._given = (path, diagnostics, settings, preferences, kept)
        self._loading: threading.Thread | None = None
        self._loaded = threading.Event()

    def begin(self, *_: object) -> None:
        """Load what the session needs, then open it; called once the prompt is drawn."""
        if self._loading is None:
            loop = get_app().loop
            self._loading = threading.Thread(target=self._load, args=(loop,), name="snapdb-loading", daemon=True)
            self._loading.start()

    def _load(self, loop: asyncio.AbstractEventLoop | None) -> None:
        try:
            work = _load()
        finally:
            self._loaded.set()
        if loop is not None:
            with contextlib.suppress(RuntimeError):  # the first line is there already
                loop.call_soon_threadsafe(self._open)
        work.warm()

    def _open(self) -> None:
        """Open the session while the person types, and end the prompt where that cannot be."""
        try:
            self.wait()
        except SnapdbError as error:
            if get_app().is_running:
                get_app().exit(exception=error)

    def wait(self) -> Any:
        """The session, opened now when it was not. Raises KeyboardInterrupt when Ctrl-C is pressed meanwhile."""
        if self.session is None:
            if self._loading is not None:
                self._loaded.wait()  # for Ctrl-C in an import that another thread is at may block both for good
            self.session = _load().open_session(*self._given)
            self.preferences = self.session.preferences
        return self.session

    def title(self) -> str:
        """What the database is called."""
        if self.session is not None:
            return str(self.session.title())
        return "temporary" if self._path is None else self._path.resolve().name

    def state(self) -> str:
        """The state of the transaction."""
        return "idle" if self.session is None else str(self.session.state())

    def complete(self, document: Document, event: CompleteEvent) -> Iterable[Completion]:
        """The completions at a place; waits for the database."""
        try:
            found: Iterable[Completion] = self.wait().complete(document, event)
        except SnapdbError as error:
            get_app().exit(exception=error)
            return ()
        return found

    def close(self) -> None:
        """Leave the database, and roll back what is open; what is half loaded must not meet the end of Python."""
        if self._loading is not None:
            self._loading.join()
        if self.session is not None:
            self.session.close()


def _load() -> Any:
    return importlib.import_module("snapdb_cli.repl.loop")


def _serve(opening: _Opening, settings: Settings, kept: History) -> None:
    """Read the first line while everything is loaded, then go on."""
    if settings.config and start_file().is_file():
        opening.wait()  # what it says stands before the prompt
    prompt = make_prompt(opening, kept)
    prompt.app.after_render += opening.begin
    session = None
    while session is None:
        try:
            text = line(prompt, opening)
            session = opening.wait()
        except KeyboardInterrupt:
            continue  # the line is cleared, or what it says is not run after all
        except EOFError:
            return
    if _load().run_line(session, text):
        _load().loop(session)

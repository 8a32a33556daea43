"""The input line: its history, keys, completion and toolbar. No database is needed yet."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path
from typing import Protocol

from prompt_toolkit import PromptSession
from prompt_toolkit.auto_suggest import AutoSuggestFromHistory
from prompt_toolkit.completion import Completer
from prompt_toolkit.enums import EditingMode
from prompt_toolkit.filters import completion_is_selected, has_focus
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.layout.processors import HighlightMatchingBracketProcessor

from snapdb_cli.repl.input import Highlighter, is_whole, styles
from snapdb_cli.repl.preferences import Preferences


def history_file() -> Path:
    """Where what was typed is kept."""
    state = os.environ.get("XDG_STATE_HOME")
    return (Path(state) if state else Path.home() / ".local" / "state") / "snapdb" / "history"


def history() -> History:
    """The file when it can be written, else only this session's memory."""
    try:
        path = history_file()
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        os.close(os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600))  # what people type may be private
    except (OSError, RuntimeError):  # RuntimeError: there is no home
        return InMemoryHistory()
    return _Shared(path)


class _Shared(FileHistory):
    """The file, which grows by whole entries."""

    def append_string(self, string: str) -> None:
        """Keep an entry unless it is the last one again."""
        newest = next(iter(self.get_strings()[-1:]), None)
        if string.strip() and string != newest:
            super().append_string(string)

    def store_string(self, string: str) -> None:
        """Add an entry with one write, so that no other session's comes between its lines."""
        entry = f"\n# {datetime.now()}\n" + "".join(f"+{line}\n" for line in string.split("\n"))
        with contextlib.suppress(OSError):  # a full disk must not end the session
            file = os.open(self.filename, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
            try:
                os.write(file, entry.encode("utf-8", "replace"))
            finally:
                os.close(file)

    def load_history_strings(self) -> Iterable[str]:
        """The entries, the newest first."""
        with contextlib.suppress(OSError):
            return list(super().load_history_strings())
        return []


# The input line


_STATES = {"idle": "", "open": "*", "failed": "!"}
"""Beside the prompt, by the state of the transaction."""
_TOLD = {"idle": "", "open": " · transaction open", "failed": " · transaction failed, ROLLBACK ends it"}


class _Host(Protocol):
    """The owner of the prompt: a session, or what opens one."""

    draft: str
    preferences: Preferences

    def title(self) -> str:
        """The name of the database."""

    def state(self) -> str:
        """The state of the transaction."""


def make_prompt(host: _Host, history: History, completer: Completer) -> PromptSession[str]:
    """A prompt with the preferences of its host."""
    wanted = host.preferences
    return PromptSession(
        lambda: _before(host),
        prompt_continuation=lambda width, number, wrapped: ("" if wrapped else "...> ").rjust(width),
        multiline=True,
        key_bindings=_keys(host),
        lexer=Highlighter(),
        style=styles(wanted.style),
        completer=completer,
        complete_while_typing=wanted.completion == "typing",
        auto_suggest=AutoSuggestFromHistory() if wanted.suggestions else None,
        history=history,
        editing_mode=EditingMode.VI if wanted.keys == "vi" else EditingMode.EMACS,
        enable_open_in_editor=True,
        enable_suspend=True,
        tempfile_suffix=".sql",
        input_processors=[HighlightMatchingBracketProcessor(chars="[](){}")],
        bottom_toolbar=(lambda: _toolbar(host)) if wanted.toolbar and sys.stdout.isatty() else None,
        reserve_space_for_menu=6,
    )


def line(prompt: PromptSession[str], host: _Host) -> str:
    """The line that the person typed. Raises KeyboardInterrupt and EOFError for Ctrl-C and Ctrl-D."""
    draft, host.draft = host.draft, ""
    return prompt.prompt(default=draft)


def _before(host: _Host) -> StyleAndTextTuples:
    """What stands before the line: the name, and a mark where a transaction is open."""
    name = host.preferences.prompt.replace("{database}", host.title())
    return [("", name), ("class:prompt.state", _STATES[host.state()]), ("", "> ")]


def _toolbar(host: _Host) -> str:
    wanted = host.preferences
    shown = [
        " · each row as lines" if wanted.expanded else "",
        " · timing" if wanted.timing else "",
        f" · {wanted.format}" if wanted.format != "table" else "",
    ]
    return f" {host.title()}{_TOLD[host.state()]}{''.join(shown)}"


def _keys(host: _Host) -> KeyBindings:
    keys = KeyBindings()

    @keys.add("enter", filter=has_focus("DEFAULT_BUFFER") & ~completion_is_selected)
    def _(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if is_whole(buffer.text) or not host.preferences.multiline:
            buffer.validate_and_handle()
        else:
            buffer.insert_text("\n")

    @keys.add("enter", filter=has_focus("DEFAULT_BUFFER") & completion_is_selected)
    def _(event: KeyPressEvent) -> None:
        event.current_buffer.complete_state = None  # takes the selected completion and stays on the line

    return keys

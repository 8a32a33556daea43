"""The input line: completeness check, highlighting, history, key bindings and toolbar. Does not require a database."""

import contextlib
import os
import sys
from collections.abc import Callable, Iterable
from datetime import datetime
from pathlib import Path
from typing import Protocol

from prompt_toolkit import PromptSession
from prompt_toolkit.auto_suggest import AutoSuggestFromHistory
from prompt_toolkit.completion import Completer
from prompt_toolkit.document import Document
from prompt_toolkit.enums import EditingMode
from prompt_toolkit.filters import completion_is_selected, has_focus
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.layout.processors import HighlightMatchingBracketProcessor
from prompt_toolkit.lexers import Lexer
from prompt_toolkit.styles import BaseStyle, Style, merge_styles
from prompt_toolkit.styles.pygments import pygments_token_to_classname, style_from_pygments_cls
from pygments.styles import get_style_by_name
from pygments.token import Error, Keyword

from snapdb.errors import SnapdbError
from snapdb.sql.highlighting import SnapdbLexer
from snapdb.sql.lexer import check_characters, is_complete, scan
from snapdb_cli.repl.preferences import Preferences

_BARE = ("exit", "quit", "help", "?")
"""Words that are commands when alone on a line."""


def is_command(text: str) -> bool:
    """Return whether a line is a command rather than a statement.

    >>> is_command("\\\\d payments"), is_command("quit;"), is_command("help create task"), is_command("SELECT 1")
    (True, True, True, False)
    """
    line = text.strip()
    return line.startswith(("\\", ".")) or line.rstrip("; ").lower() in _BARE or line[:5].lower() == "help "


def _is_whole(text: str) -> bool:
    """Return whether the typed text can run: a command, complete statements, statements and a command, or nothing.

    >>> _is_whole("SELECT 1"), _is_whole("SELECT 1;"), _is_whole("SELECT 1 \\\\gx"), _is_whole("-- SELECT 1")
    (False, True, True, True)
    """
    if is_command(text) or is_complete(text) or trailing(text) is not None or is_empty(text):
        return True
    try:
        check_characters(text)
    except SnapdbError:  # reported when it runs, because no further line can correct it
        return text.rstrip().endswith(";")
    return False


def is_empty(text: str) -> bool:
    """Return whether a text contains only blanks, semicolons and complete comments."""
    try:
        return all(token.text == ";" for token in scan(text))
    except SnapdbError:
        return False


def trailing(text: str) -> int | None:
    """Return the position of a command after statements: the first backslash outside quotes and comments."""
    if "\\" not in text:
        return None
    try:
        tokens = scan(text)
    except SnapdbError:
        return None
    return next((t.span.start for t in tokens if t.text == "\\" and t.span.start > tokens[0].span.start), None)


_PYGMENTS = {"default": "default", "dark": "monokai", "light": "friendly"}
_STYLES = {Error: "class:unfinished", Keyword.Pseudo: "class:command"}
"""Prompt styles by token type. An unclosed string or comment is not an error while it is being typed."""


class _Highlighter(Lexer):
    """Highlights the typed text with the language's Pygments lexer."""

    def lex_document(self, document: Document) -> Callable[[int], StyleAndTextTuples]:
        """Return the pieces of each line with their styles."""
        lines = _lines(_pieces(document.text))
        return lambda number: lines[number] if number < len(lines) else []


def _styles(name: str) -> BaseStyle:
    """Return the style with that name, for the prompt."""
    ours = Style.from_dict(
        {"unfinished": "underline", "bottom-toolbar": "noreverse dim", "command": "bold", "prompt.state": "bold"}
    )
    if name == "none":
        return ours
    return merge_styles([style_from_pygments_cls(get_style_by_name(_PYGMENTS[name])), ours])


def _pieces(text: str) -> StyleAndTextTuples:
    if is_command(text):
        name, blank, rest = text.partition(" ")
        return [("class:command", name), ("", blank + rest)]
    pieces = SnapdbLexer().get_tokens_unprocessed(text)
    return [(_STYLES.get(kind) or f"class:{pygments_token_to_classname(kind)}", piece) for _, kind, piece in pieces]


def _lines(pieces: StyleAndTextTuples) -> list[StyleAndTextTuples]:
    """Group the pieces by line."""
    lines: list[StyleAndTextTuples] = [[]]
    for style, text, *_ in pieces:
        first, *rest = text.split("\n")
        lines[-1].append((style, first))
        lines += [[(style, part)] for part in rest]
    return lines


def _history_file() -> Path:
    """Return the path of the history file."""
    state = os.environ.get("XDG_STATE_HOME")
    return (Path(state) if state else Path.home() / ".local" / "state") / "snapdb" / "history"


def history() -> History:
    """Return the history file if it is writable, otherwise a history in memory for this session."""
    try:
        path = _history_file()
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        os.close(os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600))  # the history may be private
    except (OSError, RuntimeError):  # RuntimeError: there is no home directory
        return InMemoryHistory()
    return _Shared(path)


class _Shared(FileHistory):
    """The history file, to which sessions append complete entries."""

    def append_string(self, string: str) -> None:
        """Append an entry unless it repeats the last one."""
        newest = next(iter(self.get_strings()[-1:]), None)
        if string.strip() and string != newest:
            super().append_string(string)

    def store_string(self, string: str) -> None:
        """Append an entry with one write, so that its lines are not interleaved with entries from other sessions."""
        entry = f"\n# {datetime.now()}\n" + "".join(f"+{line}\n" for line in string.split("\n"))
        with contextlib.suppress(OSError):  # a full disk must not abort the session
            file = os.open(self.filename, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
            try:
                os.write(file, entry.encode("utf-8", "replace"))
            finally:
                os.close(file)

    def load_history_strings(self) -> Iterable[str]:
        """Return the entries, newest first."""
        with contextlib.suppress(OSError):
            return list(super().load_history_strings())
        return []


_STATES = {"idle": "", "open": "*", "failed": "!"}
"""The mark next to the prompt by transaction state."""
_STATE_NOTES = {"idle": "", "open": " · transaction open", "failed": " · transaction aborted, write ROLLBACK"}


class _Host(Protocol):
    """The owner of the prompt: a session, or an object that opens one."""

    draft: str
    preferences: Preferences

    def title(self) -> str:
        """Return the name of the database."""

    def state(self) -> str:
        """Return the state of the transaction."""


def make_prompt(host: _Host, history: History, completer: Completer) -> PromptSession[str]:
    """Return a prompt with the preferences of its host."""
    wanted = host.preferences
    return PromptSession(
        lambda: _before(host),
        prompt_continuation=lambda width, number, wrapped: ("" if wrapped else "...> ").rjust(width),
        multiline=True,
        key_bindings=_keys(host),
        lexer=_Highlighter(),
        style=_styles(wanted.style),
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
    """Return the line that the user typed. Raises KeyboardInterrupt on Ctrl-C and EOFError on Ctrl-D."""
    draft, host.draft = host.draft, ""
    return prompt.prompt(default=draft)


def _before(host: _Host) -> StyleAndTextTuples:
    """Return the prompt: the name of the database, and a mark if a transaction is open."""
    name = host.preferences.prompt.replace("{database}", host.title())
    return [("", name), ("class:prompt.state", _STATES[host.state()]), ("", "> ")]


def _toolbar(host: _Host) -> str:
    wanted = host.preferences
    shown = [
        " · expanded" if wanted.expanded else "",
        " · timing" if wanted.timing else "",
        f" · {wanted.format}" if wanted.format != "table" else "",
    ]
    return f" {host.title()}{_STATE_NOTES[host.state()]}{''.join(shown)}"


def _keys(host: _Host) -> KeyBindings:
    keys = KeyBindings()

    @keys.add("enter", filter=has_focus("DEFAULT_BUFFER") & ~completion_is_selected)
    def _(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if _is_whole(buffer.text) or not host.preferences.multiline:
            buffer.validate_and_handle()
        else:
            buffer.insert_text("\n")

    @keys.add("enter", filter=has_focus("DEFAULT_BUFFER") & completion_is_selected)
    def _(event: KeyPressEvent) -> None:
        event.current_buffer.complete_state = None  # accepts the selected completion and stays on the line

    return keys

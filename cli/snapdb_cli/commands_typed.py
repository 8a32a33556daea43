"""What a typed text is: a command, whole statements, or statements that go on."""

from __future__ import annotations

from snapdb.errors import SnapdbError
from snapdb.sql.lexer import check_characters, is_complete, scan

_BARE = ("exit", "quit", "help", "?")
"""Words alone on a line that are commands as they are."""


def is_command(text: str) -> bool:
    """Whether a line is a command rather than a statement.

    >>> is_command("\\\\d payments"), is_command("quit;"), is_command("SELECT 1")
    (True, True, False)
    """
    line = text.strip()
    return line.startswith(("\\", ".")) or line.rstrip("; ").lower() in _BARE


def is_whole(text: str) -> bool:
    """Whether what was typed can run: a command, ended statements, statements with a command behind them, or nothing.

    >>> is_whole("SELECT 1"), is_whole("SELECT 1;"), is_whole("SELECT 1 \\\\gx"), is_whole("-- SELECT 1")
    (False, True, True, True)
    """
    if is_command(text) or is_complete(text) or trailing(text) is not None or is_empty(text):
        return True
    try:
        check_characters(text)
    except SnapdbError:  # is told when it runs; nothing that follows would mend it
        return text.rstrip().endswith(";")
    return False


def is_empty(text: str) -> bool:
    """Whether there is no statement in a text: nothing, semicolons or whole comments."""
    try:
        return all(token.text == ";" for token in scan(text))
    except SnapdbError:
        return False


def trailing(text: str) -> int | None:
    """Where a command begins behind statements: at the first backslash outside quotes and comments."""
    if "\\" not in text:
        return None
    try:
        tokens = scan(text)
    except SnapdbError:
        return None
    return next((t.span.start for t in tokens if t.text == "\\" and t.span.start > tokens[0].span.start), None)

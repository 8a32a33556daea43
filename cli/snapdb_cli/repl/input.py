"""What a typed text is: a command, whole statements or statements that go on. Its colours."""

from __future__ import annotations

import re
from collections.abc import Callable

from prompt_toolkit.document import Document
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.lexers import Lexer
from prompt_toolkit.styles import BaseStyle, Style, merge_styles
from prompt_toolkit.styles.pygments import style_from_pygments_cls
from pygments.styles import get_style_by_name

from snapdb.errors import ParseError, SnapdbError
from snapdb.sql.lexer import Token, check_characters, is_complete, scan
from snapdb_cli.completion.grammar import keywords
from snapdb_cli.completion.words import SQL_WORDS

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


# Colours: keywords of snapdb and DuckDB, unterminated strings, commands


_PYGMENTS = {"default": "default", "dark": "monokai", "light": "friendly"}
_STYLES = {
    "quoted": "class:pygments.name",
    "string": "class:pygments.literal.string",
    "number": "class:pygments.literal.number",
    "parameter": "class:pygments.name.variable",
    "mark": "class:pygments.operator",
}
_COMMENT = "class:pygments.comment"
_KEYWORD = "class:pygments.keyword"
_UNFINISHED = "class:unfinished"
_GAP_COMMENT = re.compile(r"(--[^\r\n]*|/\*.*?\*/)", re.DOTALL)


class Highlighter(Lexer):
    """Reads what is typed as the language itself does, so that both agree on where a string ends."""

    def lex_document(self, document: Document) -> Callable[[int], StyleAndTextTuples]:
        """The pieces of each line with their styles."""
        lines = _lines(_pieces(document.text))
        return lambda number: lines[number] if number < len(lines) else []


def styles(name: str) -> BaseStyle:
    """The style of that name, for the prompt."""
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
    try:
        return _styled(text, scan(text))
    except ParseError as error:
        start = 0 if error.span is None else error.span.start
        if start == 0 and text[:1] not in "'\"$/eE":
            return [("", text)]
        return [*_styled(text[:start], scan(text[:start])), (_UNFINISHED, text[start:])]


def _styled(text: str, tokens: tuple[Token, ...]) -> StyleAndTextTuples:
    pieces: StyleAndTextTuples = []
    position = 0
    for token in tokens:
        pieces += _gap(text[position : token.span.start])
        pieces.append((_style(token), token.text))
        position = token.span.stop
    return [*pieces, *_gap(text[position:])]


def _style(token: Token) -> str:
    if token.kind == "word":
        return _KEYWORD if token.word in SQL_WORDS or token.word in keywords() else "class:pygments.name"
    return _STYLES.get(token.kind, "")


def _gap(text: str) -> StyleAndTextTuples:
    """What stands between tokens: blanks and comments."""
    return [(_COMMENT if i % 2 else "", part) for i, part in enumerate(_GAP_COMMENT.split(text)) if part]


def _lines(pieces: StyleAndTextTuples) -> list[StyleAndTextTuples]:
    """The same pieces by line."""
    lines: list[StyleAndTextTuples] = [[]]
    for style, text, *_ in pieces:
        first, *rest = text.split("\n")
        lines[-1].append((style, first))
        lines += [[(style, part)] for part in rest]
    return lines

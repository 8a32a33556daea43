"""A Pygments lexer for the language, used by the prompt, the documentation, and other programs that use Pygments."""

import re
from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from typing import NamedTuple

from pygments.lexer import words
from pygments.lexers.sql import SqlLexer
from pygments.token import (
    Comment,
    Error,
    Keyword,
    Name,
    Number,
    Operator,
    Punctuation,
    String,
    Text,
    Whitespace,
    _TokenType,
)

from snapdb.errors import ParseError
from snapdb.sql.lexer import OPENERS, READS, Token, tokens
from snapdb.sql.queries import NO_NAMES
from snapdb.sql.syntax import RESERVED

_QUOTED_WORD = re.compile(r'"([A-Z_]+)"i')
_COMMENT_EDGE = re.compile(r"/\*|\*/")
_LINE_COMMENT = re.compile(r"--[^\r\n]*")
_COMMAND = re.compile(r"\\[^\r\n]*|\.[A-Za-z][^\r\n]*")
"""A prompt command, such as \\d or .tables, up to the end of the line."""
_ALWAYS = NO_NAMES | RESERVED | frozenset(READS)
"""Words that are names only in quotes, and the first words of queries. They are keywords regardless of case."""
_TYPES = frozenset({"DOUBLE", "HUGEINT", "TINYINT", "UBIGINT", "UHUGEINT", "UINTEGER", "USMALLINT", "UTINYINT", "UUID"})
"""DuckDB's types that are not in standard SQL."""
_CLAUSES = frozenset({"FILTER", "IGNORE", "OVER", "PARTITION", "RESPECT"})
"""Words in DuckDB expressions that are missing from both the grammars and Pygments."""

_Piece = tuple[int, _TokenType, str]


class _Vocabulary(NamedTuple):
    """The words that are keywords only in some positions."""

    clauses: frozenset[str]
    """The words of snapdb's grammars and of DuckDB's expressions."""
    standard: frozenset[str]
    """The words of standard SQL."""
    types: frozenset[str]


@cache
def keywords() -> frozenset[str]:
    """Return every keyword of snapdb's grammars in capitals. Reads only the grammar text, without building parsers."""
    texts = (
        entry.read_text(encoding="utf-8") for entry in files("snapdb_grammar").iterdir() if entry.name.endswith(".lark")
    )
    return frozenset(word for text in texts for word in _QUOTED_WORD.findall(text))


@cache
def _vocabulary() -> _Vocabulary:
    """Return the words of the grammars and of Pygments' own SQL lexer."""
    rules = [(rule[0], rule[1]) for rule in SqlLexer.tokens["root"] if isinstance(rule[0], words)]
    standard = {word for group, kind in rules if kind is Keyword for word in group.words if len(word) > 1}
    types = {word for group, kind in rules if kind is not Keyword for word in group.words}
    return _Vocabulary(keywords() | _CLAUSES, frozenset(standard), frozenset(types) | _TYPES)


class SnapdbLexer(SqlLexer):  # type: ignore[misc]  # Pygments has no type hints
    """The snapdb dialect of SQL. Its name in Pygments is `snapdb`.

    It uses snapdb's own lexer, so highlighting and parsing agree on where a string or comment ends. The keywords are
    those of the grammars and of SQL. A word that can also be a name is a keyword only if its case matches that of the
    statement's first word: `latest` in `SELECT max(ts) AS latest` is a name.
    """

    name = "snapdb"
    aliases = ["snapdb"]  # noqa: RUF012  # Pygments expects a list
    filenames: list[str] = []  # noqa: RUF012  # *.sql remains assigned to Pygments' own lexer
    mimetypes = ["text/x-snapdb"]  # noqa: RUF012
    url = ""

    def get_tokens_unprocessed(self, text: str) -> Iterator[_Piece]:
        """Yield (position, kind, text) for each piece. The pieces cover the whole text."""
        position = 0
        while position < len(text):
            if command := _COMMAND.match(text, _after_blanks(text, position)):
                yield from _gap(text, position, command.start())
                yield from _command(command)
                position = command.end()
                continue
            stop = position
            for piece in _statement(text, position):
                yield piece
                stop = piece[0] + len(piece[2])
            position = stop


def _after_blanks(text: str, position: int) -> int:
    """Return the position of the first non-blank character."""
    while position < len(text) and text[position].isspace():
        position += 1
    return position


def _command(command: re.Match[str]) -> Iterator[_Piece]:
    """Yield the name of a command and its argument."""
    name = re.match(r"\S+", command.group())
    assert name is not None
    yield command.start(), Keyword.Pseudo, name.group()
    if rest := command.group()[name.end() :]:
        yield command.start() + name.end(), Text, rest


def _statement(text: str, start: int) -> Iterator[_Piece]:
    """Yield the pieces of a statement up to its semicolon, or up to a prompt command that follows it."""
    read: list[Token] = []
    failed = False
    source = text[start:] if start else text
    try:
        for token in tokens(source):
            read.append(token)
            if token.text in (";", "\\"):
                break
    except ParseError:  # an unterminated string, name or comment
        failed = True
    # A backslash is not valid SQL, so it starts a command of the prompt.
    if read and read[-1].text == "\\":
        read.pop()
    first = next((token.text for token in read if token.kind == "word"), "")
    position = start
    for index, token in enumerate(read):
        yield from _gap(text, position, start + token.span.start)
        position = start + token.span.stop
        if _is_body(read, index):
            yield from _body(token, start + token.span.start)
        else:
            yield start + token.span.start, _kind(read, index, first), token.text
    if failed:
        # The rest of the text is one error, because no token can start inside an unterminated string.
        begin = _after_blanks(text, _after_comments(text, position))
        yield from _gap(text, position, begin)
        yield begin, Error, text[begin:]
    elif not read or read[-1].text != ";":
        rest = _after_blanks(text, _after_comments(text, position))
        yield from _gap(text, position, rest)


def _after_comments(text: str, position: int) -> int:
    """Return the position after blanks and terminated comments."""
    while True:
        position = _after_blanks(text, position)
        if line := _LINE_COMMENT.match(text, position):
            position = line.end()
        elif (stop := _comment_stop(text, position)) is not None:
            position = stop
        else:
            return position


def _comment_stop(text: str, start: int) -> int | None:
    """Return the end of the block comment at a position, or None if there is no terminated comment. Comments nest."""
    depth = 0
    if text.startswith("/*", start):
        for edge in _COMMENT_EDGE.finditer(text, start):
            depth += 1 if edge.group() == "/*" else -1
            if depth == 0:
                return edge.end()
    return None


def _gap(text: str, position: int, stop: int) -> Iterator[_Piece]:
    """Yield the blanks and comments between two tokens."""
    while position < stop:
        blank = min(_after_blanks(text, position), stop)
        if blank > position:
            yield position, Whitespace, text[position:blank]
            position = blank
        elif line := _LINE_COMMENT.match(text, position, stop):
            yield position, Comment.Single, line.group()
            position = line.end()
        else:
            end = min(_comment_stop(text, position) or stop, stop)
            yield position, Comment.Multiline, text[position:end]
            position = end


def _is_body(read: list[Token], index: int) -> bool:
    """Return whether a token is a task body: a $$…$$ string that contains statements."""
    dollar = read[index].kind == "string" and read[index].text.startswith("$")
    return dollar and index > 0 and read[index - 1].word == "AS"


def _body(token: Token, start: int) -> Iterator[_Piece]:
    """Yield the pieces of a task body: its delimiters and the statements between them."""
    edge = token.text.index("$", 1) + 1
    yield start, String.Delimiter, token.text[:edge]
    for position, kind, piece in SnapdbLexer().get_tokens_unprocessed(token.text[edge:-edge]):
        yield start + edge + position, kind, piece
    yield start + len(token.text) - edge, String.Delimiter, token.text[-edge:]


def _kind(read: list[Token], index: int, first: str) -> _TokenType:
    """Return the kind of a token. `first` is the first word of its statement."""
    token = read[index]
    match token.kind:
        case "word":
            return _word_kind(read, index, first)
        case "string":
            return String.Single
        case "number":
            return Number
        case "parameter":
            return Name.Variable
        case "mark":
            return Punctuation if token.text in {*OPENERS, *OPENERS.values(), ",", ";", "."} else Operator
        case _:
            return Name


def _word_kind(read: list[Token], index: int, first: str) -> _TokenType:
    token, word = read[index], read[index].word
    before = read[index - 1].text if index else ""
    after = read[index + 1] if index + 1 < len(read) else None
    called = after is not None and after.text == "(" and after.span.start == token.span.stop
    vocabulary = _vocabulary()
    # A word next to a dot is part of a qualified name, even if it is also a keyword.
    if before == "." or (after is not None and after.text == "." and word not in _ALWAYS):
        return Name
    if before == ":" or (word in vocabulary.types and token.text.isupper() and not called):
        return Keyword.Type
    if word in _ALWAYS or (word in vocabulary.clauses and token.text.isupper() == first.isupper()):
        return Keyword
    if called:
        return Name.Function
    return Keyword if word in vocabulary.standard and token.text.isupper() else Name

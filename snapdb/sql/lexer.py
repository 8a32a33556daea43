"""The lexer: splits text into tokens and scripts into statements, and finds matching brackets.

It recognizes words, strings and comments as DuckDB does, so that snapdb and DuckDB agree on where a statement or SQL
fragment ends.
"""

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from snapdb.errors import ParseError, SnapdbError, Span
from snapdb.types import by_word

_Scanned = Literal["string", "quoted", "parameter", "number", "word", "mark"]

TokenKind = (
    _Scanned
    | Literal[
        "QUERY",
        "CONDITION",
        "EXPRESSION",
        "SOURCES",
        "COLUMNS",
        "CTES",
        "STATEMENT",
        "AMONG",
        "FROM_DATABASE",
        "CONSTRAINT",
    ]
)
"""The uppercase kinds are SQL fragments, which are runs of tokens folded into one. AMONG is a single word."""


class Token(NamedTuple):
    """A piece of a statement, exactly as written."""

    kind: TokenKind
    text: str
    span: Span

    @property
    def word(self) -> str:
        """The token as a possible keyword: an unquoted word or a symbol in upper case, or '' for other tokens."""
        kind, text, _ = self
        return text.upper() if (kind == "word" or kind == "mark") and text.isascii() else ""  # noqa: PLR1714  # hot

    @property
    def identifier(self) -> str:
        """The name that a word or quoted token denotes, in its original case."""
        return self.text[1:-1].replace('""', '"') if self.kind == "quoted" else self.text

    @property
    def string_value(self) -> str:
        """The value of a '…', E'…' or $$…$$ string."""
        written = self.text
        if written.startswith("'"):
            return written[1:-1].replace("''", "'")
        if written.startswith("$"):
            edge = written.index("$", 1) + 1
            return written[edge:-edge]
        return _ESCAPE.sub(lambda escape: _unescape(escape, self.span), written[2:-1])


_WIDE_SPACE = r"\u00a0\u2000-\u200b\u202f\u205f\u2060\u3000\ufeff"  # exactly the non-ASCII characters that DuckDB skips

_BEYOND_ASCII = rf"[^\x00-\x7f{_WIDE_SPACE}]"

_WORD_START = rf"[A-Za-z_]|{_BEYOND_ASCII}"

_WORD = rf"(?:{_WORD_START})(?:[A-Za-z0-9_$]|{_BEYOND_ASCII})*+"

_PATTERN = re.compile(
    rf"""
    (?:[\t-\r\x20{_WIDE_SPACE}]++ | --[^\r\n]*+)*+
  (?:
    (?P<comment>/\*)
  | (?P<string>'(?:[^']++|'')*+' | [eE]'(?:[^'\\]++|''|\\.)*+')
  | (?P<quoted>"(?:[^"]++|"")*+")
  | (?P<dollar>\$(?:(?:{_WORD_START})(?:[A-Za-z0-9_]|{_BEYOND_ASCII})*+)?+\$)
  | (?P<open>[eE]?'|")
  | (?P<parameter>\?[0-9]*+ | \$(?:[0-9]++|{_WORD}))
  | (?P<number>0[xX][0-9A-Fa-f_]++ | (?:[0-9][0-9_]*+(?:\.[0-9_]*+)?+|\.[0-9][0-9_]*+)(?:[eE][+-]?[0-9]++)?+)
  | (?P<word>{_WORD})
  | (?P<mark>=> | <= | .)
  | \Z
  )
    """,
    re.VERBOSE | re.DOTALL,
)

_COMMENT_EDGE = re.compile(r"/\*|\*/")

_KINDS: dict[str | None, TokenKind] = by_word(_Scanned)
"""Maps the pattern's groups to token kinds. The other groups are comments and quotes, whose ends the pattern alone
cannot find."""

_token = tuple.__new__  # takes half the time of a NamedTuple's own constructor, which matters for long scripts


def scan(text: str) -> tuple[Token, ...]:
    """Return the tokens of a text in order. Raises ParseError for an unterminated string, name or comment.

    >>> [_token.text for _token in scan("SELECT 'it''s' /* no */ AS \\"x\\"")]
    ['SELECT', "'it''s'", 'AS', '"x"']
    """
    return tuple(tokens(text))


def tokens(text: str) -> Iterator[Token]:
    """Yield the tokens of a text lazily."""
    # One regular expression finds all tokens except nested comments and dollar quotes, whose ends are not regular.
    # Possessive quantifiers (*+) prevent backtracking, so that scanning takes linear time.
    position, kinds = 0, _KINDS
    while position < len(text):
        for match in _PATTERN.finditer(text, position):
            group = match.lastgroup
            if (kind := kinds.get(group)) is not None:
                yield _token(Token, (kind, match[group], _token(Span, match.span(group))))  # type: ignore[index, arg-type]
                continue
            if group is None:
                return
            start, stop = match.span(group)
            position = _stop(text, group, start, stop)
            if group == "dollar":
                yield Token("string", text[start:position], Span(start, position))
            break  # the pattern continues after the string, name or comment
        else:
            return


def check_characters(text: str) -> None:
    """Raise ParseError at the first character that files and DuckDB cannot represent: NUL, or an unpaired surrogate."""
    if text.isascii() and "\x00" not in text:
        return
    if odd := _UNHELD.search(text):
        what = "NUL" if odd[0] == "\x00" else "an unpaired surrogate (half of a character)"
        shown = _UNHELD.sub("\ufffd", text)  # the error itself must be printable
        way = "in a string, write '…' || chr(0) || '…', or pass it as a parameter" if what == "NUL" else "remove it"
        message = f"the text contains {what}, which is not allowed in statements; {way}"
        raise ParseError(message, span=Span(*odd.span()), text=shown, code="bad-character")


_UNHELD = re.compile("[\x00\ud800-\udfff]")


def _stop(text: str, group: str, start: int, stop: int) -> int:
    """Return the index after the token or comment that starts at `start`."""
    if group == "comment":
        return _comment_stop(text, start)
    if group == "dollar":
        delimiter = text[start:stop]
        end = text.find(delimiter, stop)
        if end < 0:
            raise ParseError(
                f"unterminated string; end it with {delimiter}", span=Span(start, stop), code="unclosed-quote"
            )
        return end + len(delimiter)
    if group == "open":
        # The pattern matches an opening quote alone only if it has no closing quote.
        what, quote = ("quoted name", '"') if text[stop - 1] == '"' else ("string", "'")
        raise ParseError(f"unterminated {what}; end it with {quote}", span=Span(start, stop), code="unclosed-quote")
    return stop


def _comment_stop(text: str, start: int) -> int:
    """Return the index at which a block comment ends. Comments nest."""
    depth = 0
    for edge in _COMMENT_EDGE.finditer(text, start):
        # DuckDB and PostgreSQL nest comments too.
        depth += 1 if edge.group() == "/*" else -1
        if depth == 0:
            return edge.end()
    raise ParseError("unterminated comment; end it with */", span=Span(start, start + 2), code="unclosed-comment")


_ESCAPE = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|x([0-9A-Fa-f]{1,2})|([0-7]{1,3})|(.))|''", re.DOTALL)

_LETTERS = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}


def _unescape(escape: re.Match[str], span: Span) -> str:
    four, eight, byte, octal, letter = escape.groups()
    if escape.group() == "''":
        return "'"
    if letter is not None:
        return _LETTERS.get(letter, letter)
    code = int(octal, 8) if octal else int(four or eight or byte, 16)
    if code > 0x10FFFF or 0xD800 <= code <= 0xDFFF or code == 0:
        raise ParseError(
            f"invalid escape {escape.group()}; write the code point of a character", span=span, code="bad-escape"
        )
    return chr(code)


OPENERS = {"(": ")", "[": "]", "{": "}"}

CLOSERS = frozenset(OPENERS.values())


def partners(tokens: Sequence[Token]) -> dict[int, int]:
    """Map each opening bracket's index to that of its closing bracket. Raises ParseError if one is unmatched.

    >>> from snapdb.sql.lexer import scan
    >>> partners(scan("f(a[1])"))
    {3: 5, 1: 6}
    """
    pairs = {}
    open_: list[int] = []
    for index, token in enumerate(tokens):
        if token.kind != "mark":
            continue
        if token.text in OPENERS:
            open_.append(index)
        elif token.text in CLOSERS:
            if not open_:
                raise ParseError(
                    f'unmatched "{token.text}"; remove it, or add an opening bracket',
                    span=token.span,
                    code="unclosed-bracket",
                )
            opener = tokens[open_[-1]]
            if OPENERS[opener.text] != token.text:
                message = f'"{opener.text}" is closed by "{token.text}"; expected "{OPENERS[opener.text]}"'
                raise ParseError(message, span=opener.span, code="unclosed-bracket")
            pairs[open_.pop()] = index
    if open_:
        opener = tokens[open_[-1]]
        message = f'"{opener.text}" is never closed; expected "{OPENERS[opener.text]}"'
        raise ParseError(message, span=opener.span, code="unclosed-bracket")
    return pairs


class StatementTokens(NamedTuple):
    """The tokens of a statement. There is at least one."""

    tokens: tuple[Token, ...]
    ended: bool
    """Whether a semicolon follows."""

    @property
    def span(self) -> Span:
        """The span from the first to the last token, without the semicolon."""
        return Span(self.tokens[0].span.start, self.tokens[-1].span.stop)


def parts(text: str) -> Iterator[StatementTokens]:
    """Yield the statements of a script as tokens, lazily. Empty statements are skipped."""
    check_characters(text)
    current: list[Token] = []
    depth = 0
    for token in tokens(text):
        kind, mark, _ = token
        if kind == "mark":
            if mark in OPENERS:
                depth += 1
            elif mark in CLOSERS:
                depth = max(depth - 1, 0)  # parsing the statement reports an unmatched closing bracket
            elif mark == ";" and depth == 0:
                if current:
                    yield StatementTokens(tuple(current), ended=True)
                current = []
                continue
        current.append(token)
    if current:
        yield StatementTokens(tuple(current), ended=False)


def split(text: str) -> tuple[Span, ...]:
    """Return the span of each statement of a script, without its semicolon and surrounding comments.

    >>> text = "SELECT ';'; -- nothing\\n; SELECT 2"
    >>> [text[span.start : span.stop] for span in split(text)]
    ["SELECT ';'", 'SELECT 2']
    """
    try:
        return tuple(part.span for part in parts(text))
    except SnapdbError as error:
        raise error.located(text) from None


def is_complete(text: str) -> bool:
    """Return whether the last statement ends with a semicolon outside quotes, comments and brackets.

    >>> is_complete("SELECT ';'"), is_complete("SELECT (1;"), is_complete("SELECT 1; -- done")
    (False, False, True)
    """
    try:
        statements = tuple(parts(text))
    except ParseError:
        return False
    return bool(statements) and statements[-1].ended


# The runs of tokens that DuckDB parses, each of which is folded into one token.


class Run(NamedTuple):
    """An SQL fragment: the tokens from `first` up to, but not including, `stop`."""

    kind: TokenKind
    first: int
    stop: int


READS = ("SELECT", "WITH", "VALUES", "FROM", "PIVOT", "UNPIVOT", "SUMMARIZE", "TABLE", "DESCRIBE")
"""The first words of queries. A query may also start with a parenthesis."""

Pairs = dict[int, int]

Finder = Callable[[Sequence[Token], Pairs], Iterator[Run]]
"""Finds the SQL fragments of a statement, in any order. `Pairs` maps each opening bracket to its closing one."""


def fold(tokens: Sequence[Token], find: Finder, source: str) -> tuple[Token, ...]:
    """Fold each fragment of a statement's tokens into one token. Raises ParseError if brackets do not match."""
    pairs = partners(tokens)
    runs = sorted(find(tokens, pairs), key=lambda run: run.first)
    folded: list[Token] = []
    position = 0
    for run in runs:
        # An earlier fragment contains this one, or this one is empty, which the grammar reports as a missing part.
        if run.first < position or run.first >= run.stop:
            continue
        if run.kind == "QUERY" and tokens[run.first].word not in (*READS, "("):
            continue  # not folded, so the grammar reports the first word
        span = Span(tokens[run.first].span.start, tokens[run.stop - 1].span.stop)
        folded += tokens[position : run.first]
        folded.append(Token(run.kind, source[span.start : span.stop], span))
        position = run.stop
    return (*folded, *tokens[position:])


def top_level(tokens: Sequence[Token], pairs: Pairs, first: int = 0) -> Iterator[int]:
    """Yield the indexes of tokens outside brackets, including opening brackets, from `first` on."""
    index = first
    while index < len(tokens):
        yield index
        index = pairs.get(index, index) + 1


def says(tokens: Sequence[Token], first: int, *words: str) -> bool:
    """Return whether the tokens starting at `first` are these keywords or symbols."""
    following = tokens[first : first + len(words)]
    # Most calls fail at the first word, so it is compared before a list is built.
    return bool(following) and following[0].word == words[0] and [token.word for token in following[1:]] == [*words[1:]]


def join_qualified(tokens: Sequence[Token], index: int) -> tuple[Token, ...]:
    """Return the tokens with schema.name at an index joined to one name. The schema main is left out.

    >>> [token.text for token in join_qualified(scan("DROP TABLE s . t"), 2)]
    ['DROP', 'TABLE', '"s"."t"']
    >>> [token.text for token in join_qualified(scan("DROP TABLE main.t"), 2)]
    ['DROP', 'TABLE', 't']
    """
    names = tokens[index : index + 3 : 2]
    named = len(names) == 2 and all(token.kind in ("word", "quoted") for token in names)
    if not named or not says(tokens, index + 1, "."):
        return tuple(tokens)
    schema, name = names
    if schema.word == "MAIN":
        return (*tokens[:index], name, *tokens[index + 3 :])
    text = ".".join('"' + token.identifier.replace('"', '""') + '"' for token in names)
    return (*tokens[:index], Token("quoted", text, Span(schema.span.start, name.span.stop)), *tokens[index + 3 :])


def qualified_names(tokens: Sequence[Token]) -> list[int]:
    """Return the indexes of the names that are qualified by a schema.

    >>> qualified_names(scan("DIFF TABLE s.t FROM VERSION 1"))
    [2]
    """
    return [index - 1 for index, token in enumerate(tokens) if token.text == "." and index]


def no_fragments(tokens: Sequence[Token], pairs: Pairs) -> Iterator[Run]:  # a Finder
    """A Finder that yields nothing, because the grammar parses the whole statement."""
    return iter(())


def at_values(tokens: Sequence[Token], pairs: Pairs) -> Iterator[Run]:
    """Yield the value in AT (VERSION => …)."""
    for index in top_level(tokens, pairs):
        if index in pairs and index and tokens[index - 1].word == "AT" and says(tokens, index + 2, "=>"):
            yield Run("EXPRESSION", index + 3, pairs[index])


def explained(tokens: Sequence[Token], pairs: Pairs) -> int:
    """Return the index of the first token after EXPLAIN and its options."""
    first = 2 if says(tokens, 1, "ANALYZE") else 1
    # A parenthesis without an option's name starts the query itself.
    return pairs[first] + 1 if first in pairs and tokens[first + 1].word in {"FORMAT", "ANALYZE"} else first


@dataclass(frozen=True, slots=True)
class Rewritten:
    """A text after replacements, with a mapping to the original positions."""

    text: str
    edits: tuple[tuple[Span, Span], ...]
    """The span of each replacement in this text, and the span it replaced in the original text, in order."""

    def place(self, index: int) -> int:
        """Map a position in this text to the original. Positions inside a replacement map to the replaced text's start.

        >>> rewrite("SELECT at", [(Span(7, 9), '"at"')]).place(11)
        9
        """
        before = bisect_right(self.edits, index, key=lambda edit: edit[0].start) - 1
        if before < 0:
            return index
        new, old = self.edits[before]
        return old.start if index < new.stop else old.stop + index - new.stop


def rewrite(text: str, replacements: Sequence[tuple[Span, str]]) -> Rewritten:
    """Apply replacements to a text. They can be in any order, but must not overlap.

    >>> rewrite("FROM t AT (VERSION => 3) WHERE at", [(Span(31, 33), '"at"'), (Span(5, 24), "t3")]).text
    'FROM t3 WHERE "at"'
    """
    pieces: list[str] = []
    edits: list[tuple[Span, Span]] = []
    length = position = 0
    for span, words in sorted(replacements):
        if span.start < position:
            raise ValueError(f"replacements overlap at {span.start}")
        kept = text[position : span.start]
        start = length + len(kept)
        length = start + len(words)
        pieces += (kept, words)
        edits.append((Span(start, length), span))
        position = span.stop
    return Rewritten("".join((*pieces, text[position:])), tuple(edits))

"""Where the cursor stands: the tokens of its statement around it, and the word that is being typed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from snapdb.errors import ParseError
from snapdb.sql.lexer import OPENERS, Token, parts, scan

Quote = Literal["", "'", '"']


@dataclass(frozen=True, slots=True)
class Spot:
    """A place in a statement where something could be completed."""

    before: tuple[Token, ...]
    """The tokens of the statement that stand before the word being typed."""
    typed: str
    """The word, perhaps empty; without its opening quote."""
    quote: Quote
    """What the word was begun with: a string and a quoted name need not be ended yet."""
    after: tuple[Token, ...]
    """The tokens that stand behind the cursor, where they can be read."""

    @property
    def words(self) -> tuple[str, ...]:
        """The keywords, marks and names before the cursor in capitals, the last of them last."""
        return tuple(token.text.upper() for token in self.before)

    @property
    def whole(self) -> tuple[Token, ...]:
        """The tokens of the statement on both sides of the cursor."""
        return self.before + self.after

    @property
    def closers(self) -> str:
        """The brackets that would close what is open at the cursor."""
        open_: list[str] = []
        for token in self.before:
            if token.kind == "mark" and token.text in OPENERS:
                open_.append(OPENERS[token.text])
            elif token.kind == "mark" and open_ and token.text == open_[-1]:
                open_.pop()
        return "".join(reversed(open_))


def locate(text: str, after: str = "") -> Spot | None:
    """What stands before and behind the cursor, or None where nothing is to complete: in a comment, in a number.

    >>> spot = locate("SHOW TABLES; SELECT a FROM pe")
    >>> spot.words, spot.typed
    (('SELECT', 'A', 'FROM'), 'pe')
    >>> locate("COPY t FROM 'raw/pa").typed, locate("SELECT 1 -- SEL")
    ('raw/pa', None)
    """
    quote: Quote = ""
    typed = ""
    try:
        tokens = _statement(text)
    except ParseError as error:
        start = 0 if error.span is None else error.span.start
        if text[start : start + 1] not in ("'", '"'):
            return None  # a comment or a dollar-quoted body
        quote, typed = ("'" if text[start] == "'" else '"'), text[start + 1 :]
        tokens = _statement(text[:start])
    else:
        if _in_comment(text, tokens):
            return None
        if tokens and tokens[-1].span.stop == len(text) and tokens[-1].kind in ("word", "number", "parameter"):
            if tokens[-1].kind != "word":
                return None
            tokens, typed = tokens[:-1], tokens[-1].text
    return Spot(tokens, typed, quote, _rest(after))


def _statement(text: str) -> tuple[Token, ...]:
    """The tokens of the last statement; none after a semicolon."""
    found = list(parts(text))
    return found[-1].tokens if found and not found[-1].ended else ()


def _rest(after: str) -> tuple[Token, ...]:
    """The tokens behind the cursor up to the statement's end, none when they cannot be read."""
    try:
        tokens = scan(after)
    except ParseError:
        return ()
    stop = next((i for i, token in enumerate(tokens) if token.text == ";"), len(tokens))
    return tokens[:stop]


def _in_comment(text: str, tokens: tuple[Token, ...]) -> bool:
    line = text[tokens[-1].span.stop if tokens else 0 :].rpartition("\n")[2]
    return "--" in line

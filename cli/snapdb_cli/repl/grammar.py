"""The terminals that the grammars accept at the cursor. The parsers compute them, so completion always agrees with
parsing.
"""

from collections.abc import Sequence
from functools import cache, lru_cache
from typing import Literal, NamedTuple

import lark
from lark.exceptions import UnexpectedInput

from snapdb.errors import ParseError
from snapdb.sql.grammars import parser
from snapdb.sql.lexer import OPENERS, Finder, Token, fold, parts, scan
from snapdb.sql.parser import FAMILIES, load_family
from snapdb.sql.pattern_tokens import pattern_fragments

_Quote = Literal["", "'", '"']


class Spot(NamedTuple):
    """A position in a statement, for completion."""

    before: tuple[Token, ...]
    """The tokens of the statement before the word that is being typed."""
    typed: str
    """The typed part of the word, without its opening quote. It may be empty."""
    quote: _Quote
    """The opening quote of the word, which may be an unclosed string or quoted name."""
    after: tuple[Token, ...]
    """The tokens after the cursor, if they can be scanned."""

    @property
    def words(self) -> tuple[str, ...]:
        """The keywords, punctuation and names before the cursor, in capitals."""
        return tuple(token.text.upper() for token in self.before)

    @property
    def whole(self) -> tuple[Token, ...]:
        """The tokens of the statement on both sides of the cursor."""
        return self.before + self.after

    @property
    def closers(self) -> str:
        """The brackets that close the open brackets at the cursor."""
        open_: list[str] = []
        for token in self.before:
            if token.kind == "mark" and token.text in OPENERS:
                open_.append(OPENERS[token.text])
            elif token.kind == "mark" and open_ and token.text == open_[-1]:
                open_.pop()
        return "".join(reversed(open_))


def locate(text: str, after: str = "") -> Spot | None:
    """Return the tokens around the cursor, or None if nothing can be completed, as in a comment or a number.

    >>> spot = locate("SHOW TABLES; SELECT a FROM pe")
    >>> spot.words, spot.typed
    (('SELECT', 'A', 'FROM'), 'pe')
    >>> locate("COPY t FROM 'raw/pa").typed, locate("SELECT 1 -- SEL")
    ('raw/pa', None)
    """
    quote: _Quote = ""
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
    """Return the tokens of the last statement, or none after a semicolon."""
    statements = list(parts(text))
    return statements[-1].tokens if statements and not statements[-1].ended else ()


def _rest(after: str) -> tuple[Token, ...]:
    """Return the tokens after the cursor up to the end of the statement, or none if they cannot be scanned."""
    try:
        tokens = scan(after)
    except ParseError:
        return ()
    stop = next((i for i, token in enumerate(tokens) if token.text == ";"), len(tokens))
    return tokens[:stop]


def _in_comment(text: str, tokens: tuple[Token, ...]) -> bool:
    line = text[tokens[-1].span.stop if tokens else 0 :].rpartition("\n")[2]
    return "--" in line


_SECOND_NAMES = frozenset({"ABORT", "DESC", "END", "OR", "START"})
"""Words that `pairs` omits, mostly synonyms of other words that begin statements."""
_HERE = "snapdb_cursor"
"""A placeholder for the word at the cursor."""
_LONGEST = 4
"""The maximum number of words that are offered as one candidate, such as OR REPLACE PROPERTY GRAPH."""
_CLAUSES = 8
"""The maximum number of choices inside a clause. More choices mean that the next clause may begin at the cursor."""
_AGAIN = frozenset({"WITH", "EXCLUDE"})
"""Words with which several clauses begin."""


class Slot(NamedTuple):
    """The state of one grammar at the cursor."""

    family: str
    types: tuple[str, ...]
    """The terminals before the cursor, or before the SQL fragment that contains it."""
    fragment: str = ""
    """The kind of the SQL fragment that contains the cursor, or empty."""
    inside: tuple[Token, ...] = ()
    """The tokens of the SQL fragment before the cursor."""

    @property
    def accepts(self) -> frozenset[str]:
        """The terminals that may follow."""
        return _accepted(self.family, self.types)

    @property
    def path(self) -> str:
        """The terminals before the cursor as a line of words, without the contents of closed brackets.

        >>> Slot("graphs", ("KEY", "LPAR", "NAME", "RPAR", "FEATURES", "LPAR")).path
        'KEY () FEATURES LPAR'
        """
        kept: list[str] = []
        for terminal in self.types:
            if terminal in ("RPAR", "RSQB"):
                opened = max(i for i, t in enumerate(kept) if t in ("LPAR", "LSQB"))
                kept[opened:] = ["()"]
            else:
                kept.append(terminal)
        return " ".join(kept)

    def words(self) -> list[str]:
        """Return the keywords that may follow, each with the words that must follow it, as in EXPIRE SNAPSHOTS."""
        open_ = self.accepts - ({"SNAPSHOT"} if self.types == ("COPY",) else set())
        if len(open_) > _CLAUSES:
            open_ -= set(self.path.split()) - _AGAIN  # a clause is written only once
        return sorted(filter(None, map(self._chained, open_)))

    def pairs(self) -> list[str]:
        """Return each keyword that may follow, with each word that must follow it: SHOW TABLES, SHOW GRAPHS, …"""
        phrases = []
        for terminal in sorted(self.accepts - _SECOND_NAMES):
            first, then = _spelled(self.family, terminal), Slot(self.family, (*self.types, terminal))
            if first[:1].isalpha():
                alone = "$END" in then.accepts
                followers = [] if alone else [words for words in then.words() if words.split()[0] not in _SECOND_NAMES]
                phrases += [f"{first} {words}" for words in followers] or [first]
        return phrases

    def _chained(self, terminal: str) -> str:
        text = _spelled(self.family, terminal)
        if not text[:1].isalpha():
            return ""
        words, types = [text], (*self.types, terminal)
        while len(words) < _LONGEST and len(follows := _accepted(self.family, types)) == 1:
            (only,) = follows
            if not _spelled(self.family, only)[:1].isalpha():
                break
            words.append(_spelled(self.family, only))
            types = (*types, only)
        return " ".join(words)


@cache
def _fragments() -> dict[str, Finder]:
    """Map the name of each grammar to the function that finds its SQL fragments."""
    return {family: load_family(family).fragments for family in sorted(FAMILIES)} | {"patterns": pattern_fragments}


def slots(spot: Spot) -> list[Slot]:
    """Return the state of each grammar that accepts the statement so far, or nothing if none does."""
    candidates = (slot_of(family, spot) for family in FAMILIES)
    return [slot for slot in candidates if slot is not None]


def slot_of(family: str, spot: Spot) -> Slot | None:
    """Return the state of one grammar, or None if it does not accept the tokens so far."""
    # A placeholder word and the missing brackets complete the statement, so that its SQL fragments can be found.
    tail = f" {_HERE}{spot.closers}"
    start = spot.before[-1].span.stop if spot.before else 0
    shift = spot.before[0].span.start if spot.before else 0
    source = _written(spot.before, start - shift) + tail
    return _slot(family, source, start - shift + 1)


def _written(tokens: Sequence[Token], length: int) -> str:
    """Return the text of the tokens at their original positions, padded with blanks."""
    text = [" "] * length
    for token in tokens:
        start = token.span.start - tokens[0].span.start
        text[start : start + len(token.text)] = token.text
    return "".join(text)


def _slot(family: str, source: str, cursor: int) -> Slot | None:
    try:
        folded = fold(scan(source), _fragments()[family], source)
    except ParseError:
        return None
    here = next((token for token in folded if token.span.start <= cursor < token.span.stop), None)
    if here is None:
        return None
    before = tuple(token for token in folded if token.span.stop <= here.span.start)
    types = _types(family, before)
    if types is None:
        return None
    if not here.kind.isupper():
        return Slot(family, types)
    if here.kind not in _accepted(family, types):
        return None
    return Slot(family, types, here.kind, scan(source[here.span.start : cursor]))


def _types(family: str, tokens: Sequence[Token]) -> tuple[str, ...] | None:
    """Return the terminals of the given tokens, or None if the grammar does not accept them."""
    interactive = parser(family).parse_interactive(tuple(tokens))
    try:
        return tuple(token.type for token in interactive.exhaust_lexer())
    except UnexpectedInput:
        return None


@lru_cache(maxsize=4096)
def _accepted(family: str, types: tuple[str, ...]) -> frozenset[str]:
    """Return the terminals that may follow the given ones."""
    interactive = parser(family).parse_interactive(())
    for terminal in types:
        interactive.feed_token(lark.Token(terminal, ""))
    return frozenset(interactive.accepts())  # type: ignore[no-untyped-call]


@lru_cache(maxsize=4096)
def _spelled(family: str, terminal: str) -> str:
    """Return the spelling of a terminal in capitals, or '' if it is neither a keyword nor punctuation."""
    try:
        return str(parser(family).get_terminal(terminal).pattern.value).upper()
    except KeyError:  # declared in the grammar and recognized by the lexer: a name, an SQL fragment or the end
        return ""

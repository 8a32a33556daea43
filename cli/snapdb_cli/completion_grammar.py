"""What our grammars accept at the cursor, asked of the parsers themselves: completion cannot disagree with them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache, lru_cache
from importlib.resources import files
from typing import NamedTuple

import lark
from lark.exceptions import UnexpectedInput

from snapdb.errors import ParseError
from snapdb.sql.embedded import Finder, fold
from snapdb.sql.lexer import Token, scan
from snapdb.sql.parser import FAMILIES, parser

from .completion_spot import Spot

_SECOND_NAMES = frozenset({"ABORT", "DESC", "END", "OR", "START"})
"""Words at which a statement need not begin: others say the same."""
_QUOTED_WORD = re.compile(r'"([A-Z_]+)"i')
_HERE = "snapdb_cursor"
"""A word that stands for what may come at the cursor."""
_LONGEST = 4
"""So many words are offered as one, such as OR REPLACE PROPERTY GRAPH."""
_CLAUSES = 8
"""More choices than inside any clause: the cursor stands where the next one begins."""
_AGAIN = frozenset({"WITH", "EXCLUDE"})
"""Words that begin several clauses."""


class Slot(NamedTuple):
    """What one grammar takes at the cursor."""

    family: str
    types: tuple[str, ...]
    """The terminals before the cursor, or before the island it stands in."""
    island: str = ""
    """The kind of the run of tokens that the cursor stands in and that the grammar does not look into, if any."""
    inside: tuple[Token, ...] = ()
    """The tokens of the island before the cursor."""

    @property
    def accepts(self) -> frozenset[str]:
        """The terminals that may follow."""
        return _accepted(self.family, self.types)

    @property
    def path(self) -> str:
        """The terminals before the cursor as a line of words, what stands in closed brackets left out.

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
        """The keywords that may follow, each with those that have to come after it: EXPIRE gives EXPIRE SNAPSHOTS."""
        open_ = self.accepts - ({"SNAPSHOT"} if self.types == ("COPY",) else set())
        if len(open_) > _CLAUSES:
            open_ -= set(self.path.split()) - _AGAIN  # each clause is said once
        return sorted(filter(None, map(self._chained, open_)))

    def pairs(self) -> list[str]:
        """Each keyword that may follow, together with each that has to follow it: SHOW TABLES, SHOW GRAPHS, …."""
        found = []
        for terminal in sorted(self.accepts - _SECOND_NAMES):
            first, then = _spelled(self.family, terminal), Slot(self.family, (*self.types, terminal))
            if first[:1].isalpha():
                alone = "$END" in then.accepts
                followers = [] if alone else [words for words in then.words() if words.split()[0] not in _SECOND_NAMES]
                found += [f"{first} {words}" for words in followers] or [first]
        return found

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
    """What finds islands, by the name of the grammar."""
    return {family.grammar: family.fragments for family in sorted(FAMILIES, key=lambda family: family.grammar)}


@cache
def keywords() -> frozenset[str]:
    """Every word that some grammar of ours knows, in capitals; from their text, for no parser is built for colours."""
    texts = (
        entry.read_text(encoding="utf-8") for entry in files("snapdb_grammar").iterdir() if entry.name.endswith(".lark")
    )
    return frozenset(word for text in texts for word in _QUOTED_WORD.findall(text))


def slots(spot: Spot) -> list[Slot]:
    """What each grammar that can read the statement so far takes at the cursor; none where no grammar can."""
    tail = f" {_HERE}{spot.closers}"
    start = spot.before[-1].span.stop if spot.before else 0
    shift = spot.before[0].span.start if spot.before else 0
    source = _written(spot.before, start - shift) + tail
    found = (_slot(family, source, start - shift + 1) for family in _fragments())
    return [slot for slot in found if slot is not None]


def _written(tokens: Sequence[Token], length: int) -> str:
    """The tokens at their places, with blanks between them."""
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
    """The terminals of some tokens, None where the grammar does not take them."""
    interactive = parser(family).parse_interactive(tuple(tokens))
    try:
        return tuple(token.type for token in interactive.exhaust_lexer())
    except UnexpectedInput:
        return None


@lru_cache(maxsize=4096)
def _accepted(family: str, types: tuple[str, ...]) -> frozenset[str]:
    """The terminals that may follow others."""
    interactive = parser(family).parse_interactive(())
    for terminal in types:
        interactive.feed_token(lark.Token(terminal, ""))
    return frozenset(interactive.accepts())  # type: ignore[no-untyped-call]


@lru_cache(maxsize=4096)
def _spelled(family: str, terminal: str) -> str:
    """A terminal as it is written, in capitals; nothing for what is no word or mark of its own."""
    try:
        return str(parser(family).get_terminal(terminal).pattern.value).upper()
    except KeyError:  # declared in the grammar, recognised by us: a name, an island, the end
        return ""

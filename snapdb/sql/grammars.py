"""One LALR parser per statement family, built on first use, that reads our tokens instead of scanning text again.

A word is a keyword where the grammar can take that keyword, and a name otherwise, so that few words are reserved.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from importlib.resources import files

import lark.lexer
from lark import Lark
from lark.common import LexerConf
from lark.lexer import Lexer, LexerState
from lark.parsers.lalr_parser_state import ParserState

from snapdb.sql.islands import Family
from snapdb.sql.tokens import Token

RESERVED = frozenset({"AS", "DEFAULT", "KEY", "SELECT", "WHERE"})
"""Words that are no names unless they are quoted: without that, a forgotten name would swallow them."""

_DECLARED = {"quoted": "NAME", "string": "STRING", "number": "NUMBER"}


class StatementLexer(Lexer):
    """Names the terminal of each token; the input is a sequence of `Token`, islands folded."""

    __future_interface__ = 2

    def __init__(self, conf: LexerConf) -> None:
        self.keywords = {terminal.pattern.value.upper(): terminal.name for terminal in conf.terminals}

    def lex(self, lexer_state: LexerState, parser_state: ParserState[int]) -> Iterator[lark.Token]:
        tokens: Iterable[Token] = lexer_state.text  # type: ignore[assignment]  # Lark hands custom input through
        for token in tokens:
            accepted = parser_state.parse_conf.states[parser_state.position]
            terminal = terminal_of(token, accepted, self.keywords)
            start, stop = token.span
            yield lark.Token(terminal, token.text, start_pos=start, end_pos=stop, line=1, column=start + 1)


def terminal_of(token: Token, accepted: Container[str], keywords: Mapping[str, str]) -> str:
    """The terminal of a token; one that no grammar knows where the token can stand nowhere."""
    kind, word = token.kind, token.word
    keyword = keywords.get(word)
    if keyword is not None and keyword in accepted:
        return keyword
    if kind == "word":
        return "RESERVED" if word in RESERVED else "NAME"
    return _DECLARED.get(kind, kind)


@cache
def parser(family: Family) -> Lark:
    """The parser of a family; its input is a sequence of tokens. `snapdb.sql.reading` reads by its tables."""
    with _without_collision_search():
        return grammar(family)


def grammar(family: Family, *, strict: bool = False) -> Lark:
    """A family's grammar, built anew. `strict` refuses shift/reduce conflicts (needs the package interegular)."""
    text = files("snapdb_grammar").joinpath(f"{family}.lark").read_text(encoding="utf-8")
    return Lark(text, parser="lalr", lexer=StatementLexer, strict=strict)


@contextmanager
def _without_collision_search() -> Iterator[None]:
    """Keep Lark from searching regular expressions for collisions: up to 0.2 s, and only to log a warning.

    It does so wherever interegular happens to be installed, even for its own grammar of grammars.
    """
    before = lark.lexer.has_interegular
    lark.lexer.has_interegular = False
    try:
        yield
    finally:
        lark.lexer.has_interegular = before

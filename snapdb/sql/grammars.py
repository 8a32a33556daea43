"""The parsers of the grammars, by Lark (LALR), over tokens of snapdb's own lexer."""

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache

import lark
from lark import Lark
from lark.common import LexerConf
from lark.exceptions import UnexpectedToken
from lark.lexer import Lexer, LexerState
from lark.parsers.lalr_parser_state import ParserState

from snapdb.sql.lexer import Token
from snapdb.sql.syntax import RESERVED, Tree
from snapdb.sql.syntax_errors import explain_unexpected
from snapdb_grammar import grammar_text

_DECLARED = {"quoted": "NAME", "string": "STRING", "number": "NUMBER"}


class _StatementLexer(Lexer):
    """Names the terminal of each token; the input is a sequence of `Token`, SQL fragments folded."""

    __future_interface__ = 2

    def __init__(self, conf: LexerConf) -> None:
        self.keywords = {terminal.pattern.value.upper(): terminal.name for terminal in conf.terminals}

    def lex(self, lexer_state: LexerState, parser_state: ParserState[int]) -> Iterator[lark.Token]:
        tokens: Iterable[Token] = lexer_state.text  # type: ignore[assignment]  # Lark hands custom input through
        for token in tokens:
            accepted = parser_state.parse_conf.states[parser_state.position]
            terminal = _terminal_of(token, accepted, self.keywords)
            start, stop = token.span
            yield lark.Token(terminal, token.text, start_pos=start, end_pos=stop, line=1, column=start + 1)


def _terminal_of(token: Token, accepted: Container[str], keywords: Mapping[str, str]) -> str:
    """Return the terminal of a token; one outside every grammar where the token is not valid anywhere."""
    kind, word = token.kind, token.word
    keyword = keywords.get(word)
    if keyword is not None and keyword in accepted:
        return keyword
    if kind == "word":
        return "RESERVED" if word in RESERVED else "NAME"
    return _DECLARED.get(kind, kind)


@cache
def parser(family: str) -> Lark:
    """The parser of a family; its input is a sequence of tokens, positions in its trees count in the source."""
    with _without_collision_search():
        return _grammar(family)


def _grammar(family: str, *, strict: bool = False) -> Lark:
    """A family's grammar, built anew. `strict` refuses shift/reduce conflicts (needs the package interegular)."""
    return Lark(grammar_text(family), parser="lalr", lexer=_StatementLexer, propagate_positions=True, strict=strict)


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


def parse_tokens(family: str, folded: Sequence[Token], tokens: Sequence[Token]) -> Tree:
    """The tree of a statement of a family.

    Args:
        folded: Its tokens, in which each SQL fragment is one.
        tokens: All its tokens, which errors are explained by.

    Raises:
        ParseError: a token is not valid where it is.
    """
    try:
        tree: Tree = parser(family).parse(folded)
    except UnexpectedToken as error:
        raise explain_unexpected(error, parser(family), tokens) from None
    return tree

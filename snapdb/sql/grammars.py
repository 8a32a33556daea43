"""The grammars' Lark parsers (LALR), which read tokens from snapdb's own lexer."""

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
from snapdb.sql.queries import NO_NAMES
from snapdb.sql.syntax import RESERVED, Tree
from snapdb.sql.syntax_errors import explain_unexpected
from snapdb_grammar import grammar_text

_DECLARED = {"quoted": "NAME", "string": "STRING", "number": "NUMBER"}


class _StatementLexer(Lexer):
    """Assigns a terminal to each token. The input is a sequence of `Token`, with SQL fragments folded."""

    __future_interface__ = 2

    def __init__(self, conf: LexerConf) -> None:
        self.keywords = {terminal.pattern.value.upper(): terminal.name for terminal in conf.terminals}

    def lex(self, lexer_state: LexerState, parser_state: ParserState[int]) -> Iterator[lark.Token]:
        tokens: Iterable[Token] = lexer_state.text  # type: ignore[assignment]  # Lark passes custom input on
        for token in tokens:
            # A contextual lexer: a keyword is a keyword only where the parser accepts it, and a name everywhere else.
            accepted = parser_state.parse_conf.states[parser_state.position]
            terminal = _terminal_of(token, accepted, self.keywords)
            start, stop = token.span
            yield lark.Token(terminal, token.text, start_pos=start, end_pos=stop, line=1, column=start + 1)


def _terminal_of(token: Token, accepted: Container[str], keywords: Mapping[str, str]) -> str:
    """Return a token's terminal, or a name that no grammar defines if the token is not valid anywhere."""
    kind, word = token.kind, token.word
    keyword = keywords.get(word)
    if keyword is not None and keyword in accepted:
        return keyword
    if kind == "word":
        # A word that is no keyword of the grammar, nor of DuckDB, cannot be meant as one.
        return "RESERVED" if word in RESERVED and (keyword is not None or word in NO_NAMES) else "NAME"
    return _DECLARED.get(kind, kind)


@cache
def parser(family: str) -> Lark:
    """Return the parser of a family. It parses a sequence of tokens, and positions in its trees refer to the source."""
    with _without_collision_search():
        return _grammar(family)


def _grammar(family: str, *, strict: bool = False) -> Lark:
    """Build the grammar of a family. `strict` rejects shift/reduce conflicts (requires the interegular package)."""
    return Lark(grammar_text(family), parser="lalr", lexer=_StatementLexer, propagate_positions=True, strict=strict)


@contextmanager
def _without_collision_search() -> Iterator[None]:
    """Prevent Lark from searching regular expressions for collisions, which takes up to 0.2 s only to log a warning.

    Lark searches whenever interegular is installed, even in the grammar for its own grammar files.
    """
    before = lark.lexer.has_interegular
    lark.lexer.has_interegular = False
    try:
        yield
    finally:
        lark.lexer.has_interegular = before


def parse_tokens(family: str, folded: Sequence[Token], tokens: Sequence[Token]) -> Tree:
    """Parse a statement of a family into a tree.

    Args:
        folded: The statement's tokens, with each SQL fragment folded into one token.
        tokens: All tokens of the statement, for error messages.

    Raises:
        ParseError: A token is not valid at its position.
    """
    try:
        tree: Tree = parser(family).parse(folded)
    except UnexpectedToken as error:
        raise explain_unexpected(error, parser(family), tokens) from None
    return tree

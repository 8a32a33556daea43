"""Which runs of tokens inside our statements are DuckDB's to read, and folding each into one token.

Our grammars never look into an island: they see one token of a kind in capitals that carries the island's span.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from snapdb.errors import Span
from snapdb.sql.brackets import partners
from snapdb.sql.tokens import Token, TokenKind

__all__ = ["READS", "Family", "Run", "fold", "top_level"]


class Run(NamedTuple):
    """Tokens `first` up to, not including, `stop` are an island."""

    kind: TokenKind
    first: int
    stop: int


READS = ("SELECT", "WITH", "VALUES", "FROM", "PIVOT", "UNPIVOT", "SUMMARIZE", "TABLE", "DESCRIBE")
"""First words of queries; one may also start with a parenthesis."""

Pairs = dict[int, int]
Family = str
"""The name of a grammar file: table, graph, snapshot, sample, show."""


def fold(tokens: Sequence[Token], family: Family, source: str) -> tuple[Token, ...]:
    """The tokens of a statement with every island as one token; ParseError when brackets do not match."""
    pairs = partners(tokens)
    find = _FINDERS.get(family)
    runs = sorted(find(tokens, pairs), key=lambda run: run.first) if find else []
    folded: list[Token] = []
    position = 0
    for run in runs:
        if run.first < position or run.first >= run.stop:
            continue
        if run.kind == "QUERY" and tokens[run.first].word not in (*READS, "("):
            continue  # left as it is, so that the grammar refuses its first word
        span = Span(tokens[run.first].span.start, tokens[run.stop - 1].span.stop)
        folded += tokens[position : run.first]
        folded.append(Token(run.kind, source[span.start : span.stop], span))
        position = run.stop
    return (*folded, *tokens[position:])


def top_level(tokens: Sequence[Token], pairs: Pairs, first: int = 0) -> Iterator[int]:
    """The indexes from `first` on of tokens outside brackets, opening brackets included."""
    index = first
    while index < len(tokens):
        yield index
        index = pairs.get(index, index) + 1


def _has_message(tokens: Sequence[Token]) -> bool:
    """Whether the last two tokens are MESSAGE '…'."""
    return len(tokens) > 1 and tokens[-2].word == "MESSAGE" and tokens[-1].kind == "string"


def _body_stop(tokens: Sequence[Token]) -> int:
    return len(tokens) - 2 if _has_message(tokens) else len(tokens)


def _table(tokens: Sequence[Token], pairs: Pairs) -> Iterator[Run]:
    leading = tokens[0].word
    if leading == "CREATE":
        yield from _created(tokens, pairs)
    elif leading == "INSERT":
        yield from _inserted(tokens, pairs)
    elif leading == "DELETE":
        yield from _tail(tokens, pairs, _body_stop(tokens))


def _created(tokens: Sequence[Token], pairs: Pairs) -> Iterator[Run]:
    """What stands in the first parentheses, or after AS."""
    for index in top_level(tokens, pairs):
        if tokens[index].word == "AS":
            yield Run("QUERY", index + 1, _body_stop(tokens))
            return
        if tokens[index].word == "(":
            yield Run("COLUMNS", index + 1, pairs[index])
            return


def _inserted(tokens: Sequence[Token], pairs: Pairs) -> Iterator[Run]:
    """What follows the table's name and its columns, if it names columns."""
    first = 3
    if first in pairs and _names_columns(tokens[first + 1 : pairs[first]]):
        first = pairs[first] + 1
    yield Run("QUERY", first, _body_stop(tokens))


def _names_columns(inside: Sequence[Token]) -> bool:
    """Whether parentheses after INSERT INTO t hold columns: names between commas, or at least no query."""
    names, commas = inside[::2], inside[1::2]
    if all(token.kind in ("word", "quoted") for token in names) and all(token.word == "," for token in commas):
        return True
    return inside[0].word not in (*READS, "(")


def _tail(tokens: Sequence[Token], pairs: Pairs, stop: int) -> Iterator[Run]:
    """The condition after WHERE, up to `stop`."""
    for index in top_level(tokens, pairs):
        if tokens[index].word == "WHERE":
            yield Run("CONDITION", index + 1, stop)
            return


def _snapshot(tokens: Sequence[Token], pairs: Pairs) -> Iterator[Run]:
    """The moment of AT, a parenthesised time, the condition after WHERE."""
    yield from _tail(tokens, pairs, len(tokens))
    for index in top_level(tokens, pairs):
        if index not in pairs or index == 0:
            continue
        before = tokens[index - 1].word
        if before == "AT" and index + 2 < pairs[index] and tokens[index + 2].word == "=>":
            yield Run("EXPRESSION", index + 3, pairs[index])
        elif before in {"OF", "FROM", "TO", "BETWEEN", "AND"}:
            yield Run("EXPRESSION", index + 1, pairs[index])


def _sample(tokens: Sequence[Token], pairs: Pairs) -> Iterator[Run]:
    """What stands in the parentheses after SEEDS."""
    for index in top_level(tokens, pairs):
        if index in pairs and tokens[index - 1].word == "SEEDS":
            yield Run("QUERY", index + 1, pairs[index])


_FINDERS: dict[Family, Callable[[Sequence[Token], Pairs], Iterator[Run]]] = {
    "table": _table,
    "snapshot": _snapshot,
    "sample": _sample,
}

"""Which runs of tokens inside our statements are DuckDB's to read, and folding each into one token.

Our grammars never look into an SQL fragment: they see one token of a kind in capitals that carries the fragment's span.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from snapdb.errors import Span
from snapdb.sql.lexer import Token, TokenKind, partners


class Run(NamedTuple):
    """Tokens `first` up to, not including, `stop` are an SQL fragment."""

    kind: TokenKind
    first: int
    stop: int


READS = ("SELECT", "WITH", "VALUES", "FROM", "PIVOT", "UNPIVOT", "SUMMARIZE", "TABLE", "DESCRIBE")
"""First words of queries; one may also start with a parenthesis."""


Pairs = dict[int, int]


Finder = Callable[[Sequence[Token], Pairs], Iterator[Run]]
"""Finds the SQL fragments of a statement, in any order; `Pairs` has the closing bracket of each opening one."""


def fold(tokens: Sequence[Token], find: Finder, source: str) -> tuple[Token, ...]:
    """The tokens of a statement with every fragment as one token; ParseError when brackets do not match."""
    pairs = partners(tokens)
    runs = sorted(find(tokens, pairs), key=lambda run: run.first)
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


def says(tokens: Sequence[Token], first: int, *words: str) -> bool:
    """Whether the tokens from `first` on are these keywords or marks."""
    found = tokens[first : first + len(words)]
    return bool(found) and found[0].word == words[0] and [token.word for token in found[1:]] == [*words[1:]]


def no_fragments(tokens: Sequence[Token], pairs: Pairs) -> Iterator[Run]:  # a Finder
    """None: the grammar reads all of a statement."""
    return iter(())


def at_values(tokens: Sequence[Token], pairs: Pairs) -> Iterator[Run]:
    """The value in AT (VERSION => …)."""
    for index in top_level(tokens, pairs):
        if index in pairs and index and tokens[index - 1].word == "AT" and says(tokens, index + 2, "=>"):
            yield Run("EXPRESSION", index + 3, pairs[index])


def explained(tokens: Sequence[Token], pairs: Pairs) -> int:
    """The index of the first token after EXPLAIN and its settings."""
    first = 2 if says(tokens, 1, "ANALYZE") else 1
    return pairs[first] + 1 if first in pairs and tokens[first + 1].word in {"FORMAT", "ANALYZE"} else first


@dataclass(frozen=True, slots=True)
class Rewritten:
    """A text after replacements."""

    text: str
    edits: tuple[tuple[Span, Span], ...]
    """Each replacement's place in this text and the place that it took in the original; in order."""

    def place(self, index: int) -> int:
        """Where in the original text a place of this text was; within a replacement, where the replaced part starts.

        >>> rewrite("SELECT at", [(Span(7, 9), '"at"')]).place(11)
        9
        """
        before = bisect_right(self.edits, index, key=lambda edit: edit[0].start) - 1
        if before < 0:
            return index
        new, old = self.edits[before]
        return old.start if index < new.stop else old.stop + index - new.stop


def rewrite(text: str, replacements: Sequence[tuple[Span, str]]) -> Rewritten:
    """The text with other words in some places, which come in any order and do not overlap.

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

"""GRAPH_TABLE (…) in a sequence of tokens: where it is, which tokens DuckDB parses, and which ? are quantifiers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from snapdb.sql.lexer import CLOSERS, OPENERS, Pairs, Run, Token, partners, says


class PatternPlace(NamedTuple):
    """A GRAPH_TABLE (…) in a sequence of tokens."""

    first: int
    """The index of the word GRAPH_TABLE."""
    last: int
    """The index of its closing parenthesis."""


def find_patterns(tokens: Sequence[Token]) -> tuple[PatternPlace, ...]:
    """Return the GRAPH_TABLE (…) of a query that are not inside another one, in order.

    >>> from snapdb.sql.lexer import scan
    >>> find_patterns(scan("SELECT * FROM GRAPH_TABLE (g MATCH (a) COLUMNS (a.x))"))
    (PatternPlace(first=3, last=16),)
    """
    # This runs for every token of a query, so the cheap length comparison is first.
    starts = [i for i, t in enumerate(tokens) if len(t.text) == 11 and says(tokens, i, "GRAPH_TABLE", "(")]
    if not starts:
        return ()
    pairs, places = partners(tokens), list[PatternPlace]()
    for start in starts:
        if not places or start > places[-1].last:
            places.append(PatternPlace(start, pairs[start + 1]))
    return tuple(places)


def outermost(*kinds: Sequence[PatternPlace]) -> list[PatternPlace]:
    """Return the places of several kinds that are not inside another one, in order.

    >>> outermost([PatternPlace(3, 16)], [PatternPlace(5, 8), PatternPlace(20, 24)])
    [PatternPlace(first=3, last=16), PatternPlace(first=20, last=24)]
    """
    places = list[PatternPlace]()
    for place in sorted(place for kind in kinds for place in kind):
        if not places or place.first > places[-1].last:
            places.append(place)
    return places


def question_quantifiers(tokens: Sequence[Token]) -> frozenset[int]:
    """Return the indexes of the ? that are quantifiers of patterns, not parameters.

    >>> from snapdb.sql.lexer import scan
    >>> text = "SELECT ? FROM GRAPH_TABLE (g MATCH (a WHERE a.x = ?)->?(b) COLUMNS (a.x))"
    >>> sorted(question_quantifiers(scan(text)))
    [18]
    """
    found: set[int] = set()
    for first, last in find_patterns(tokens):
        inside = tokens[first + 2 : last]
        runs = list(pattern_fragments(inside, partners(inside)))
        for index, token in enumerate(inside):
            if token.text == "?" and not any(run.first <= index < run.stop for run in runs):
                found.add(first + 2 + index)
    return frozenset(found)


def without_quantifiers(tokens: tuple[Token, ...]) -> tuple[Token, ...]:
    """Return the tokens of a statement with each ? that is a quantifier as a symbol instead of a parameter."""
    if not any(token.text == "?" for token in tokens):
        return tokens
    found = question_quantifiers(tokens)
    return tuple(token._replace(kind="mark") if i in found else token for i, token in enumerate(tokens))


_ENDS = {"KEEP", "COLUMNS", "ONE"}


def pattern_fragments(tokens: Sequence[Token], pairs: Pairs) -> Iterator[Run]:
    """Yield the conditions, costs and columns, and the version of the graph."""
    closers = _closers(tokens, pairs)
    for index, token in enumerate(tokens):
        if index and tokens[index - 1].word == ".":
            continue  # a column with the name of a keyword
        word = token.word
        if word == "AT" and says(tokens, index + 3, "=>") and index + 1 in pairs:
            yield Run("EXPRESSION", index + 4, pairs[index + 1])
        elif word == "WHERE":
            yield Run("CONDITION", index + 1, _stop(tokens, pairs, index + 1, closers[index]))
        elif word == "COST":
            yield Run("EXPRESSION", index + 1, closers[index])
        elif word == "COLUMNS" and index + 1 in pairs and closers[index] == len(tokens):
            yield Run("EXPRESSION", index + 2, pairs[index + 1])


def _closers(tokens: Sequence[Token], pairs: Pairs) -> list[int]:
    """Return for each token the index of the bracket that closes around it, or the number of tokens."""
    closers, around = [], [len(tokens)]
    for index, token in enumerate(tokens):
        if token.kind == "mark" and token.text in CLOSERS:
            around.pop()
        closers.append(around[-1])
        if token.kind == "mark" and token.text in OPENERS:
            around.append(pairs[index])
    return closers


def _stop(tokens: Sequence[Token], pairs: Pairs, first: int, closer: int) -> int:
    """Return the index after a condition: at COST, at a clause of GRAPH_TABLE, or at the closing bracket."""
    index = first
    while index < closer:
        word = tokens[index].word
        named = index > 0 and tokens[index - 1].word == "."
        if not named and (
            (closer < len(tokens) and word == "COST")
            or (closer == len(tokens) and word in _ENDS and _clause(tokens, index))
        ):
            return index
        index = pairs.get(index, index) + 1
    return closer


def _clause(tokens: Sequence[Token], index: int) -> bool:
    match tokens[index].word:
        case "COLUMNS":
            return says(tokens, index, "COLUMNS", "(")
        case "ONE":
            return says(tokens, index, "ONE", "ROW", "PER")
    return True

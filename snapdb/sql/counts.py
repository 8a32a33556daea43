"""Where a query counts all rows of one table and nothing else: the catalog knows how many there are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from snapdb.errors import Span
from snapdb.sql.brackets import partners
from snapdb.sql.tokens import Token, scan
from snapdb.sql.travel import NO_NAMES, opens_bound

_COUNT = ("SELECT", "COUNT", "(", "*", ")")
_BEFORE = ("(", "UNION", "ALL")
_AFTER = (")", ";", "UNION")


class RowCount(NamedTuple):
    """`count(*) AS n FROM name AT (…) AS t` after SELECT, of which only count, FROM and the name must be there."""

    name: Token
    """The table's name, a word or quoted."""
    alias: Token | None
    """What the result is to be called."""
    span: Span
    """From `count` to the end of what follows FROM."""


def row_counts(text: str) -> tuple[RowCount, ...]:
    """Where a query counts the rows of tables; spans count in the text.

    >>> text = "SELECT count(*) AS n FROM a AT (VERSION => 3) UNION ALL SELECT count(*) FROM b"
    >>> [(count.name.text, count.alias and count.alias.text, text[slice(*count.span)]) for count in row_counts(text)]
    [('a', 'n', 'count(*) AS n FROM a AT (VERSION => 3)'), ('b', None, 'count(*) FROM b')]
    >>> row_counts("SELECT count(*) FROM a WHERE x > 1"), row_counts("WITH a AS (SELECT 1) SELECT count(*) FROM a")
    ((), ())
    """
    return find_counts(scan(text))


def find_counts(tokens: Sequence[Token]) -> tuple[RowCount, ...]:
    """What `row_counts` finds, in tokens. None where there is a WITH: a name may be that of its query."""
    starts = [i for i, token in enumerate(tokens) if token.word == "COUNT" and _counts(tokens, i - 1)]
    if not starts or any(token.word == "WITH" for token in tokens):
        return ()
    pairs = partners(tokens)
    found = (_count(tokens, pairs, start) for start in starts)
    return tuple(count for count in found if count is not None)


def _counts(tokens: Sequence[Token], index: int) -> bool:
    """Whether SELECT count(*) begins a query here."""
    begins = index == 0 or (index > 0 and tokens[index - 1].word in _BEFORE)
    return begins and tuple(token.word for token in tokens[index : index + len(_COUNT)]) == _COUNT


def _count(tokens: Sequence[Token], pairs: dict[int, int], start: int) -> RowCount | None:
    """The count whose word is at `start`; None where more than a table follows."""
    alias, place = _alias(tokens, start + 4)
    if _word(tokens, place) != "FROM" or not _is_name(tokens, place + 1):
        return None
    name, last = tokens[place + 1], place + 1
    if opens_bound(tokens, last + 1):
        last = pairs[last + 2]
    if _word(tokens, last + 1) == "AS" and _is_name(tokens, last + 2):
        last += 2
    if last + 1 < len(tokens) and tokens[last + 1].word not in _AFTER:
        return None
    return RowCount(name, alias, Span(tokens[start].span.start, tokens[last].span.stop))


def _alias(tokens: Sequence[Token], place: int) -> tuple[Token | None, int]:
    """What the result is called, and the index after it."""
    if _word(tokens, place) == "AS" and _is_name(tokens, place + 1):
        return tokens[place + 1], place + 2
    return None, place


def _word(tokens: Sequence[Token], index: int) -> str:
    return tokens[index].word if index < len(tokens) else ""


def _is_name(tokens: Sequence[Token], index: int) -> bool:
    token = tokens[index] if index < len(tokens) else None
    return token is not None and (token.kind == "quoted" or (token.kind == "word" and token.word not in NO_NAMES))

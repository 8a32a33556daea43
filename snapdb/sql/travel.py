"""Tables as they were: where a query says `name AT (VERSION => 3)`, and where `at` is only a column's name."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from snapdb.errors import ParseError, Span
from snapdb.sql.ast import Island, VersionBound
from snapdb.sql.bounds import BOUNDS, version_bound
from snapdb.sql.brackets import partners
from snapdb.sql.tokens import Token, scan

_RESERVED = (
    "ALL ANALYSE ANALYZE AND ANTI ANY ARRAY AS ASC ASOF ASYMMETRIC AUTHORIZATION BINARY BOTH BY CASE CAST CHECK "
    "COLLATE COLLATION COLUMN COLUMNS CONCURRENTLY CONSTRAINT CREATE CROSS DEFAULT DEFERRABLE DESC DESCRIBE DISTINCT "
    "DO ELSE END EXCEPT FALSE FETCH FOR FOREIGN FREEZE FROM FULL GENERATED GLOB GROUP HAVING ILIKE IN INITIALLY INNER "
    "INTERSECT INTO IS ISNULL JOIN LAMBDA LATERAL LEADING LEFT LIKE LIMIT MAP NATURAL NOT NOTNULL NULL OFFSET ON ONLY "
    "OR ORDER OUTER OVERLAPS PIVOT PIVOT_LONGER PIVOT_WIDER PLACING POSITIONAL PRIMARY QUALIFY REFERENCES RETURNING "
    "RIGHT SELECT SEMI SHOW SIMILAR SOME STRUCT SUMMARIZE SYMMETRIC TABLE TABLESAMPLE THEN TO TRAILING TRUE TRY_CAST "
    "TUPLE UNION UNIQUE UNPACK UNPIVOT USING VARIADIC VERBOSE WHEN WHERE WINDOW WITH "
)
DEEPEST = 16
"""Values of AT that stand within one another: each is a query of its own."""
_AT = frozenset({"AT", "At", "aT", "at"})
NO_NAMES = frozenset(_RESERVED.split())
"""Words that DuckDB takes for a table's name only in quotes."""


class TimeTravel(NamedTuple):
    """A table at a moment of its history, as a query names it."""

    name: Token
    """The table's name, a word or quoted; the last part of a dotted path."""
    bound: VersionBound
    span: Span
    """From the start of the name to the closing parenthesis."""


def time_travels(text: str) -> tuple[TimeTravel, ...]:
    """Where a text names tables with AT (VERSION | TIMESTAMP | TAG => …), in order; spans count in the text.

    One that stands inside the value of another is not listed: it belongs to that value.

    >>> (travel,) = time_travels("SELECT at FROM bought AT (VERSION => 3) b")
    >>> travel.name.text, travel.bound.kind, travel.bound.value.text, travel.span
    ('bought', 'VERSION', '3', Span(start=15, stop=39))
    """
    return find_travels(scan(text), text)


def find_travels(tokens: Sequence[Token], source: str) -> tuple[TimeTravel, ...]:
    """What `time_travels` finds, in tokens of a source. Raises ParseError for a bound without a value."""
    starts = [
        index - 1 for index, token in enumerate(tokens) if token[1] in _AT and index and _is_travel(tokens, index - 1)
    ]
    pairs = partners(tokens) if starts else {}
    travels: list[TimeTravel] = []
    around: list[int] = []
    for index in starts:
        while around and around[-1] < index:
            around.pop()
        if len(around) == DEEPEST:
            raise ParseError(
                f"AT stands in the value of AT more than {DEEPEST} deep; name the version itself",
                span=tokens[index + 1].span,
                code="too-deep",
            )
        if not around:
            travels.append(_travel(tokens, index, pairs[index + 2], source))
        around.append(pairs[index + 2])
    return tuple(travels)


def bare_ats(text: str) -> tuple[Span, ...]:
    """Where `at` stands unquoted as a name, which DuckDB reads only in quotes; not inside time travels.

    >>> text = "SELECT at, ts AT TIME ZONE 'UTC' FROM t AT (VERSION => 3) ORDER BY t.at"
    >>> [text[: span.start] for span in bare_ats(text)]
    ['SELECT ', "SELECT at, ts AT TIME ZONE 'UTC' FROM t AT (VERSION => 3) ORDER BY t."]
    """
    tokens = scan(text)
    if not any(token.word == "AT" for token in tokens):
        return ()
    return tuple(_names(tokens, tuple(travel.span for travel in find_travels(tokens, text))))


def opens_bound(tokens: Sequence[Token], index: int) -> bool:
    """Whether AT (VERSION => starts here."""
    words = [token.word for token in tokens[index : index + 4]]
    return len(words) == 4 and words[0] == "AT" and words[1] == "(" and words[2] in BOUNDS and words[3] == "=>"


def _names(tokens: Sequence[Token], travels: Sequence[Span]) -> Iterator[Span]:
    for index, token in enumerate(tokens):
        following = tuple(after.word for after in tokens[index + 1 : index + 3])
        if token.word != "AT" or following == ("TIME", "ZONE") or opens_bound(tokens, index):
            continue
        if not any(span.start <= token.span.start < span.stop for span in travels):
            yield token.span


def _is_travel(tokens: Sequence[Token], index: int) -> bool:
    """Whether a table's name stands here and AT (VERSION => after it."""
    token = tokens[index]
    named = token.kind == "quoted" or (token.kind == "word" and token.word not in NO_NAMES)
    return named and opens_bound(tokens, index + 1)


def _travel(tokens: Sequence[Token], index: int, last: int, source: str) -> TimeTravel:
    """The time travel whose name and closing parenthesis stand at two indexes."""
    name, at, kind, closer = tokens[index], tokens[index + 1], tokens[index + 3], tokens[last]
    if index and tokens[index - 1].word == "AS":
        raise ParseError(f"AT stands before the alias: write t AT (…) AS {name.text}", span=at.span, code="at-place")
    if last == index + 5:
        raise ParseError(f"{kind.word} => lacks its value, found )", span=closer.span, code="bad-bound")
    inside = Span(tokens[index + 5].span.start, tokens[last - 1].span.stop)
    bound = version_bound(kind.text, Island(source[slice(*inside)], inside), Span(at.span.start, closer.span.stop))
    return TimeTravel(name, bound, Span(name.span.start, closer.span.stop))

"""References to variables in the expressions of a GRAPH_TABLE: where they are, and conditions split at AND."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from snapdb.errors import Span
from snapdb.sql.lexer import Token, partners, scan
from snapdb.sql.pattern_tokens import find_patterns
from snapdb.sql.queries import NO_NAMES
from snapdb.sql.syntax import SqlFragment


class Reference(NamedTuple):
    """A reference to an element variable or a path variable in an expression."""

    variable: str
    """The case-folded name."""
    column: Token | None
    """The column or * after the dot, or None for the variable itself."""
    first: int
    """The index of the first token."""
    last: int
    """The index of the last token."""


@dataclass(frozen=True, slots=True, eq=False)
class Expression:
    """The tokens of an expression in a pattern, and its references. Spans of tokens are relative to its text."""

    fragment: SqlFragment
    tokens: tuple[Token, ...]
    references: tuple[Reference, ...]

    @property
    def variables(self) -> frozenset[str]:
        """The case-folded names of the variables that it references."""
        return frozenset(reference.variable for reference in self.references)

    @property
    def has_subquery(self) -> bool:
        """Whether it contains a subquery."""
        return bool(subqueries(self.tokens))

    def span(self, first: int, last: int) -> Span:
        """Return the span in the statement of a run of tokens."""
        at = self.fragment.span.start
        return Span(self.tokens[first].span.start + at, self.tokens[last].span.stop + at)

    def span_of(self, variable: str) -> Span:
        """Return the span of the first reference to a variable."""
        reference = next(each for each in self.references if each.variable == variable)
        return self.span(reference.first, reference.last)


Condition = Expression
"""A conjunct of a condition."""

_VALUE_ENDS = frozenset((")", "]", "}"))


def expression(fragment: SqlFragment, variables: Iterable[str]) -> Expression:
    """Return an expression with its references to the given variables, whose names are case-folded.

    >>> from snapdb.errors import Span
    >>> text = "a.x + b.y AS a, count(e), {'k': a.z}"
    >>> [(r.variable, r.column and r.column.text) for r in expression(SqlFragment(text, Span(0, 35)), "abe").references]
    [('a', 'x'), ('b', 'y'), ('e', None), ('a', 'z')]
    """
    tokens = scan(fragment.text)
    return Expression(fragment, tokens, tuple(_references(tokens, frozenset(variables) - _lambda_names(tokens))))


def _lambda_names(tokens: Sequence[Token]) -> set[str]:
    """Return the parameters of lambda functions, which hide variables with the same names."""
    names: set[str] = set()
    for index, token in enumerate(tokens):
        if token.word == "LAMBDA":
            stop = next((i for i in range(index, len(tokens)) if tokens[i].text == ":"), len(tokens))
            names |= {each.identifier.lower() for each in tokens[index + 1 : stop] if each.text != ","}
    return names


def subqueries(tokens: Sequence[Token]) -> list[tuple[int, int]]:
    """Return the first and last token of each subquery in parentheses, and of each GRAPH_TABLE (…).

    >>> subqueries(scan("a.x IN (SELECT x FROM t) AND f(a.y)"))
    [(4, 9)]
    """
    words = {token.word for token in tokens}
    if not words & {"SELECT", "FROM", "WITH", "VALUES", "GRAPH_TABLE"}:
        return []
    pairs = partners(tokens)
    opened = [i for i in pairs if i + 1 < len(tokens) and tokens[i + 1].word in ("SELECT", "FROM", "WITH", "VALUES")]
    return sorted([*((i, pairs[i]) for i in opened), *find_patterns(tokens)])


def _references(tokens: Sequence[Token], variables: frozenset[str]) -> Iterator[Reference]:
    nested, hidden = dict(find_patterns(tokens)), dict[int, frozenset[str]]()
    for first, last in subqueries(tokens):
        names = _aliases(tokens, first, last) & variables
        hidden.update((i, hidden.get(i, frozenset()) | names) for i in range(first, last + 1))
    index = 0
    while index < len(tokens):
        token = tokens[index]
        if index in nested:  # another GRAPH_TABLE has variables of its own
            index = nested[index] + 1
            continue
        if (
            token.kind not in ("word", "quoted")
            or token.identifier.lower() not in variables - hidden.get(index, frozenset())
            or _is_other(tokens, index)
        ):
            index += 1
            continue
        last = index
        column = None
        if _text(tokens, index + 1) == "." and index + 2 < len(tokens):
            column, last = tokens[index + 2], index + 2
        if column is None and index in hidden:  # in a subquery, it is more likely a column or an alias
            index += 1
            continue
        yield Reference(token.identifier.lower(), column, index, last)
        index = last + 1


def _aliases(tokens: Sequence[Token], first: int, last: int) -> frozenset[str]:
    """Return the case-folded names that follow a table, a subquery or AS in a subquery."""
    found = set()
    for before, token in pairwise(tokens[first : last + 1]):
        named = before.kind == "quoted" or (before.kind == "word" and before.word not in NO_NAMES)
        if token.kind in ("word", "quoted") and (named or before.word in ("AS", ")")):
            found.add(token.identifier.lower())
    return frozenset(found)


def _is_other(tokens: Sequence[Token], index: int) -> bool:
    """Return whether a name is a column, an alias, a function or an argument's name instead of a variable."""
    before, after = _text(tokens, index - 1) if index else "", _text(tokens, index + 1)
    typed = before == ":" and index > 1 and tokens[index - 2].text == ":"  # a cast, x::type
    if before == "." or typed or after == "(" or (after, _text(tokens, index + 2)) == (":", "="):
        return True
    if after == ".":
        return False
    previous = tokens[index - 1] if index else None
    if previous is None:
        return False
    # After a value, with or without AS, a name is an alias.
    return previous.word == "AS" or (
        previous.kind in ("quoted", "string", "number", "parameter") or previous.text in _VALUE_ENDS
    )


def _text(tokens: Sequence[Token], index: int) -> str:
    return tokens[index].text if 0 <= index < len(tokens) else ""


def conjuncts(fragment: SqlFragment, variables: Iterable[str]) -> list[Condition]:
    """Return the parts of a condition between ANDs outside brackets, or the whole condition.

    >>> from snapdb.errors import Span
    >>> text = "a.x BETWEEN 1 AND 2 AND (a.y > 1 OR b.z) AND CASE WHEN a.x AND a.y THEN true END"
    >>> [part.fragment.text for part in conjuncts(SqlFragment(text, Span(0, len(text))), "ab")]
    ['a.x BETWEEN 1 AND 2', '(a.y > 1 OR b.z)', 'CASE WHEN a.x AND a.y THEN true END']
    """
    tokens, names = scan(fragment.text), frozenset(variables)
    at, first, conditions = fragment.span.start, 0, list[Condition]()
    for end in (*_ands(tokens), len(tokens)):
        start, stop = tokens[first].span.start, tokens[end - 1].span.stop
        part = SqlFragment(fragment.text[start:stop], Span(start + at, stop + at))
        conditions.append(expression(part, names))
        first = end + 1
    return conditions


def _ands(tokens: Sequence[Token]) -> list[int]:
    """Return the indexes of the ANDs at which a condition can be split."""
    pairs, ends, cases, between, index = partners(tokens), list[int](), 0, 0, 0
    while index < len(tokens):
        match tokens[index].word:
            case "OR" if not cases:
                return []
            case "SELECT" | "FROM" | "WITH":
                return []
            case "CASE":
                cases += 1
            case "END":
                cases -= 1
            case "BETWEEN" if not cases:
                between += 1
            case "AND" if not cases:
                if between:
                    between -= 1
                elif 0 < index < len(tokens) - 1:
                    ends.append(index)
        index = pairs.get(index, index) + 1
    return ends


def bare_names(tokens: Sequence[Token]) -> Iterator[tuple[str, int]]:
    """Yield the names that can be columns without a qualifier, with the index of their token.

    >>> [name for name, _ in bare_names(scan("a.x > lower(y) AND z = DATE '2026-01-01' AND CAST(w AS date) IS NULL"))]
    ['y', 'z', 'w', 'AS', 'NULL']
    """
    for index, token in enumerate(tokens):
        if token.kind not in ("word", "quoted") or _is_other(tokens, index) or _text(tokens, index + 1) == ".":
            continue
        follows = tokens[index + 1].kind if index + 1 < len(tokens) else ""
        # A word before a string is a typed literal, such as DATE '…'. A word after a colon is a type.
        if follows != "string":
            yield token.identifier, index


def qualifiers(tokens: Sequence[Token]) -> Iterator[tuple[str, int]]:
    """Yield the names before a dot that are not qualified themselves, with the index of their token."""
    for index, token in enumerate(tokens):
        if token.kind in ("word", "quoted") and _text(tokens, index + 1) == "." and _text(tokens, index - 1) != ".":
            yield token.identifier, index

"""Calls of graph algorithms in FROM, such as pagerank('june', damping => 0.9): where they are, and their arguments."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from snapdb.errors import ParseError, Span
from snapdb.sql.lexer import CLOSERS, OPENERS, READS, Token, partners, top_level
from snapdb.sql.pattern_tokens import PatternPlace
from snapdb.sql.syntax import Name, SqlFragment
from snapdb.types.algorithms import ALGORITHM_NAMES, Algorithm, algorithm
from snapdb.types.text import did_you_mean

_ENDS = frozenset(
    (
        *("SELECT", "WHERE", "GROUP", "HAVING", "ORDER", "LIMIT", "OFFSET", "WINDOW", "QUALIFY"),
        *("UNION", "INTERSECT", "EXCEPT", "RETURNING", "SET", "VALUES"),
    )
)
"""The words that end a FROM clause."""
_BEFORE_ITEMS = frozenset(("FROM", "JOIN", "USING", "PIVOT", "UNPIVOT", "LATERAL"))
"""The words that an item of FROM follows."""
_TAKING_FROM = frozenset(("EXTRACT", "TRIM", "SUBSTRING", "OVERLAY"))
"""The functions whose arguments are separated by FROM."""


@dataclass(frozen=True, slots=True)
class Argument:
    """An option of a call."""

    name: Name
    value: SqlFragment
    """The text of the value. A query is without its parentheses."""
    is_query: bool


@dataclass(frozen=True, slots=True)
class AlgorithmCall:
    """A call of an algorithm."""

    algorithm: Algorithm
    name: Name
    snapshot: SqlFragment
    """An expression with the name of the snapshot."""
    arguments: tuple[Argument, ...]
    span: Span = field(compare=False)

    def argument(self, name: str) -> Argument | None:
        """Return the option with this name, or None."""
        return next((each for each in self.arguments if each.name.text.lower() == name), None)


def find_algorithms(tokens: Sequence[Token]) -> tuple[PatternPlace, ...]:
    """Return the calls of algorithms in FROM clauses that are not inside another call, in order.

    A function or column with the name of an algorithm in another place is DuckDB's.

    >>> from snapdb.sql.lexer import scan
    >>> find_algorithms(scan("SELECT degree, hops(x) FROM t, degree('june') WHERE degree(1) > 2"))
    (PatternPlace(first=10, last=13),)
    >>> find_algorithms(scan("hops USING"))
    ()
    """
    # This runs for every token of a query, so most queries end here.
    if not any(token[0] == "word" and token[1].lower() in ALGORITHM_NAMES for token in tokens):
        return ()
    starts = [i for i in _item_starts(tokens) if tokens[i + 1 : i + 2] and tokens[i + 1].text == "("]
    starts = [i for i in starts if tokens[i].kind == "word" and tokens[i].text.lower() in ALGORITHM_NAMES]
    if not starts:
        return ()
    pairs, places = partners(tokens), list[PatternPlace]()
    for start in starts:
        if not places or start > places[-1].last:
            places.append(PatternPlace(start, pairs[start + 1]))
    return tuple(places)


@dataclass(slots=True)
class _Level:
    """What is open inside a pair of brackets."""

    in_from: bool
    expects: bool
    """Whether an item of FROM can follow."""
    function: str
    """The word before the opening bracket."""


def _item_starts(tokens: Sequence[Token]) -> Iterator[int]:
    """Yield the indexes of the tokens with which items of FROM clauses start."""
    levels = [_Level(in_from=False, expects=False, function="")]
    for index, token in enumerate(tokens):
        level, word = levels[-1], token.word
        if token.kind == "mark" and token.text in OPENERS:
            # A join in parentheses is an item too.
            inner = level.expects and token.text == "("
            level.expects = False
            levels.append(_Level(inner, inner, tokens[index - 1].word if index else ""))
        elif token.kind == "mark" and token.text in CLOSERS:
            if len(levels) > 1:
                levels.pop()
        elif word == ",":
            level.expects = level.in_from
        elif word in _BEFORE_ITEMS:
            before = tokens[index - 1].word if index else ""
            if word != "FROM" or (before != "DISTINCT" and level.function not in _TAKING_FROM):
                # USING (column) follows a join, and USING t the table of DELETE.
                level.in_from = level.in_from or word != "LATERAL"
                level.expects = len(tokens) > index + 1 and (
                    word not in ("USING", "PIVOT", "UNPIVOT") or tokens[index + 1].text != "("
                )
        elif word in _ENDS:
            level.in_from = level.expects = False
        elif level.expects:
            level.expects = False
            yield index


def parse_algorithm(tokens: Sequence[Token], source: str) -> AlgorithmCall:
    """Return a call as a tree.

    Args:
        tokens: The tokens from the name to the closing parenthesis.
        source: The text to which their spans refer.

    Raises:
        ParseError: The snapshot is missing, or an option is unknown, repeated, missing or without a name or value.
    """
    name = Name(tokens[0].text, tokens[0].span)
    span = Span(tokens[0].span.start, tokens[-1].span.stop)
    called = algorithm(name.text)
    parts = list(_parts(tokens[2:-1]))
    if not parts or not parts[0]:
        raise ParseError(
            f"{called.name} needs the name of a snapshot, {called.name}('june')", span=span, code="missing-clause"
        )
    first, *others = parts
    if len(first) > 1 and first[1].text == "=>":
        raise ParseError(
            f"the first argument of {called.name} is the name of a snapshot; write {called.name}('june', "
            f"{first[0].text} => …)",
            span=first[0].span,
            code="missing-clause",
        )
    if len(first) == 1 and first[0].kind in ("word", "quoted") and first[0].word != "NULL":
        raise ParseError(
            f"the name of the snapshot must be a string; write '{first[0].identifier}'",
            span=first[0].span,
            code="unexpected-word",
        )
    arguments: list[Argument] = []
    for part in others:
        argument = _argument(part, called, source, tokens[-1].span)
        if any(argument.name.text.lower() == other.name.text.lower() for other in arguments):
            raise ParseError(
                f"{argument.name} occurs twice; keep one", span=argument.name.span, code="duplicate-clause"
            )
        arguments.append(argument)
    given = {each.name.text.lower() for each in arguments}
    for option in called.options:
        if option.required and option.name not in given:
            raise ParseError(
                f"{called.name} needs {option.name}; write {option.name} => (SELECT …)",
                span=span,
                code="missing-clause",
            )
    return AlgorithmCall(called, name, _fragment(first, source), tuple(arguments), span)


def _parts(tokens: Sequence[Token]) -> Iterator[Sequence[Token]]:
    """Yield the arguments, separated by commas outside brackets."""
    start = 0
    for index in top_level(tokens, partners(tokens)):
        if tokens[index].word == ",":
            yield tokens[start:index]
            start = index + 1
    yield tokens[start:]


def _argument(part: Sequence[Token], called: Algorithm, source: str, close: Span) -> Argument:
    if not part:
        raise ParseError("expected an option after the comma", span=close, code="unexpected-word")
    named = part[0].kind in ("word", "quoted")
    if not (named and len(part) > 1 and part[1].text in ("=>", "=", ":")):
        span = Span(part[0].span.start, part[-1].span.stop)
        raise ParseError(f"options have names; write {called.options[0].name} => …", span=span, code="unexpected-word")
    name = Name(part[0].identifier, part[0].span)
    if (option := called.option(name.text)) is None:
        known = [each.name for each in called.options]
        hint = did_you_mean(name.text, known) or f"; available: {', '.join(known)}"
        raise ParseError(f'{called.name} has no option "{name}"{hint}', span=name.span, code="unknown-option")
    if part[1].text != "=>":
        raise ParseError(f"write {option.name} => value", span=part[1].span, code="unexpected-word")
    value = part[2:]
    if not value:
        raise ParseError(
            f"{option.name} has no value; {option.name} is {option.type}", span=name.span, code="bad-bound"
        )
    is_query = option.kind in ("nodes", "pairs")
    if is_query:
        if value[0].text != "(" or len(value) < 3 or partners(value)[0] != len(value) - 1:
            raise _not_a_query(option.name, value)
        value = value[1:-1]
        if value[0].word not in (*READS, "("):
            raise _not_a_query(option.name, value)
    return Argument(name, _fragment(value, source), is_query)


def _not_a_query(name: str, value: Sequence[Token]) -> ParseError:
    span = Span(value[0].span.start, value[-1].span.stop)
    return ParseError(f"{name} is a SELECT of keys; write {name} => (SELECT …)", span=span, code="unexpected-word")


def _fragment(tokens: Sequence[Token], source: str) -> SqlFragment:
    span = Span(tokens[0].span.start, tokens[-1].span.stop)
    return SqlFragment(source[span.start : span.stop], span)

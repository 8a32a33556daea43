"""The parts of statements, each with its span: names, SQL fragments, bounds, numbers and sizes.

The functions convert Lark's trees into these parts. The builders of all families use them.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from math import inf, isfinite
from typing import TYPE_CHECKING, ClassVar, Generic, Literal, NamedTuple, TypeVar

from snapdb.errors import ParseError, Span
from snapdb.on_first_use import module_on_first_use
from snapdb.sql.lexer import Finder, Token, TokenKind, no_fragments, scan
from snapdb.types import by_word, did_you_mean

if TYPE_CHECKING:
    import lark
else:
    lark = module_on_first_use("lark")  # only statements with a grammar have syntax trees


@dataclass(frozen=True, slots=True)
class Name:
    """An identifier as written, without its quotes."""

    text: str
    """The identifier, with its schema and a dot before it if it is qualified."""
    span: Span = field(compare=False)
    schema: str = ""
    """The schema of a qualified name, or ''."""

    def __str__(self) -> str:
        return self.text

    @property
    def last(self) -> str:
        """The identifier without its schema, by which SQL refers to a table."""
        return self.text[len(self.schema) + 1 :] if self.schema else self.text


ColumnList = tuple[Name, ...]


@dataclass(frozen=True, slots=True)
class SqlFragment:
    """A SELECT or an expression inside a snapdb statement. DuckDB parses it unchanged."""

    text: str
    """Exactly `source[span.start:span.stop]`, without enclosing parentheses."""
    span: Span = field(compare=False)


@dataclass(frozen=True, slots=True)
class Statement(ABC):
    """A statement of a script."""

    reads: ClassVar[bool] = False
    """Whether statements of this class never change a database. `Plan.reads` is the same property for plans."""
    delimits: ClassVar[bool] = False
    """Whether statements of this class begin or end a transaction."""
    ends_transaction: ClassVar[bool] = False
    """Whether statements of this class end a transaction, and can therefore run in one that has failed."""
    stores_parameters: ClassVar[bool] = False
    """Whether the parameters in statements of this class get their values later."""

    source: str = field(compare=False)
    """The whole text that was parsed. Spans refer to it."""
    span: Span = field(compare=False)
    """The span of this statement in `source`, without the semicolon."""

    @property
    def text(self) -> str:
        return self.source[self.span.start : self.span.stop]

    def only_reads(self) -> bool:
        """Return whether the statement never changes a database, based only on its text."""
        return self.reads or bool(getattr(self, "dry_run", False))

    @abstractmethod
    def to_sql(self) -> str:
        """Return the statement in canonical form, without a semicolon. Parsing it returns an equal statement.

        Keywords are in capitals, names are quoted where necessary, clauses have a fixed order, and SQL fragments are
        unchanged. Defaults are neither added nor removed.

        >>> from snapdb.sql import parse
        >>> (tree,) = parse("create snapshot q of shop where qty>0")
        >>> tree.to_sql()
        'CREATE SNAPSHOT q OF shop WHERE qty>0'
        """


@dataclass(frozen=True, slots=True)
class VersionBound:
    """AT (VERSION => n | TIMESTAMP => '…' | TAG => 'name'), or one end of a DIFF."""

    kind: Literal["VERSION", "TIMESTAMP", "TAG"]
    value: SqlFragment
    """An expression, or for a TAG, a string or parameter."""
    span: Span = field(compare=False)


@dataclass(frozen=True, slots=True)
class TimeBound:
    """FOR EVENT_TIME AS OF t | FROM a TO b | BETWEEN a AND b, as in SQL:2011. AS OF has no start."""

    kind: Literal["AS OF", "FROM", "BETWEEN"]
    start: SqlFragment | None
    stop: SqlFragment
    """Start and stop are each an integer, a string, DATE '…', TIMESTAMP '…', TIMESTAMPTZ '…' or an expression in
    parentheses."""
    span: Span = field(compare=False)


@dataclass(frozen=True, slots=True)
class WindowBound:
    """FOR EVENT_TIME WINDOW length [ENDING t]."""

    length: SqlFragment
    """An INTERVAL or an integer. The binder rejects negative values."""
    ending: SqlFragment | None
    """The end, as in TimeBound, or None for the latest event."""
    span: Span = field(compare=False)


_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Spanned(Generic[_T]):
    """A clause's value with its span."""

    value: _T
    span: Span = field(compare=False)


_Kind = Literal["VERSION", "TIMESTAMP", "TAG"]

BOUNDS: dict[str, _Kind] = by_word(_Kind)


def version_bound(kind: str, value: SqlFragment, span: Span) -> VersionBound:
    """Return the bound for a case-insensitive keyword and a value. The value of a TAG is one string or parameter.

    >>> version_bound("tag", SqlFragment("'june'", Span(4, 10)), Span(0, 10)).kind
    'TAG'
    """
    bound = BOUNDS[kind.upper()]
    if bound == "TAG" and [token.kind for token in scan(value.text)] not in (["string"], ["parameter"]):
        raise ParseError(
            f"TAG must be a name in single quotes, found {value.text[:40]}", span=value.span, code="bad-bound"
        )
    return VersionBound(bound, value, span)


if TYPE_CHECKING:
    Tree = lark.Tree[lark.Token]
    Leaf = lark.Token
else:
    Tree = Leaf = object


class Place(NamedTuple):
    """The source and span of a statement, which are the first two fields of every statement."""

    source: str
    span: Span


def span_of(node: Tree | Leaf) -> Span:
    """Return the span of a node in the source."""
    if isinstance(node, lark.Token):
        assert node.start_pos is not None
        assert node.end_pos is not None
        return Span(node.start_pos, node.end_pos)
    return Span(node.meta.start_pos, node.meta.end_pos)


def leaves(tree: Tree) -> list[Leaf]:
    """Return the tokens that are direct children of a tree."""
    return [child for child in tree.children if isinstance(child, lark.Token)]


def trees(tree: Tree, rule: str | None = None) -> list[Tree]:
    """Return the trees that are direct children of a tree, for one rule or for all rules."""
    subtrees = [child for child in tree.children if isinstance(child, lark.Tree)]
    return [child for child in subtrees if rule is None or child.data == rule]


def first_tree(tree: Tree, rule: str) -> Tree | None:
    """Return the child tree of a rule that the grammar allows at most once, or None."""
    return next(iter(trees(tree, rule)), None)


def has(tree: Tree, rule: str) -> bool:
    """Return whether a tree has a direct child of the given rule."""
    return first_tree(tree, rule) is not None


def once(clauses: Iterable[Tree]) -> dict[str, Tree]:
    """Return the clauses by rule. They can be in any order. Raises ParseError if a clause is repeated."""
    # A grammar that allows each clause at most once, in any order, would need one rule per permutation.
    given: dict[str, Tree] = {}
    for clause in clauses:
        rule = str(clause.data)
        if rule in given:
            keyword = _LABELS.get(rule, rule.upper().replace("_", " "))
            raise ParseError(f"{keyword} is specified twice; keep one", span=span_of(clause), code="duplicate-clause")
        given[rule] = clause
    return given


_LABELS = {
    "alias": "AS",
    "back": "RETURN",
    "backend": "WITH numba or torch",
    "clock": "TIME RESPECTING",
    "contrasts": "NEGATIVES",
    "device": "ON",
    "duplicates": "ALLOW DUPLICATES",
    "event_time": "the event time",
    "exclude": "EXCLUDE SEEDS or KEEP SEEDS",
    "history": "FROM",
    "known": "EXCLUDE KNOWN",
    "last": "RETAIN LAST",
    "older": "OLDER THAN",
    "on_duplicate": "ON DUPLICATE KEY",
    "options": "WITH",
    "order": "the order of the seeds",
    "replacement": "WITH or WITHOUT REPLACEMENT",
    "reuse": "REUSE HOPS",
    "seed_edges": "SEEDS",
    "steps": "LENGTH",
}


def _token(leaf: Leaf, kind: TokenKind) -> Token:
    return Token(kind, str(leaf), span_of(leaf))


def name(leaf: Leaf) -> Name:
    """Return an identifier without its quotes. A qualified name is one leaf (see `lexer.join_qualified`)."""
    if '"."' in leaf and len(parts := scan(str(leaf))) == 3:
        schema, last = parts[0].identifier, parts[2].identifier
        return Name(f"{schema}.{last}", span_of(leaf), schema)
    text = _token(leaf, "quoted" if leaf.startswith('"') else "word").identifier
    if not text:
        raise ParseError(
            "a name must not be empty; write one between the quotes", span=span_of(leaf), code="empty-name"
        )
    return Name(text, span_of(leaf))


def columns(tree: Tree | None) -> ColumnList:
    """Return the names in parentheses, or an empty tuple without them."""
    return () if tree is None else tuple(name(leaf) for leaf in leaves(tree))


def fragment(leaf: Leaf) -> SqlFragment:
    """Return an SQL fragment as written."""
    return SqlFragment(str(leaf), span_of(leaf))


def part(tree: Tree, rule: str) -> SqlFragment | None:
    """Return the fragment of a rule, or None if the statement has none."""
    subtree = first_tree(tree, rule)
    return None if subtree is None else fragment(leaves(subtree)[0])


def bound(tree: Tree) -> VersionBound:
    """Return the version, time or tag in AT or at one end of DIFF."""
    kind, value = leaves(tree)
    return version_bound(kind, fragment(value), span_of(tree))


def string(leaf: Leaf) -> str:
    """Return the value of a string token."""
    return _token(leaf, "string").string_value


def message(tree: Tree) -> str | None:
    """Return the text of MESSAGE, or None if the statement has none."""
    clause = first_tree(tree, "message")
    return None if clause is None else string(leaves(clause)[0])


def number(tree: Tree) -> float:
    """Return a clause's number. Raises ParseError if it is too large for a float."""
    text = "".join(leaves(tree))
    try:
        value = float(text)
    except ValueError:  # hexadecimal
        value = inf
    if not isfinite(value):
        raise ParseError(f"{text[:40]} is not a valid number, or too large", span=span_of(tree), code="bad-number")
    return value


def integer(tree: Tree, clause: str) -> int:
    """Return a clause's number. Raises ParseError if it is not an integer."""
    return _exact_number(tree, int, f"{clause} must be an integer")


def decimal(tree: Tree, clause: str) -> Decimal:
    """Return a clause's number exactly as written. Raises ParseError if it is hexadecimal."""
    return _exact_number(tree, Decimal, f"{clause} must be a decimal number")


def _exact_number(tree: Tree, read: Callable[[str], _T], rule: str) -> _T:
    text = "".join(leaves(tree))
    try:
        return read(text)
    except (ValueError, InvalidOperation):
        raise ParseError(f"{rule}, found {text[:40]}", span=span_of(tree), code="bad-number") from None


RESERVED = frozenset({"AS", "DEFAULT", "KEY", "SELECT", "WHERE"})
"""The words that must be quoted when used as names. Otherwise a clause keyword would be parsed as a missing name."""

UNITS = ("B", "KB", "MB", "GB", "TB", "KiB", "MiB", "GiB", "TiB")
"""The units of sizes. KB is 1000 bytes and KiB is 1024 bytes, as in DuckDB."""

_SIZE = re.compile(r"\s*(\d{1,18}(?:\.\d{1,18})?)\s*([A-Za-z]+)\s*", re.ASCII)


def size(text: str) -> int | None:
    """Return the number of bytes in a size such as '2GB' or '1.5 GiB', or None for other text or more than 64 bits.

    >>> size("2GB"), size("1.5 kib"), size("2")
    (2000000000, 1536, None)
    """
    match = _SIZE.fullmatch(text)
    unit = match and next((unit for unit in UNITS if unit.lower() == match[2].lower()), None)
    if not match or not unit:
        return None
    power = "BKMGT".index(unit[0])
    # Decimal is exact, so 1.5 GiB and 0.1 GB are whole numbers of bytes.
    bytes_ = int(Decimal(match[1]) * (1024 if "i" in unit else 1000) ** power)
    return bytes_ if bytes_ < 2**63 else None


def bytes_of(name: str, given: int | str | None) -> int | None:
    """Return the number of bytes in a Python argument, which is a number or a size such as '2GB'.

    Raises:
        ValueError: The text is not a size.
    """
    if not isinstance(given, str):
        return given
    count = size(given)
    if count is None:
        raise ValueError(
            f"{name} must be a number of bytes or a size such as '2GB' ({', '.join(UNITS)}), found {given!r}"
        )
    return count


def only_option(tree: Tree | None, option: str, read: Callable[[Leaf], _T]) -> _T | None:
    """Return the value of the only option that a WITH clause supports, or None without the clause.

    Args:
        tree: The clause.
        option: The option's name.
        read: Converts the option's value.

    Raises:
        ParseError: The clause has another option, or the option twice.
    """
    found: _T | None = None
    for each in () if tree is None else trees(tree):
        key, value = leaves(each)
        if key.lower() != option:
            near = did_you_mean(key, [option]) or f"; the only option is {option}"
            raise ParseError(f"unknown option {key[:40]} in WITH{near}", span=span_of(key), code="unknown-option")
        if found is not None:
            raise ParseError(f"{option} is specified twice; keep one", span=span_of(each), code="duplicate-clause")
        found = read(value)
    return found


def time_fragment(tree: Tree, source: str) -> SqlFragment:
    """Return a time or length as written, without enclosing parentheses."""
    inside = leaves(tree)[-1]
    if inside.type == "EXPRESSION":
        return fragment(inside)
    span = span_of(tree)
    return SqlFragment(source[span.start : span.stop], span)


class Reader(NamedTuple):
    """The parsers for statements nested in another statement."""

    statement: Callable[[Leaf], Statement]
    """Parses the statement in a leaf with the grammar of its family."""
    script: Callable[[str], tuple[Statement, ...]]
    """Parses all statements in a text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """The statements that one grammar parses, and the builders that convert its trees into statements."""

    grammar: str
    """The file name in snapdb_grammar, without its extension."""
    builders: Mapping[str, Callable[[Tree, Place], Statement]]
    """Maps each grammar rule to the builder of its statement."""
    nesting: Mapping[str, Callable[[Tree, Place, Reader], Statement]] = field(default_factory=dict)
    """Maps each grammar rule to the builder of a statement that contains other statements."""
    fragments: Finder = no_fragments
    """Finds the fragments that DuckDB parses."""
    check: Callable[[Sequence[Token]], None] | None = None
    """Raises ParseError for unsupported forms, before the grammar parses them."""
    names: Callable[[Sequence[Token]], Sequence[int]] | None = None
    """Returns the indexes of names that can be qualified by a schema, and are then joined to one token each."""

"""Reading Lark's trees: the names, islands, numbers and clauses that every family's builder shares."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import inf, isfinite
from typing import NamedTuple

import lark

from snapdb.errors import ParseError, Span
from snapdb.sql.ast import ColumnList, Island, Name, Statement, VersionBound
from snapdb.sql.bounds import version_bound
from snapdb.sql.tokens import Token, TokenKind, identifier, string_value

Tree = lark.Tree[lark.Token]
Leaf = lark.Token

Read = Callable[[Leaf], Statement]
"""Reads the statement that a leaf stands for, by the grammar of its own family."""


class Place(NamedTuple):
    """Where a statement stands; the first two fields of every statement."""

    source: str
    span: Span


def span_of(node: Tree | Leaf) -> Span:
    """The place of a node in the source."""
    if isinstance(node, lark.Token):
        assert node.start_pos is not None
        assert node.end_pos is not None
        return Span(node.start_pos, node.end_pos)
    return Span(node.meta.start_pos, node.meta.end_pos)


def leaves(tree: Tree) -> list[Leaf]:
    """The tokens directly under a tree."""
    return [child for child in tree.children if isinstance(child, lark.Token)]


def trees(tree: Tree, rule: str | None = None) -> list[Tree]:
    """The trees directly under a tree, of one rule or of any."""
    found = [child for child in tree.children if isinstance(child, lark.Tree)]
    return [child for child in found if rule is None or child.data == rule]


def first_tree(tree: Tree, rule: str) -> Tree | None:
    """The tree of a rule that the grammar admits at most once, or None."""
    return next(iter(trees(tree, rule)), None)


def has(tree: Tree, rule: str) -> bool:
    """Whether a tree of that rule is directly under this one."""
    return first_tree(tree, rule) is not None


def once(clauses: Iterable[Tree]) -> dict[str, Tree]:
    """Clauses that may come in any order, by rule; ParseError at one that is given twice."""
    given: dict[str, Tree] = {}
    for clause in clauses:
        rule = str(clause.data)
        if rule in given:
            keyword = _LABELS.get(rule, rule.upper().replace("_", " "))
            raise ParseError(f"{keyword} is given twice; keep one", span=span_of(clause), code="duplicate-clause")
        given[rule] = clause
    return given


_LABELS = {
    "alias": "AS",
    "backend": "WITH numba or torch",
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
}


def _token(leaf: Leaf, kind: TokenKind) -> Token:
    return Token(kind, str(leaf), span_of(leaf))


def name(leaf: Leaf) -> Name:
    """An identifier without its quotes."""
    text = identifier(_token(leaf, "quoted" if leaf.startswith('"') else "word"))
    if not text:
        raise ParseError("a name cannot be empty; write one between the quotes", span=span_of(leaf), code="empty-name")
    return Name(text, span_of(leaf))


def columns(tree: Tree | None) -> ColumnList:
    """The names in parentheses; empty where there are none."""
    return () if tree is None else tuple(name(leaf) for leaf in leaves(tree))


def island(leaf: Leaf) -> Island:
    """An island as it was written."""
    return Island(str(leaf), span_of(leaf))


def part(tree: Tree, rule: str) -> Island | None:
    """The island that a rule holds, if the statement has it."""
    found = first_tree(tree, rule)
    return None if found is None else island(leaves(found)[0])


def bound(tree: Tree) -> VersionBound:
    """A version, a moment or a tag: the inside of AT, or an end of DIFF."""
    kind, value = leaves(tree)
    return version_bound(kind, island(value), span_of(tree))


def string(leaf: Leaf) -> str:
    """The text that a string stands for."""
    return string_value(_token(leaf, "string"))


def message(tree: Tree) -> str | None:
    """What MESSAGE says, if the statement ends with one."""
    clause = first_tree(tree, "message")
    return None if clause is None else string(leaves(clause)[0])


def number(tree: Tree) -> float:
    """A number of a clause; ParseError when it is too large for a float."""
    text = "".join(leaves(tree))
    try:
        value = float(text)
    except ValueError:  # hexadecimal
        value = inf
    if not isfinite(value):
        raise ParseError(f"{text[:40]} is not a number that can be held", span=span_of(tree), code="bad-number")
    return value


def integer(tree: Tree, clause: str) -> int:
    """A whole number of a clause; ParseError when it is not one."""
    text = "".join(leaves(tree))
    try:
        return int(text)
    except ValueError:
        raise ParseError(
            f"{clause} takes a whole number, found {text[:40]}", span=span_of(tree), code="bad-number"
        ) from None

"""What EXPLAIN says of itself, before the statement that it is about."""

from __future__ import annotations

from typing import NamedTuple

from snapdb.errors import ParseError
from snapdb.sql.build import Tree, has, leaves, span_of, trees

__all__ = ["Explained", "explained"]


class Explained(NamedTuple):
    """How a plan is told of; the last two fields of EXPLAIN."""

    analyze: bool
    json: bool


def explained(tree: Tree) -> Explained:
    """ANALYZE and FORMAT of an `explain` tree; ParseError where one of them is given twice."""
    settings = [leaf for part in trees(tree, "explained") for s in trees(part, "setting") for leaf in leaves(s)]
    said: set[str] = set()
    for leaf in settings:
        if leaf.type in said or said | {leaf.type} >= {"TEXT", "JSON"}:
            raise ParseError(f"{leaf.upper()} is given twice, or beside another FORMAT; keep one", span=span_of(leaf))
        said.add(leaf.type)
    return Explained(has(tree, "analyze") or "ANALYZE" in said, "JSON" in said)

"""Trees of graph.lark's ALTER PROPERTY GRAPH … SET RETENTION."""

from __future__ import annotations

from typing import Literal

from snapdb.errors import ParseError
from snapdb.sql.ast import Name, RetentionRule, SetRetention
from snapdb.sql.build import Leaf, Place, Tree, leaves, name, span_of, string, trees
from snapdb.types import did_you_mean

__all__ = ["build_retention"]

_Keeps = Literal["all", "daily", "weekly", "monthly", "yearly"]
_KEEPS: dict[str, _Keeps] = {
    "all": "all", "daily": "daily", "weekly": "weekly", "monthly": "monthly", "yearly": "yearly",
}  # fmt: skip
_TAGGED = "keep_tagged"


def build_retention(tree: Tree, place: Place) -> SetRetention:
    """ALTER PROPERTY GRAPH … SET RETENTION, each rule at most once."""
    rules: dict[str, RetentionRule | None] = {}
    for item in trees(tree):
        said, *length = leaves(item)
        word = name(said)
        if word.text.lower() in rules:
            raise ParseError(f"{word} is given twice; keep one", span=word.span, code="duplicate-clause")
        rules[word.text.lower()] = _rule(item, word, length)
    kept = tuple(rule for rule in rules.values() if rule is not None)
    return SetRetention(*place, graph=name(leaves(tree)[0]), rules=kept, keep_tagged=_TAGGED in rules)


def _rule(tree: Tree, word: Name, length: list[Leaf]) -> RetentionRule | None:
    """An item of RETENTION; None for KEEP_TAGGED, which has no length."""
    said = word.text.lower()
    if said == _TAGGED:
        if length:
            raise ParseError("keep_tagged takes no length; leave it out", span=span_of(length[0]), code="bad-option")
        return None
    if said not in _KEEPS:
        hint = did_you_mean(said, (*_KEEPS, _TAGGED)) or f"; it knows {', '.join((*_KEEPS, _TAGGED))}"
        raise ParseError(f"RETENTION knows no {word.text[:40]}{hint}", span=word.span, code="unknown-option")
    if not length:
        raise ParseError(f"expected a length after {said}, such as '7 days'", span=word.span, code="bad-option")
    return RetentionRule(_KEEPS[said], string(length[0]), span_of(tree))

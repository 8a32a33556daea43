"""Trees of graph.lark's ALTER PROPERTY GRAPH … SET RETENTION and DROP RETENTION."""

from __future__ import annotations

from snapdb.errors import ParseError
from snapdb.sql.ast import DropRetention, Name, RetentionRule, SetRetention
from snapdb.sql.build import Leaf, Place, Tree, has, leaves, name, span_of, string, trees
from snapdb.types import by_word, did_you_mean
from snapdb.types.snapshot import Keeps

_KEEPS: dict[str, Keeps] = by_word(Keeps)
_TAGGED = "keep_tagged"


def build_retention(tree: Tree, place: Place) -> SetRetention | DropRetention:
    """ALTER PROPERTY GRAPH … SET RETENTION, each rule at most once, or DROP RETENTION."""
    graph = name(leaves(tree)[0])
    if tree.data == "drop_retention":
        return DropRetention(*place, graph=graph)
    rules: dict[str, RetentionRule | None] = {}
    for item in trees(tree, "rule"):
        said, *length = leaves(item)
        word = name(said)
        if word.text.lower() in rules:
            raise ParseError(f"{word} is given twice; keep one", span=word.span, code="duplicate-clause")
        rules[word.text.lower()] = _rule(item, word, length)
    kept = tuple(rule for rule in rules.values() if rule is not None)
    if not kept:
        lacks = "RETENTION lacks how long snapshots stay that are not tagged" if rules else "RETENTION lacks its rules"
        more = ", keep_tagged" if rules else ""
        raise ParseError(
            f"{lacks}; write for example (all '3 days', daily '30 days'{more})",
            span=span_of(tree),
            code="missing-clause",
        )
    tagged, dry_run = _TAGGED in rules, has(tree, "dry_run")
    return SetRetention(*place, graph=graph, rules=kept, keep_tagged=tagged, dry_run=dry_run)


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
    return RetentionRule(_KEEPS[said], string(length[0]), span_of(length[0]))

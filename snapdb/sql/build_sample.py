"""Trees of sample.lark as SAMPLE."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from snapdb.errors import ParseError, Span
from snapdb.sql.ast import FanoutClause, Sample
from snapdb.sql.build import Place, Tree, integer, island, leaves, name, once, span_of, trees
from snapdb.types import FULL

__all__ = ["build_sample"]

_NEEDED = {
    "seeds": "SEEDS clause; add e.g. SEEDS (SELECT id FROM t) AS vertex_type",
    "fanout": "FANOUT clause; add e.g. FANOUT (DEFAULT => [10, 10])",
}


def build_sample(tree: Tree, place: Place) -> Sample:
    """SAMPLE FROM."""
    clauses = once(trees(tree))
    for rule, needed in _NEEDED.items():
        if rule not in clauses:
            raise ParseError(f"expected a {needed}", span=Span(place.span.stop, place.span.stop))
    query, seed_type = leaves(clauses["seeds"])
    batch, repeatable = clauses.get("batch"), clauses.get("repeatable")
    return Sample(
        *place,
        snapshot=name(leaves(tree)[0]),
        seeds=island(query),
        seed_type=name(seed_type),
        fanouts=tuple(_item(item) for item in trees(clauses["fanout"])),
        fanout_span=span_of(clauses["fanout"]),
        batch=_setting(clauses, "batch", 1024),
        batch_span=None if batch is None else span_of(batch),
        repeatable=_setting(clauses, "repeatable", 0),
        repeatable_span=None if repeatable is None else span_of(repeatable),
        order=_order(clauses.get("order")),
        epochs=_setting(clauses, "epochs", 1),
    )


def _setting(clauses: Mapping[str, Tree], rule: str, default: int) -> int:
    clause = clauses.get(rule)
    return default if clause is None else integer(trees(clause)[0], rule.upper())


def _order(tree: Tree | None) -> Literal["SHUFFLE", "IN ORDER", "FIXED"]:
    said = "SHUFFLE" if tree is None else leaves(tree)[0].type
    orders: dict[str, Literal["SHUFFLE", "IN ORDER", "FIXED"]] = {"IN": "IN ORDER", "FIXED": "FIXED"}
    return orders.get(said, "SHUFFLE")


_DIRECTIONS: dict[str, Literal["IN", "OUT", "BOTH"]] = {"IN": "IN", "OUT": "OUT", "BOTH": "BOTH"}


def _item(tree: Tree) -> FanoutClause:
    """An edge type, maybe a direction, and its counts; DEFAULT has no words."""
    words = leaves(tree)
    return FanoutClause(
        edge=name(words[0]) if words else None,
        direction=_DIRECTIONS[words[1].type] if len(words) > 1 else "IN",
        counts=tuple(_count(count) for count in trees(tree)),
        span=span_of(tree),
    )


def _count(tree: Tree) -> int:
    return FULL if leaves(tree) else integer(trees(tree)[0], "FANOUT")

"""Trees of sample.lark as SAMPLE, EXPLAIN SAMPLE and AUDIT SAMPLE."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal, TypeVar

from snapdb.errors import ParseError, Span
from snapdb.sql import build_clauses
from snapdb.sql.ast import Audit, Explain, FanoutClause, Island, Name, Sample
from snapdb.sql.build import Place, Tree, integer, island, leaves, name, once, span_of, trees
from snapdb.sql.build_explain import explained
from snapdb.types import FULL

__all__ = ["build_sample"]

T = TypeVar("T")
Clauses = Mapping[str, Tree]
"""By rule; each is there at most once."""


def build_sample(tree: Tree, place: Place) -> Sample | Explain | Audit:
    """SAMPLE FROM, by itself or after EXPLAIN or AUDIT."""
    (statement,) = trees(tree)
    if statement.data == "sample":
        return _sample(statement, place)
    inner = trees(statement)[-1]
    sample = _sample(inner, Place(place.source, span_of(inner)))
    return Explain(*place, sample, *explained(statement)) if statement.data == "explain" else Audit(*place, sample)


def _sample(tree: Tree, place: Place) -> Sample:
    clauses = once(trees(tree))
    seeds, seed_type, seed_edges = _seeds(clauses, place)
    if "fanout" not in clauses:
        raise _lacking("FANOUT clause; add e.g. FANOUT (DEFAULT => [10, 10])", place)
    return Sample(
        *place,
        snapshot=name(leaves(tree)[0]),
        seeds=seeds,
        seed_type=seed_type,
        seed_edges=seed_edges,
        fanouts=tuple(_item(item) for item in trees(clauses["fanout"])),
        fanout_span=span_of(clauses["fanout"]),
        batch=_number(clauses, "batch", 1024),
        batch_span=_if_said(clauses, "batch", span_of),
        repeatable=_number(clauses, "repeatable", 0),
        repeatable_span=_if_said(clauses, "repeatable", span_of),
        order=_if_said(clauses, "order", build_clauses.build_order) or "SHUFFLE",
        epochs=_number(clauses, "epochs", 1),
        epochs_span=_if_said(clauses, "epochs", span_of),
        method=_if_said(clauses, "method", build_clauses.build_method),
        weights=_if_said(clauses, "weight_by", build_clauses.build_weights),
        replace=_if_said(clauses, "replacement", build_clauses.build_replacement),
        temporal=_if_said(clauses, "temporal", build_clauses.build_temporal),
        within=_if_said(clauses, "within", lambda within: build_clauses.build_within(within, place.source)),
        negatives=_if_said(clauses, "negatives", build_clauses.build_negatives),
        known=_if_said(clauses, "known", build_clauses.build_known),
        exclude=_if_said(clauses, "exclude", build_clauses.build_exclude),
        subset=_if_said(clauses, "subset", build_clauses.build_subset),
        allow_duplicates="duplicates" in clauses,
        layout=_if_said(clauses, "layout", build_clauses.build_layout) or "NODES",
        reuse_hops="reuse" in clauses,
        device=_if_said(clauses, "device", build_clauses.build_device),
        backend=_if_said(clauses, "backend", build_clauses.build_backend),
        memory=_if_said(clauses, "options", build_clauses.build_memory),
    )


def _if_said(clauses: Clauses, rule: str, build: Callable[[Tree], T]) -> T | None:
    return build(clauses[rule]) if rule in clauses else None


def _number(clauses: Clauses, rule: str, default: int) -> int:
    return integer(trees(clauses[rule])[0], rule.upper()) if rule in clauses else default


def _seeds(clauses: Clauses, place: Place) -> tuple[Island, Name, bool]:
    """The seed query, the type that it gives, and whether that is an edge type."""
    if "seed_edges" in clauses:
        if "seeds" in clauses:
            later = max(span_of(clauses["seeds"]), span_of(clauses["seed_edges"]))
            raise ParseError("SEEDS is given twice; keep one", span=later)
        edge, query = leaves(clauses["seed_edges"])
        return island(query), name(edge), True
    if "seeds" not in clauses:
        raise _lacking("SEEDS clause; add e.g. SEEDS (SELECT id FROM t) AS vertex_type", place)
    query, vertex = leaves(clauses["seeds"])
    return island(query), name(vertex), False


def _lacking(what: str, place: Place) -> ParseError:
    return ParseError(f"expected a {what}", span=Span(place.span.stop, place.span.stop))


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

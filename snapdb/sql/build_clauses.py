"""The clauses of SAMPLE that say how to draw, what to keep out and where to work, each as what it says."""

from __future__ import annotations

from decimal import Decimal, InvalidOperation
from typing import Literal

from snapdb.errors import ParseError
from snapdb.sql.ast import Island, MethodClause, Name, NegativesClause, Said, WeightColumn
from snapdb.sql.build import Tree, first_tree, integer, leaves, name, span_of, string, trees
from snapdb.sql.sizes import UNITS, size
from snapdb.types import Backend, Method, SeedOrder, did_you_mean

__all__ = [
    "build_backend",
    "build_device",
    "build_exclude",
    "build_known",
    "build_layout",
    "build_memory",
    "build_method",
    "build_negatives",
    "build_order",
    "build_replacement",
    "build_subset",
    "build_temporal",
    "build_weights",
    "build_within",
]

_METHODS: dict[str, Method] = {
    "UNIFORM": "UNIFORM", "LATEST": "LATEST", "TOPK": "TOPK", "FULL": "FULL", "PRIORITY": "PRIORITY",
    "BOTTOMK": "BOTTOMK", "LABOR": "LABOR",
}  # fmt: skip
_KNOWN: dict[str, Literal["EVER", "BEFORE", "AT"]] = {"EVER": "EVER", "BEFORE": "BEFORE", "AT": "AT"}
_EXCLUDED: dict[str, Literal["NONE", "BOTH"]] = {"KEEP": "NONE", "BOTH": "BOTH"}
_ORDERS: dict[str, SeedOrder] = {"SHUFFLE": "SHUFFLE", "IN": "IN ORDER", "FIXED": "FIXED"}
_BACKENDS: dict[str, Backend] = {"NUMBA": "numba", "TORCH": "torch"}


def build_method(tree: Tree) -> MethodClause:
    """METHOD."""
    dependent = first_tree(tree, "dependent")
    batches = 1 if dependent is None else integer(trees(dependent)[0], "DEPENDENT BATCHES")
    return MethodClause(_METHODS[leaves(tree)[0].type], batches, span_of(tree))


def build_weights(tree: Tree) -> Said[tuple[WeightColumn, ...]]:
    """WEIGHT BY."""
    return Said(tuple(_weight(column) for column in trees(tree, "column")), span_of(tree))


def _weight(tree: Tree) -> WeightColumn:
    *edge, column = leaves(tree)
    return WeightColumn(name(edge[0]) if edge else None, name(column))


def build_replacement(tree: Tree) -> Said[bool]:
    """WITH REPLACEMENT is true."""
    return Said(leaves(tree)[0].type == "WITH", span_of(tree))


def build_temporal(tree: Tree) -> Said[bool]:
    """TEMPORAL <= is true."""
    return Said(leaves(tree)[0].type == "UP_TO_TIME", span_of(tree))


def build_within(tree: Tree, source: str) -> Island:
    """The length of WITHIN as it was written."""
    span = span_of(trees(tree)[0])
    return Island(source[span.start : span.stop], span)


def build_negatives(tree: Tree) -> NegativesClause:
    """NEGATIVES."""
    weighted = first_tree(tree, "weighted")
    weight: Name | Literal["DEGREE"] | None = None
    if weighted is not None:
        (by,) = leaves(weighted)
        weight = "DEGREE" if by.type == "DEGREE" else name(by)
    return NegativesClause(integer(trees(tree, "number")[0], "NEGATIVES"), weight, span_of(tree))


def build_known(tree: Tree) -> Said[Literal["EVER", "BEFORE", "AT"]]:
    """EXCLUDE KNOWN; EVER where nothing is said."""
    when = leaves(tree)
    return Said(_KNOWN[when[0].type] if when else "EVER", span_of(tree))


def build_exclude(tree: Tree) -> Said[Literal["NONE", "PAIR", "BOTH"]]:
    """EXCLUDE SEEDS or KEEP SEEDS."""
    words = leaves(tree)
    return Said(_EXCLUDED[words[0].type] if words else "PAIR", span_of(tree))


def build_order(tree: Tree) -> SeedOrder:
    """SHUFFLE, IN ORDER or FIXED."""
    return _ORDERS[leaves(tree)[0].type]


def build_layout(tree: Tree) -> Literal["NODES", "BLOCKS"]:
    """LAYOUT."""
    return "BLOCKS" if leaves(tree)[0].type == "BLOCKS" else "NODES"


def build_subset(tree: Tree) -> Said[Decimal]:
    """SUBSET's percentage, exactly as it was written."""
    (number,) = trees(tree)
    text = "".join(leaves(number))
    try:
        return Said(Decimal(text), span_of(tree))
    except InvalidOperation:  # hexadecimal
        raise ParseError(f"SUBSET takes a decimal number, found {text[:40]}", span=span_of(number)) from None


def build_device(tree: Tree) -> Said[str]:
    """ON."""
    return Said(string(leaves(tree)[0]), span_of(tree))


def build_backend(tree: Tree) -> Said[Backend]:
    """WITH numba or WITH torch."""
    return Said(_BACKENDS[leaves(tree)[-1].type], span_of(tree))


def build_memory(tree: Tree) -> Said[int] | None:
    """The bytes of WITH (memory = '2GB')."""
    found: Said[int] | None = None
    for option in trees(tree, "option"):
        key, value = leaves(option)
        if key.lower() != "memory":
            near = did_you_mean(key, ["memory"]) or "; SAMPLE takes memory"
            raise ParseError(f"no option {key[:40]} in WITH{near}", span=span_of(key))
        if found is not None:
            raise ParseError("memory is given twice; keep one", span=span_of(option))
        if not (bytes_ := size(string(value))):
            raise ParseError(f"memory is a size such as '2GB', in {', '.join(UNITS)}; found {value[:40]}",
                             span=span_of(value))  # fmt: skip
        found = Said(bytes_, span_of(tree))
    return found

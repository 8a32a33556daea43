"""The clauses of SAMPLE, each as what it says."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import Decimal, InvalidOperation
from typing import Any, Literal

from snapdb.errors import ParseError
from snapdb.sql.ast import (
    Clauses,
    FanoutClause,
    Island,
    KnownClause,
    MethodClause,
    Name,
    NegativesClause,
    RefreshClause,
    Said,
    SeedsClause,
    WeightColumn,
)
from snapdb.sql.build import Tree, first_tree, integer, island, leaves, name, once, span_of, string, trees
from snapdb.sql.sizes import UNITS, size
from snapdb.types import FULL, Backend, Direction, Method, SeedOrder, by_word, did_you_mean

_Known = Literal["EVER", "BEFORE", "AT"]
_Strategy = Literal["FBL", "FCR", "OTF"]

_METHODS: dict[str, Method] = by_word(Method)
_KNOWN: dict[str, _Known] = by_word(_Known)
_EXCLUDED: dict[str, Literal["NONE", "BOTH"]] = {"KEEP": "NONE", "BOTH": "BOTH"}
_ORDERS: dict[str, SeedOrder] = {"SHUFFLE": "SHUFFLE", "IN": "IN ORDER", "FIXED": "FIXED"}
_DIRECTIONS: dict[str, Direction] = by_word(Direction)
_STRATEGIES: dict[str, _Strategy] = by_word(_Strategy)
_BACKENDS: dict[str, Backend] = by_word(Backend)


def build_clauses(given: Mapping[str, Tree], source: str) -> Clauses:
    """What trees of clauses say, by rule."""
    if "seeds" in given and "seed_edges" in given:
        later = max(span_of(given["seeds"]), span_of(given["seed_edges"]))
        raise ParseError("SEEDS is given twice; keep one", span=later, code="duplicate-clause")
    said: dict[str, Any] = {}
    for rule, tree in given.items():
        if rule == "within":
            said[rule] = _within(tree, source)
        else:
            field, build = _BUILDERS[rule]
            said[field] = build(tree)
    return Clauses(**said)


def _seeds(tree: Tree) -> SeedsClause:
    query, vertex = leaves(tree)
    return SeedsClause(island(query), name(vertex), False, span_of(tree))


def _seed_edges(tree: Tree) -> SeedsClause:
    edge, query = leaves(tree)
    return SeedsClause(island(query), name(edge), True, span_of(tree))


def _fanout(tree: Tree) -> Said[tuple[FanoutClause, ...]]:
    return Said(tuple(_item(item) for item in trees(tree)), span_of(tree))


def _item(tree: Tree) -> FanoutClause:
    """An edge type, or none for DEFAULT, maybe a direction, and its counts."""
    words = leaves(tree)
    edge = words.pop(0) if words and words[0].type not in _DIRECTIONS else None
    return FanoutClause(
        edge=None if edge is None else name(edge),
        direction=_DIRECTIONS[words[0].type] if words else "IN",
        counts=tuple(FULL if leaves(count) else integer(trees(count)[0], "FANOUT") for count in trees(tree)),
        span=span_of(tree),
    )


def _number(clause: str) -> Callable[[Tree], Said[int]]:
    """What reads a clause that is a whole number."""
    return lambda tree: Said(integer(trees(tree)[0], clause), span_of(tree))


def _flag(tree: Tree) -> Said[bool]:
    """True: the clause is there."""
    return Said(True, span_of(tree))


def _method(tree: Tree) -> MethodClause:
    """METHOD."""
    dependent = first_tree(tree, "dependent")
    batches = 1 if dependent is None else integer(trees(dependent)[0], "DEPENDENT BATCHES")
    return MethodClause(_METHODS[leaves(tree)[0].type], batches, span_of(tree))


def _weights(tree: Tree) -> Said[tuple[WeightColumn, ...]]:
    """WEIGHT BY."""
    return Said(tuple(_weight(column) for column in trees(tree, "column")), span_of(tree))


def _weight(tree: Tree) -> WeightColumn:
    *edge, column = leaves(tree)
    return WeightColumn(name(edge[0]) if edge else None, name(column))


def _replacement(tree: Tree) -> Said[bool]:
    """WITH REPLACEMENT is true."""
    return Said(leaves(tree)[0].type == "WITH", span_of(tree))


def _temporal(tree: Tree) -> Said[bool]:
    """TEMPORAL <= is true."""
    return Said(leaves(tree)[0].type == "UP_TO_TIME", span_of(tree))


def _within(tree: Tree, source: str) -> Said[Island]:
    """The length of WITHIN as it was written."""
    span = span_of(trees(tree)[0])
    return Said(Island(source[span.start : span.stop], span), span_of(tree))


def _negatives(tree: Tree) -> NegativesClause:
    """NEGATIVES."""
    weighted = first_tree(tree, "weighted")
    weight: Name | Literal["DEGREE"] | None = None
    if weighted is not None:
        (by,) = leaves(weighted)
        weight = "DEGREE" if by.type == "DEGREE" else name(by)
    return NegativesClause(integer(trees(tree, "number")[0], "NEGATIVES"), weight, span_of(tree))


def _known(tree: Tree) -> KnownClause:
    """EXCLUDE KNOWN; EVER where nothing is said."""
    when, among = leaves(tree), first_tree(tree, "among")
    types = () if among is None else tuple(name(leaf) for leaf in leaves(among)[1:])
    return KnownClause(_KNOWN[when[0].type] if when else "EVER", types, span_of(tree))


def _exclude(tree: Tree) -> Said[Literal["NONE", "PAIR", "BOTH"]]:
    """EXCLUDE SEEDS or KEEP SEEDS."""
    words = leaves(tree)
    return Said(_EXCLUDED[words[0].type] if words else "PAIR", span_of(tree))


def _order(tree: Tree) -> Said[SeedOrder]:
    """SHUFFLE, IN ORDER or FIXED."""
    return Said(_ORDERS[leaves(tree)[0].type], span_of(tree))


def _layout(tree: Tree) -> Said[Literal["NODES", "BLOCKS"]]:
    """LAYOUT."""
    return Said("BLOCKS" if leaves(tree)[0].type == "BLOCKS" else "NODES", span_of(tree))


def _subset(tree: Tree) -> Said[Decimal]:
    """SUBSET's percentage, exactly as it was written."""
    return Said(_decimal(trees(tree)[0], "SUBSET"), span_of(tree))


def _decimal(tree: Tree, clause: str) -> Decimal:
    """A number of a clause, exactly as it was written."""
    text = "".join(leaves(tree))
    try:
        return Decimal(text)
    except InvalidOperation:  # hexadecimal
        raise ParseError(
            f"{clause} takes a decimal number, found {text[:40]}", span=span_of(tree), code="bad-number"
        ) from None


def _device(tree: Tree) -> Said[str]:
    """ON."""
    return Said(string(leaves(tree)[0]), span_of(tree))


def _backend(tree: Tree) -> Said[Backend]:
    """WITH numba or WITH torch."""
    return Said(_BACKENDS[leaves(tree)[-1].type.lower()], span_of(tree))


def _memory(tree: Tree) -> Said[int] | None:
    """The bytes of WITH (memory = '2GB')."""
    found: Said[int] | None = None
    for option in trees(tree, "option"):
        key, value = leaves(option)
        if key.lower() != "memory":
            near = did_you_mean(key, ["memory"]) or "; SAMPLE takes memory"
            raise ParseError(f"no option {key[:40]} in WITH{near}", span=span_of(key), code="unknown-option")
        if found is not None:
            raise ParseError("memory is given twice; keep one", span=span_of(option), code="duplicate-clause")
        if not (bytes_ := size(string(value))):
            raise ParseError(
                f"memory is a size such as '2GB', in {', '.join(UNITS)}; found {value[:40]}",
                span=span_of(value),
                code="bad-size",
            )
        found = Said(bytes_, span_of(tree))
    return found


def _refresh(tree: Tree) -> RefreshClause:
    """REFRESH."""
    said = once(clause for clause in trees(tree) if clause.data != "percent")
    percent = first_tree(tree, "percent")
    return RefreshClause(
        strategy=_STRATEGIES[leaves(tree)[0].type],
        percent=None if percent is None else _decimal(trees(percent)[0], "OTF"),
        every=_every(said["every"]) if "every" in said else None,
        amplify=_decimal(trees(said["amplify"])[0], "AMPLIFY") if "amplify" in said else None,
        fetch=_decimal(trees(trees(said["fetch"])[0])[0], "FETCH") if "fetch" in said else None,
        scope=_scope(said["scope"]) if "scope" in said else None,
        shared="shared" in said,
        above=integer(trees(said["above"])[0], "DEGREE ABOVE") if "above" in said else None,
        span=span_of(tree),
    )


def _every(tree: Tree) -> int | Literal["AUTO"]:
    return integer(trees(tree)[0], "EVERY") if trees(tree) else "AUTO"


def _scope(tree: Tree) -> Literal["ALL", "VISITED"]:
    return "ALL" if leaves(tree)[0].type == "ALL" else "VISITED"


_BUILDERS: dict[str, tuple[str, Callable[[Tree], object]]] = {
    "seeds": ("seeds", _seeds),
    "seed_edges": ("seeds", _seed_edges),
    "fanout": ("fanouts", _fanout),
    "method": ("method", _method),
    "weight_by": ("weights", _weights),
    "replacement": ("replace", _replacement),
    "temporal": ("temporal", _temporal),
    "negatives": ("negatives", _negatives),
    "known": ("known", _known),
    "exclude": ("exclude", _exclude),
    "subset": ("subset", _subset),
    "duplicates": ("allow_duplicates", _flag),
    "layout": ("layout", _layout),
    "reuse": ("reuse_hops", _flag),
    "order": ("order", _order),
    "batch": ("batch", _number("BATCH")),
    "repeatable": ("repeatable", _number("REPEATABLE")),
    "epochs": ("epochs", _number("EPOCHS")),
    "refresh": ("refresh", _refresh),
    "device": ("device", _device),
    "backend": ("backend", _backend),
    "options": ("memory", _memory),
}
"""Rule → the field of `Clauses`, and what reads it; WITHIN is read from the source."""

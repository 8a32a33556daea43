"""Clauses of walks: LENGTH, the metapath, node2vec's weights, restarts, times and pairs, and FANOUT (BY WALKS …)."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any, Literal

from snapdb.errors import ParseError, Span
from snapdb.sql.printer import print_name, print_number
from snapdb.sql.syntax import Name, Spanned, Tree, decimal, integer, leaves, name, once, span_of, trees
from snapdb.types import Direction, by_word

_DIRECTIONS: dict[str, Direction] = by_word(Direction)


@dataclass(frozen=True, slots=True)
class StepClause:
    """An item of ALONG: edge type [IN | OUT | BOTH]."""

    edge: Name
    direction: Direction
    span: Span = field(compare=False)


@dataclass(frozen=True, slots=True)
class ClockClause:
    """TIME RESPECTING [STRICT] [BACKWARD]."""

    strict: bool
    clock: Literal["forward", "backward"]
    span: Span = field(compare=False)


@dataclass(frozen=True, slots=True)
class WalkClauses:
    """The clauses that only WALK has, in any order and each at most once. A missing clause is None.

    The `span` of each clause covers its whole text.
    """

    length: Spanned[int] | None = None
    """The number of steps."""
    per_seed: Spanned[int] | None = None
    """The number of walks from each seed."""
    along: Spanned[tuple[StepClause, ...]] | None = None
    """The metapath."""
    direction: Spanned[Direction] | None = None
    """The direction of the only edge type, for a walk without ALONG."""
    back: Spanned[Decimal] | None = None
    """RETURN p."""
    inout: Spanned[Decimal] | None = None
    """INOUT q."""
    restart: Spanned[Decimal] | None = None
    clock: ClockClause | None = None
    window: Spanned[int] | None = None
    """The maximum distance of the two vertices of a skip-gram pair, in steps."""
    contrasts: Spanned[int] | None = None
    """NEGATIVES n: the number of random vertices per pair."""


@dataclass(frozen=True, slots=True)
class VisitsClause:
    """FANOUT (BY WALKS n LENGTH l [ALONG (…) | DIRECTION d] [RESTART r] TOP k | TOP [k, …])."""

    walk: WalkClauses
    """The walks. PER SEED is the number after BY WALKS."""
    tops: tuple[int, ...]
    """The maximum number of neighbours per hop."""
    span: Span = field(compare=False)


def build_visits(tree: Tree) -> VisitsClause:
    """Build BY WALKS.

    Raises:
        ParseError: LENGTH or TOP is missing, or a clause is specified twice.
    """
    count, *clauses = trees(tree)
    given = once(clauses)
    for rule, example in (("steps", "LENGTH clause; add the number of steps, e.g. LENGTH 2"), ("tops", _NO_TOP)):
        if rule not in given:
            stop = span_of(tree).stop
            raise ParseError(f"expected a {example}", span=Span(stop, stop), code="missing-clause")
    walk: dict[str, Any] = {"per_seed": Spanned(integer(count, "BY WALKS"), span_of(count))}
    for rule, clause in given.items():
        if rule in _BUILDERS:
            name_, build = _BUILDERS[rule]
            walk[name_] = build(clause)
    tops = tuple(integer(number, "TOP") for number in trees(given["tops"]))
    return VisitsClause(WalkClauses(**walk), tops, span_of(tree))


_NO_TOP = "TOP clause; add the number of neighbours, e.g. TOP 10"


def build_walk_clause(rule: str, tree: Tree) -> tuple[str, Any] | None:
    """Return the field of `WalkClauses` and the value of a clause, or None if other statements have the clause too."""
    if rule not in _BUILDERS:
        return None
    field_, build = _BUILDERS[rule]
    return field_, build(tree)


def _step(tree: Tree) -> StepClause:
    """Build an item of ALONG. The default direction is OUT."""
    edge, *direction = leaves(tree)
    return StepClause(name(edge), _DIRECTIONS[direction[0].type] if direction else "OUT", span_of(tree))


def _clock(tree: Tree) -> ClockClause:
    words = {leaf.type for leaf in leaves(tree)}
    return ClockClause("STRICT" in words, "backward" if "BACKWARD" in words else "forward", span_of(tree))


def _spanned(read: Callable[[Tree], object]) -> Callable[[Tree], Spanned[object]]:
    """Return a builder for a clause with one value."""
    return lambda tree: Spanned(read(tree), span_of(tree))


def _integer(clause: str) -> Callable[[Tree], Spanned[object]]:
    return _spanned(lambda tree: integer(trees(tree)[0], clause))


def _decimal(clause: str) -> Callable[[Tree], Spanned[object]]:
    return _spanned(lambda tree: decimal(trees(tree)[0], clause))


_BUILDERS: Mapping[str, tuple[str, Callable[[Tree], object]]] = {
    "steps": ("length", _integer("LENGTH")),
    "per_seed": ("per_seed", _integer("PER SEED")),
    "along": ("along", _spanned(lambda tree: tuple(map(_step, trees(tree))))),
    "direction": ("direction", _spanned(lambda tree: _DIRECTIONS[leaves(tree)[0].type])),
    "back": ("back", _decimal("RETURN")),
    "inout": ("inout", _decimal("INOUT")),
    "restart": ("restart", _decimal("RESTART")),
    "clock": ("clock", _clock),
    "window": ("window", _integer("WINDOW")),
    "contrasts": ("contrasts", _integer("NEGATIVES")),
}
"""Maps each rule to a field of `WalkClauses` and its builder."""


def print_walk_clauses(clauses: WalkClauses) -> Iterator[object]:
    """Yield each clause as text. A missing clause yields a value that is not text."""
    yield clauses.length and f"LENGTH {clauses.length.value}"
    yield clauses.per_seed and f"PER SEED {clauses.per_seed.value}"
    yield clauses.along and f"ALONG ({', '.join(map(_print_step, clauses.along.value))})"
    yield clauses.direction and f"DIRECTION {clauses.direction.value}"
    yield clauses.back and f"RETURN {print_number(clauses.back.value)}"
    yield clauses.inout and f"INOUT {print_number(clauses.inout.value)}"
    yield clauses.restart and f"RESTART {print_number(clauses.restart.value)}"
    yield clauses.clock and _print_clock(clauses.clock)
    yield clauses.window and f"WINDOW {clauses.window.value}"
    yield clauses.contrasts and f"NEGATIVES {clauses.contrasts.value}"


def print_visits(visits: VisitsClause) -> str:
    """Return FANOUT (BY WALKS …) as text."""
    assert visits.walk.per_seed is not None, "the parser wants the number of walks"
    walk = [str(clause) for clause in print_walk_clauses(replace(visits.walk, per_seed=None)) if clause]
    tops = ", ".join(map(str, visits.tops))
    top = tops if len(visits.tops) == 1 else f"[{tops}]"
    return f"FANOUT (BY WALKS {visits.walk.per_seed.value} {' '.join(walk)} TOP {top})"


def _print_step(step: StepClause) -> str:
    """Print an item of ALONG. The default direction OUT is omitted."""
    return print_name(step.edge) + ("" if step.direction == "OUT" else f" {step.direction}")


def _print_clock(clock: ClockClause) -> str:
    backward = " BACKWARD" * (clock.clock == "backward")
    return f"TIME RESPECTING{' STRICT' * clock.strict}{backward}"

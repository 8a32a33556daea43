"""The clauses of SAMPLE and WALK, and their text."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from decimal import Decimal
from typing import Literal, TypeVar

from snapdb.errors import Span
from snapdb.sql.printer import print_name, print_number, print_size, print_string
from snapdb.sql.syntax import Name, Spanned, SqlFragment
from snapdb.sql.walk_clauses import VisitsClause, WalkClauses, print_visits, print_walk_clauses
from snapdb.types import FULL, Backend, IdType, Method, SeedOrder


@dataclass(frozen=True, slots=True)
class SeedsClause:
    """SEEDS (query) AS vertex_type, or SEEDS EDGES edge_type (query)."""

    query: SqlFragment
    type: Name
    """The vertex type or edge type."""
    edges: bool
    """Whether the seeds are edges (SEEDS EDGES)."""
    span: Span = field(compare=False)


@dataclass(frozen=True, slots=True)
class FanoutClause:
    """An item of FANOUT: edge type [IN|OUT|BOTH] => [n | FULL, …], or DEFAULT [IN|OUT|BOTH] => […]."""

    edge: Name | None
    """The edge type, or None for DEFAULT, which applies to every edge type without an item."""
    direction: Literal["IN", "OUT", "BOTH"]
    counts: tuple[int, ...]
    """The counts per hop, where -1 is FULL. The binder rejects other negative numbers."""
    span: Span = field(compare=False)


@dataclass(frozen=True, slots=True)
class MethodClause:
    """METHOD m [DEPENDENT BATCHES n]. Only LABOR accepts DEPENDENT BATCHES."""

    method: Method
    dependent: int
    """The number of batches that share random draws. The default is 1."""
    span: Span = field(compare=False)


WeightColumn = tuple[Name | None, Name]
"""An item of WEIGHT BY: a column and its edge type, or None for all edge types in FANOUT."""


@dataclass(frozen=True, slots=True)
class NegativesClause:
    """NEGATIVES n PER POSITIVE [WEIGHTED BY column | DEGREE]."""

    count: int
    weight: Name | Literal["DEGREE"] | None
    span: Span = field(compare=False)


@dataclass(frozen=True, slots=True)
class KnownClause:
    """EXCLUDE KNOWN [EVER | BEFORE SEED_TIME | AT SEED_TIME] [IN (edge type, …)]."""

    value: Literal["EVER", "BEFORE", "AT"]
    types: tuple[Name, ...]
    """The edge types, or empty for the seeds' own type."""
    span: Span = field(compare=False)


@dataclass(frozen=True, slots=True)
class RefreshClause:
    """REFRESH FBL | FCR … | OTF p PERCENT …, which defines when neighbours are resampled."""

    strategy: Literal["FBL", "FCR", "OTF"]
    """The strategy. FBL resamples in every batch."""
    percent: Decimal | None
    """The percentage of rows that OTF resamples, or None for the other strategies."""
    every: int | Literal["AUTO"] | None
    """The period in EVERY n BATCHES or EVERY AUTO."""
    amplify: Decimal | None
    fetch: Decimal | None
    """The percentage in OTF's FETCH q PERCENT, or None."""
    scope: Literal["ALL", "VISITED"] | None
    """The value of OTF's SCOPE, or None."""
    shared: bool
    above: int | None
    """The degree in DEGREE ABOVE d."""
    span: Span = field(compare=False)


@dataclass(frozen=True, slots=True)
class Clauses:
    """The clauses of SAMPLE or WALK, in any order and each at most once. A missing clause is None.

    The `span` of each clause covers its whole text.
    """

    seeds: SeedsClause | None = None
    fanouts: Spanned[tuple[FanoutClause, ...] | VisitsClause] | None = None
    """FANOUT with its items, or with BY WALKS."""
    method: MethodClause | None = None
    weights: Spanned[tuple[WeightColumn, ...]] | None = None
    replace: Spanned[bool] | None = None
    """True for WITH REPLACEMENT, False for WITHOUT REPLACEMENT."""
    temporal: Spanned[bool] | None = None
    """True for TEMPORAL <=, False for TEMPORAL <."""
    within: Spanned[SqlFragment] | None = None
    """An INTERVAL or an integer. The binder rejects negative values."""
    negatives: NegativesClause | None = None
    known: KnownClause | None = None
    exclude: Spanned[Literal["NONE", "PAIR", "BOTH"]] | None = None
    """KEEP SEEDS, EXCLUDE SEEDS, or EXCLUDE SEEDS BOTH DIRECTIONS."""
    subset: Spanned[Decimal] | None = None
    """The percentage of SUBSET."""
    allow_duplicates: Spanned[bool] | None = None
    layout: Spanned[Literal["NODES", "BLOCKS"]] | None = None
    reuse_hops: Spanned[bool] | None = None
    order: Spanned[SeedOrder] | None = None
    batch: Spanned[int] | None = None
    repeatable: Spanned[int] | None = None
    epochs: Spanned[int] | None = None
    refresh: RefreshClause | None = None
    device: Spanned[str] | None = None
    backend: Spanned[Backend] | None = None
    memory: Spanned[int] | None = None
    """The memory limit in bytes."""
    ids: Spanned[IdType] | None = None
    walk: WalkClauses | None = None
    """The clauses that only WALK has, or None for SAMPLE."""

    @property
    def verb(self) -> Literal["SAMPLE", "WALK"]:
        """The first word of the statement."""
        return "SAMPLE" if self.walk is None else "WALK"

    @property
    def spans(self) -> dict[str, Span]:
        """The span of each clause of the statement, by its field name."""
        given = {item.name: getattr(self, item.name) for item in fields(self) if item.name != "walk"}
        if self.walk is not None:
            given |= {f"walk.{item.name}": getattr(self.walk, item.name) for item in fields(self.walk)}
        return {name: clause.span for name, clause in given.items() if clause is not None}


_T = TypeVar("_T")


def print_clauses(clauses: Clauses) -> Iterator[object]:
    """Yield each clause as text, in grammar order. A missing clause yields a value that is not text."""
    yield clauses.seeds and _print_seeds(clauses.seeds)
    yield from () if clauses.walk is None else print_walk_clauses(clauses.walk)
    yield clauses.fanouts and _print_fanouts(clauses.fanouts.value)
    yield clauses.method and _print_method(clauses.method)
    yield clauses.weights and f"WEIGHT BY {', '.join(map(_print_weight, clauses.weights.value))}"
    yield _print_choice(clauses.replace, {True: "WITH REPLACEMENT", False: "WITHOUT REPLACEMENT"})
    yield _print_choice(clauses.temporal, {True: "TEMPORAL <= SEED_TIME", False: "TEMPORAL < SEED_TIME"})
    yield clauses.within and f"WITHIN {clauses.within.value.text}"
    yield clauses.negatives and _print_negatives(clauses.negatives)
    yield clauses.known and _print_known(clauses.known)
    yield _print_choice(clauses.exclude, _EXCLUDED_WORDS)
    yield clauses.subset and f"SUBSET {print_number(clauses.subset.value)} PERCENT PER EPOCH"
    yield clauses.allow_duplicates and "ALLOW DUPLICATES"
    yield clauses.layout and f"LAYOUT {clauses.layout.value}"
    yield clauses.reuse_hops and "REUSE HOPS"
    yield clauses.order and clauses.order.value
    yield clauses.batch and f"BATCH {clauses.batch.value}"
    yield clauses.repeatable and f"REPEATABLE ({clauses.repeatable.value})"
    yield clauses.epochs and f"EPOCHS {clauses.epochs.value}"
    yield clauses.refresh and print_refresh_clause(clauses.refresh)
    yield clauses.device and f"ON {print_string(clauses.device.value)}"
    yield clauses.backend and f"WITH {clauses.backend.value.upper()}"
    memory = clauses.memory and f"memory = {print_string(print_size(clauses.memory.value))}"
    options = [option for option in (memory, clauses.ids and f"ids = {print_string(clauses.ids.value)}") if option]
    yield f"WITH ({', '.join(options)})" if options else None


_KNOWN_WORDS: dict[Literal["EVER", "BEFORE", "AT"], str] = {
    "EVER": "EXCLUDE KNOWN EVER",
    "BEFORE": "EXCLUDE KNOWN BEFORE SEED_TIME",
    "AT": "EXCLUDE KNOWN AT SEED_TIME",
}

_EXCLUDED_WORDS: dict[Literal["NONE", "PAIR", "BOTH"], str] = {
    "NONE": "KEEP SEEDS",
    "PAIR": "EXCLUDE SEEDS",
    "BOTH": "EXCLUDE SEEDS BOTH DIRECTIONS",
}


def _print_choice(clause: Spanned[_T] | None, words: Mapping[_T, str]) -> str | None:
    return None if clause is None else words[clause.value]


def _print_seeds(seeds: SeedsClause) -> str:
    if seeds.edges:
        return f"SEEDS EDGES {print_name(seeds.type)} ({seeds.query.text})"
    return f"SEEDS ({seeds.query.text}) AS {print_name(seeds.type)}"


def _print_fanouts(fanouts: tuple[FanoutClause, ...] | VisitsClause) -> str:
    if isinstance(fanouts, VisitsClause):
        return print_visits(fanouts)
    return f"FANOUT ({', '.join(map(_print_fanout, fanouts))})"


def _print_fanout(item: FanoutClause) -> str:
    """Print an item of FANOUT. The default direction IN is omitted."""
    edge = "DEFAULT" if item.edge is None else print_name(item.edge)
    direction = "" if item.direction == "IN" else f" {item.direction}"
    counts = ", ".join("FULL" if count == FULL else str(count) for count in item.counts)
    return f"{edge}{direction} => [{counts}]"


def _print_method(method: MethodClause) -> str:
    dependent = "" if method.dependent == 1 else f" DEPENDENT BATCHES {method.dependent}"
    return f"METHOD {method.method}{dependent}"


def _print_weight(weight: WeightColumn) -> str:
    edge, column = weight
    return print_name(column) if edge is None else f"{print_name(edge)}.{print_name(column)}"


def _print_negatives(negatives: NegativesClause) -> str:
    by = negatives.weight
    weighted = "" if by is None else f" WEIGHTED BY {by if isinstance(by, str) else print_name(by)}"
    return f"NEGATIVES {negatives.count} PER POSITIVE{weighted}"


def _print_known(known: KnownClause) -> str:
    types = f" IN ({', '.join(map(print_name, known.types))})" if known.types else ""
    return f"{_KNOWN_WORDS[known.value]}{types}"


def print_refresh_clause(refresh: RefreshClause) -> str:
    """Return REFRESH as text."""
    words = [f"REFRESH {refresh.strategy}"]
    if refresh.percent is not None:
        words.append(f"{print_number(refresh.percent)} PERCENT")
    if refresh.every is not None:
        words.append("EVERY AUTO" if refresh.every == "AUTO" else f"EVERY {refresh.every} BATCHES")
    if refresh.amplify is not None:
        words.append(f"AMPLIFY {print_number(refresh.amplify)}")
    if refresh.fetch is not None:
        words.append(f"FETCH {print_number(refresh.fetch)} PERCENT")
    if refresh.scope is not None:
        words.append(f"SCOPE {refresh.scope}")
    if refresh.shared:
        words.append("SHARED")
    if refresh.above is not None:
        words.append(f"DEGREE ABOVE {refresh.above}")
    return " ".join(words)

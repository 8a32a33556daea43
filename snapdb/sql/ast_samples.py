"""The statements that sample, as frozen values: what each clause says, and where."""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal
from typing import Generic, Literal, TypeVar

from snapdb.errors import Span
from snapdb.sql.ast_parts import Island, Name, Statement
from snapdb.types import Backend, Method, SeedOrder

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Said(Generic[T]):
    """A clause: what it says, and where it stands."""

    value: T
    span: Span = field(compare=False)


@dataclass(frozen=True, slots=True)
class SeedsClause:
    """SEEDS (query) AS vertex_type, or SEEDS EDGES edge_type (query)."""

    query: Island
    type: Name
    """A vertex type, or an edge type."""
    edges: bool
    """SEEDS EDGES: the seeds are edges."""
    span: Span = field(compare=False)


@dataclass(frozen=True, slots=True)
class FanoutClause:
    """One item of FANOUT: edge type [IN|OUT|BOTH] => [n | FULL, …], or DEFAULT [IN|OUT|BOTH] => […]."""

    edge: Name | None
    """None: DEFAULT, every edge type that is not named."""
    direction: Literal["IN", "OUT", "BOTH"]
    counts: tuple[int, ...]
    """-1 for FULL; other negative numbers are left to the binder to refuse."""
    span: Span = field(compare=False)


@dataclass(frozen=True, slots=True)
class MethodClause:
    """METHOD m, for LABOR with [DEPENDENT BATCHES n]."""

    method: Method
    dependent: int
    """1 when not said."""
    span: Span = field(compare=False)


@dataclass(frozen=True, slots=True)
class WeightColumn:
    """One item of WEIGHT BY: a column, or type.column."""

    edge: Name | None
    """None: of every edge type that is walked."""
    column: Name


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
    """Empty: the seeds' own."""
    span: Span = field(compare=False)


@dataclass(frozen=True, slots=True)
class RefreshClause:
    """REFRESH FBL | FCR … | OTF p PERCENT …: how long what was drawn serves further batches."""

    strategy: Literal["FBL", "FCR", "OTF"]
    """FBL draws afresh for every batch."""
    percent: Decimal | None
    """Of OTF: how much of a row is drawn anew; None for the others."""
    every: int | Literal["AUTO"] | None
    """EVERY n BATCHES or EVERY AUTO."""
    amplify: Decimal | None
    fetch: Decimal | None
    """FETCH q PERCENT, of OTF."""
    scope: Literal["ALL", "VISITED"] | None
    """Of OTF."""
    shared: bool
    above: int | None
    """DEGREE ABOVE d."""
    span: Span = field(compare=False)


@dataclass(frozen=True, slots=True)
class Clauses:
    """All clauses of SAMPLE, which stand in any order, each at most once; None: not said.

    Each has the `span` of its whole text.
    """

    seeds: SeedsClause | None = None
    fanouts: Said[tuple[FanoutClause, ...]] | None = None
    method: MethodClause | None = None
    weights: Said[tuple[WeightColumn, ...]] | None = None
    replace: Said[bool] | None = None
    """WITH REPLACEMENT is true, WITHOUT REPLACEMENT false."""
    temporal: Said[bool] | None = None
    """TEMPORAL <= is true, TEMPORAL < false."""
    within: Said[Island] | None = None
    """INTERVAL …, or a whole number that may be negative: the binder refuses it."""
    negatives: NegativesClause | None = None
    known: KnownClause | None = None
    exclude: Said[Literal["NONE", "PAIR", "BOTH"]] | None = None
    """KEEP SEEDS, EXCLUDE SEEDS, EXCLUDE SEEDS BOTH DIRECTIONS."""
    subset: Said[Decimal] | None = None
    """A percentage."""
    allow_duplicates: Said[bool] | None = None
    layout: Said[Literal["NODES", "BLOCKS"]] | None = None
    reuse_hops: Said[bool] | None = None
    order: Said[SeedOrder] | None = None
    batch: Said[int] | None = None
    repeatable: Said[int] | None = None
    epochs: Said[int] | None = None
    refresh: RefreshClause | None = None
    device: Said[str] | None = None
    backend: Said[Backend] | None = None
    memory: Said[int] | None = None
    """Bytes."""


@dataclass(frozen=True, slots=True)
class Sample(Statement):
    """SAMPLE FROM snapshot, then its clauses; SEEDS and FANOUT are there."""

    snapshot: Name
    clauses: Clauses

    @property
    def seeds(self) -> SeedsClause:
        assert self.clauses.seeds is not None, "the parser wants SEEDS"
        return self.clauses.seeds

    @property
    def fanouts(self) -> Said[tuple[FanoutClause, ...]]:
        assert self.clauses.fanouts is not None, "the parser wants FANOUT"
        return self.clauses.fanouts


@dataclass(frozen=True, slots=True)
class SampleUsing(Statement):
    """SAMPLE USING sampler [clauses that stand in place of the sampler's own]."""

    sampler: Name
    clauses: Clauses


@dataclass(frozen=True, slots=True)
class CreateSampler(Statement):
    """CREATE [OR REPLACE] SAMPLER [IF NOT EXISTS] name AS SAMPLE FROM … | SAMPLE USING other …."""

    name: Name
    sample: Sample | SampleUsing
    or_replace: bool
    if_not_exists: bool


@dataclass(frozen=True, slots=True)
class Audit(Statement):
    """AUDIT SAMPLE …."""

    sample: Sample | SampleUsing

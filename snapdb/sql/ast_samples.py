"""The statements that sample, as frozen values: what each clause says, and where."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Generic, Literal, TypeVar

from snapdb.errors import Span
from snapdb.sql.ast_parts import Island, Name, Statement
from snapdb.types import Backend, Method, SeedOrder

__all__ = ["Audit", "FanoutClause", "MethodClause", "NegativesClause", "Said", "Sample", "WeightColumn"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Said(Generic[T]):
    """A clause: what it says, and where it stands."""

    value: T
    span: Span


@dataclass(frozen=True, slots=True)
class FanoutClause:
    """One item of FANOUT: edge type [IN|OUT|BOTH] => [n | FULL, …], or DEFAULT => […]."""

    edge: Name | None
    """None: DEFAULT, every edge type that is not named, IN."""
    direction: Literal["IN", "OUT", "BOTH"]
    counts: tuple[int, ...]
    """-1 for FULL; other negative numbers are left to the binder to refuse."""
    span: Span


@dataclass(frozen=True, slots=True)
class MethodClause:
    """METHOD m, for LABOR with [DEPENDENT BATCHES n]."""

    method: Method
    dependent: int
    """1 when not said."""
    span: Span


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
    span: Span


@dataclass(frozen=True, slots=True)
class Sample(Statement):
    """SAMPLE FROM snapshot, then its clauses in any order, each at most once; SEEDS and FANOUT must be there."""

    snapshot: Name
    seeds: Island
    seed_type: Name
    """A vertex type, or an edge type."""
    seed_edges: bool
    """SEEDS EDGES: the seeds are edges."""
    fanouts: tuple[FanoutClause, ...]
    fanout_span: Span
    batch: int
    """1024 when not said."""
    batch_span: Span | None
    repeatable: int
    """0 when not said."""
    repeatable_span: Span | None
    order: SeedOrder
    epochs: int
    """1 when not said."""
    epochs_span: Span | None = None
    method: MethodClause | None = None
    weights: Said[tuple[WeightColumn, ...]] | None = None
    replace: Said[bool] | None = None
    """WITH REPLACEMENT is true, WITHOUT REPLACEMENT false."""
    temporal: Said[bool] | None = None
    """TEMPORAL <= is true, TEMPORAL < false."""
    within: Island | None = None
    """INTERVAL …, or a whole number that may be negative: the binder refuses it."""
    negatives: NegativesClause | None = None
    known: Said[Literal["EVER", "BEFORE", "AT"]] | None = None
    exclude: Said[Literal["NONE", "PAIR", "BOTH"]] | None = None
    """KEEP SEEDS, EXCLUDE SEEDS, EXCLUDE SEEDS BOTH DIRECTIONS."""
    subset: Said[Decimal] | None = None
    """A percentage."""
    allow_duplicates: bool = False
    layout: Literal["NODES", "BLOCKS"] = "NODES"
    reuse_hops: bool = False
    device: Said[str] | None = None
    backend: Said[Backend] | None = None
    memory: Said[int] | None = None
    """Bytes."""


@dataclass(frozen=True, slots=True)
class Audit(Statement):
    """AUDIT SAMPLE …."""

    sample: Sample

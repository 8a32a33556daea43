"""The statements of graphs and samples, as frozen values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from snapdb.errors import Span
from snapdb.sql.ast_parts import ColumnList, Island, Name, Statement

__all__ = [
    "CreateGraph",
    "EdgeClause",
    "EventTime",
    "FanoutClause",
    "FeatureClause",
    "HistoryClause",
    "Sample",
    "SparseClause",
    "VertexClause",
]


@dataclass(frozen=True, slots=True)
class EventTime:
    """EVENT TIME (column [, column]) [NULLS STATIC | NULLS ERROR]."""

    columns: ColumnList
    """One or two."""
    nulls_static: bool


@dataclass(frozen=True, slots=True)
class SparseClause:
    """SPARSE [n] of a feature."""

    width: int | None
    span: Span


@dataclass(frozen=True, slots=True)
class HistoryClause:
    """FROM table KEY (columns) EVENT TIME (column) of a feature."""

    table: Name
    key: ColumnList
    event_time: Name
    span: Span


@dataclass(frozen=True, slots=True)
class FeatureClause:
    """One item of FEATURES: column or (column, …), then in any order AS name, TYPE t, SPARSE, FROM …, DEFAULT n."""

    columns: ColumnList
    name: Name | None
    default: float | None
    default_span: Span | None
    dtype: Name | None
    sparse: SparseClause | None
    history: HistoryClause | None


@dataclass(frozen=True, slots=True)
class VertexClause:
    """table [AS alias] KEY (…) [EVENT TIME (…)] [FEATURES (…)] [TARGET (…)] [ON DUPLICATE KEY FIRST|LAST|ERROR]."""

    table: Name
    alias: Name | None
    key: ColumnList
    features: tuple[FeatureClause, ...]
    event_time: EventTime | None
    """Of one column."""
    target: Name | None
    on_duplicate: Literal["ERROR", "FIRST", "LAST"]


@dataclass(frozen=True, slots=True)
class EdgeClause:
    """table [AS alias] SOURCE KEY (…) REFERENCES v [(…)] DESTINATION KEY (…) REFERENCES v [(…)] [EVENT TIME (…)] …"""

    table: Name
    alias: Name | None
    source_key: ColumnList
    source: Name
    source_columns: ColumnList
    """The columns named after REFERENCES; empty: the vertex table's key."""
    destination_key: ColumnList
    destination: Name
    destination_columns: ColumnList
    event_time: EventTime | None
    weight: Name | None
    features: tuple[FeatureClause, ...]
    on_dangling: Literal["ERROR", "SKIP"]


@dataclass(frozen=True, slots=True)
class CreateGraph(Statement):
    """CREATE [OR REPLACE] PROPERTY GRAPH [IF NOT EXISTS] name VERTEX TABLES (…) [EDGE TABLES (…)]."""

    name: Name
    vertices: tuple[VertexClause, ...]
    edges: tuple[EdgeClause, ...]
    or_replace: bool
    if_not_exists: bool


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
class Sample(Statement):
    """SAMPLE FROM snapshot SEEDS (query) AS type FANOUT (…) [BATCH n] [REPEATABLE (k)] [order] [EPOCHS n].

    The order is SHUFFLE, IN ORDER or FIXED. The clauses after FROM come in any order, each at most once; SEEDS and
    FANOUT must be there.
    """

    snapshot: Name
    seeds: Island
    seed_type: Name
    fanouts: tuple[FanoutClause, ...]
    fanout_span: Span
    batch: int
    """1024 when not said."""
    batch_span: Span | None
    repeatable: int
    """0 when not said."""
    repeatable_span: Span | None
    order: Literal["SHUFFLE", "IN ORDER", "FIXED"]
    epochs: int
    """1 when not said."""

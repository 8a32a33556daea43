"""The statements of graphs, snapshots and samples, as frozen values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from snapdb.errors import Span
from snapdb.sql.ast_parts import ColumnList, Island, Name, Statement, TimeBound, VersionBound

__all__ = ["CreateGraph", "CreateSnapshot", "EdgeClause", "FanoutClause", "FeatureClause", "Sample", "VertexClause"]


@dataclass(frozen=True, slots=True)
class FeatureClause:
    """One item of FEATURES: column, or (column, …), [AS name] [DEFAULT number]."""

    columns: ColumnList
    name: Name | None
    default: float | None


@dataclass(frozen=True, slots=True)
class VertexClause:
    """table [AS alias] KEY (columns) [FEATURES (…)] [TARGET (column [AS y])] [ON DUPLICATE KEY FIRST|LAST|ERROR]."""

    table: Name
    alias: Name | None
    key: ColumnList
    features: tuple[FeatureClause, ...]
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
    event_time: Name | None
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
class CreateSnapshot(Statement):
    """CREATE [OR REPLACE] SNAPSHOT [IF NOT EXISTS] name OF graph [AT …] [FOR EVENT_TIME …] [ELEMENTS (…)] [WHERE …]."""

    name: Name
    graph: Name
    at: VersionBound | None
    event_time: TimeBound | None
    elements: ColumnList
    """Empty: all elements of the graph."""
    where: Island | None
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

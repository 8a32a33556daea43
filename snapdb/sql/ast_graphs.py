"""The statements of graphs, as frozen values."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from snapdb.errors import Span
from snapdb.sql.ast_parts import ColumnList, Name, Statement
from snapdb.types.graph import OnDuplicate


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
    span: Span = field(compare=False)


@dataclass(frozen=True, slots=True)
class HistoryClause:
    """FROM table KEY (columns) EVENT TIME (column) of a feature."""

    table: Name
    key: ColumnList
    event_time: Name
    span: Span = field(compare=False)


@dataclass(frozen=True, slots=True)
class FeatureClause:
    """One item of FEATURES: column or (column, …), then in any order AS name, TYPE t, SPARSE, FROM …, DEFAULT n."""

    columns: ColumnList
    name: Name | None
    default: float | None
    default_span: Span | None = field(compare=False)
    dtype: Name | None
    sparse: SparseClause | None
    history: HistoryClause | None


@dataclass(frozen=True, slots=True)
class PropertyColumn:
    """One item of PROPERTIES: column [AS name]."""

    column: Name
    name: Name | None


@dataclass(frozen=True, slots=True)
class PropertiesClause:
    """PROPERTIES (column [AS name], …) | PROPERTIES [ARE] ALL COLUMNS [EXCEPT (column, …)] | NO PROPERTIES."""

    all: bool
    columns: tuple[PropertyColumn, ...]
    """Of PROPERTIES (…)."""
    excepted: ColumnList
    """Of ALL COLUMNS EXCEPT."""
    span: Span = field(compare=False)


@dataclass(frozen=True, slots=True)
class LabelClause:
    """LABEL name [properties] | DEFAULT LABEL [properties]."""

    name: Name | None
    """None: DEFAULT, the element's own name."""
    properties: PropertiesClause | None
    span: Span = field(compare=False)


@dataclass(frozen=True, slots=True)
class ClassesClause:
    """CLASSES ('text', …) of a target."""

    values: tuple[str, ...]
    """The code of each is its place."""
    span: Span = field(compare=False)


@dataclass(frozen=True, slots=True)
class VertexClause:
    """table [AS alias] [KEY (…)] [EVENT TIME (…)] [FEATURES (…)] [TARGET (…)] [ON DUPLICATE KEY …] [LABEL …] …"""

    table: Name
    alias: Name | None
    key: ColumnList
    """Empty: the columns that the edges refer to."""
    features: tuple[FeatureClause, ...]
    event_time: EventTime | None
    """Of one column."""
    target: Name | None
    on_duplicate: OnDuplicate
    labels: tuple[LabelClause, ...]
    properties: PropertiesClause | None
    """Those said before the first label."""
    classes: ClassesClause | None
    """Of TARGET."""


@dataclass(frozen=True, slots=True)
class EdgeClause:
    """table [AS alias] [KEY (…)] SOURCE [KEY (…) REFERENCES] v [(…)] DESTINATION … [EVENT TIME (…)] …"""

    table: Name
    alias: Name | None
    key: ColumnList
    """Its own, which tells nothing: edges are told apart by e_id. Mostly empty."""
    source_key: ColumnList
    """Empty: the columns that are called as the vertex table's key."""
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
    labels: tuple[LabelClause, ...]
    properties: PropertiesClause | None
    """Those said before the first label."""


@dataclass(frozen=True, slots=True)
class CreateGraph(Statement):
    """CREATE [OR REPLACE] PROPERTY GRAPH [IF NOT EXISTS] name VERTEX TABLES (…) [EDGE TABLES (…)]."""

    name: Name
    vertices: tuple[VertexClause, ...]
    edges: tuple[EdgeClause, ...]
    or_replace: bool
    if_not_exists: bool

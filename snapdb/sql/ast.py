"""The statements of the language as frozen values. Every name keeps its place in the text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from snapdb.errors import Span

__all__ = [
    "ColumnList",
    "CopyFrom",
    "CreateGraph",
    "CreateSnapshot",
    "CreateTable",
    "Delete",
    "Describe",
    "Drop",
    "EdgeClause",
    "FanoutClause",
    "FeatureClause",
    "Insert",
    "Island",
    "Kind",
    "Name",
    "Query",
    "Sample",
    "Show",
    "Statement",
    "TimeBound",
    "VersionBound",
    "VertexClause",
]

Kind = Literal["TABLE", "GRAPH", "SNAPSHOT"]


@dataclass(frozen=True, slots=True)
class Name:
    """An identifier as it was written, without its quotes."""

    text: str
    span: Span

    def __str__(self) -> str:
        return self.text


ColumnList = tuple[Name, ...]


@dataclass(frozen=True, slots=True)
class Island:
    """A SELECT or an expression inside our statement that DuckDB will read as it stands."""

    text: str
    """Exactly `source[span.start:span.stop]`, without the parentheses around it, if any."""
    span: Span


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement of a script."""

    source: str
    """The whole text that was parsed; spans count in it."""
    span: Span
    """This statement within `source`, without the semicolon."""

    @property
    def text(self) -> str:
        return self.source[self.span.start : self.span.stop]


@dataclass(frozen=True, slots=True)
class Query(Statement):
    """SELECT, WITH, VALUES, FROM, PIVOT, DESCRIBE <query>, SUMMARIZE …: DuckDB's, as it stands."""

    query: Island


@dataclass(frozen=True, slots=True)
class CreateTable(Statement):
    """CREATE [OR REPLACE] TABLE [IF NOT EXISTS] name ( (column type …) | AS query )."""

    name: Name
    definition: Island | None
    """What stands between the parentheses: columns, types, NOT NULL."""
    query: Island | None
    or_replace: bool
    if_not_exists: bool
    message: str | None


@dataclass(frozen=True, slots=True)
class CopyFrom(Statement):
    """COPY name [(columns)] FROM 'path' [(option value, …)] [MESSAGE '…']."""

    table: Name
    columns: ColumnList
    """Empty: by position, all of them."""
    path: str
    path_span: Span
    options: tuple[tuple[Name, str | bool | int | float], ...]
    """FORMAT, HEADER, DELIMITER, … as written; a bare option is True."""
    message: str | None


@dataclass(frozen=True, slots=True)
class Insert(Statement):
    """INSERT INTO name [(columns)] (query | VALUES …) [MESSAGE '…']."""

    table: Name
    columns: ColumnList
    query: Island
    message: str | None


@dataclass(frozen=True, slots=True)
class Delete(Statement):
    """DELETE FROM name [WHERE condition] [MESSAGE '…']."""

    table: Name
    where: Island | None
    message: str | None


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
class VersionBound:
    """AT (VERSION => n | TIMESTAMP => '…')."""

    kind: Literal["VERSION", "TIMESTAMP"]
    value: Island
    span: Span


@dataclass(frozen=True, slots=True)
class TimeBound:
    """FOR EVENT_TIME AS OF t | FROM a TO b | BETWEEN a AND b. AS OF has no start."""

    kind: Literal["AS OF", "FROM", "BETWEEN"]
    start: Island | None
    stop: Island
    """Each a bare integer, a string, DATE '…', TIMESTAMP '…', TIMESTAMPTZ '…' or a parenthesised expression."""
    span: Span


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


@dataclass(frozen=True, slots=True)
class Show(Statement):
    """SHOW TABLES | GRAPHS | SNAPSHOTS | VERSIONS [LIKE 'pattern']."""

    what: Literal["TABLES", "GRAPHS", "SNAPSHOTS", "VERSIONS"]
    like: str | None


@dataclass(frozen=True, slots=True)
class Describe(Statement):
    """DESCRIBE TABLE | [PROPERTY] GRAPH | SNAPSHOT name."""

    kind: Kind
    name: Name


@dataclass(frozen=True, slots=True)
class Drop(Statement):
    """DROP TABLE | [PROPERTY] GRAPH | SNAPSHOT [IF EXISTS] name."""

    kind: Kind
    name: Name
    if_exists: bool

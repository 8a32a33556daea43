"""The statements that make, refresh and let go of snapshots, as frozen values."""

from __future__ import annotations

from dataclasses import dataclass, field

from snapdb.errors import Span
from snapdb.sql.ast_parts import ColumnList, Island, Name, Statement, TimeBound, VersionBound, WindowBound
from snapdb.types import Form


@dataclass(frozen=True, slots=True)
class LayoutClause:
    """WITH (layout = 'full' | 'ends' | 'bitmap' | 'materialized')."""

    form: Form
    span: Span = field(compare=False)
    """Of the form."""


@dataclass(frozen=True, slots=True)
class CreateSnapshot(Statement):
    """CREATE [OR REPLACE] SNAPSHOT [IF NOT EXISTS] name OF graph [AT …] [FOR EVENT_TIME …] [ELEMENTS (…)] [WITH …] …"""

    name: Name
    graph: Name
    at: VersionBound | None
    event_time: TimeBound | WindowBound | None
    elements: ColumnList
    """Empty: all elements of the graph."""
    layout: LayoutClause | None
    where: Island | None
    or_replace: bool
    if_not_exists: bool


@dataclass(frozen=True, slots=True)
class RefreshSnapshot(Statement):
    """REFRESH SNAPSHOT name [FULL] [DRY RUN]."""

    name: Name
    full: bool
    dry_run: bool


@dataclass(frozen=True, slots=True)
class ExpireSnapshots(Statement):
    """EXPIRE SNAPSHOTS [OF graph] [OLDER THAN t] [RETAIN LAST n] [DRY RUN], or BY RETENTION in place of the two."""

    graph: Name | None
    """None: the snapshots of every graph."""
    older: Island | None
    """INTERVAL …, or a moment as TimeBound's."""
    last: int | None
    last_span: Span | None = field(compare=False)
    by_retention: bool
    """As each graph itself says; else one of the other two is there."""
    dry_run: bool

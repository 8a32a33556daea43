"""The statements that write files, as frozen values."""

from __future__ import annotations

from dataclasses import dataclass, field

from snapdb.errors import Span
from snapdb.sql.ast_parts import ColumnList, Island, Name, Statement, VersionBound
from snapdb.sql.ast_samples import Sample, SampleUsing

CopyOption = tuple[Name, str | bool | int | float | ColumnList]
"""FORMAT, HEADER, DELIMITER, … as written; a bare option is True, one with parentheses names columns."""


@dataclass(frozen=True, slots=True)
class CopyTo(Statement):
    """COPY table [AT (…)] [(columns)] | snapshot.element [(columns)] | (query) TO 'path' [(option value, …)]."""

    snapshot: Name | None
    """Of the element; None: a table, or a query."""
    table: Name | None
    """None: a query."""
    at: VersionBound | None
    columns: ColumnList
    """Empty: all of them."""
    query: Island | None
    path: str
    path_span: Span = field(compare=False)
    options: tuple[CopyOption, ...]


@dataclass(frozen=True, slots=True)
class CopySnapshotTo(Statement):
    """COPY SNAPSHOT name TO 'path' [(option value, …)]."""

    snapshot: Name
    path: str
    path_span: Span = field(compare=False)
    options: tuple[CopyOption, ...]


@dataclass(frozen=True, slots=True)
class CopySampleTo(Statement):
    """COPY (SAMPLE …) TO 'path' [(option value, …)]."""

    sample: Sample | SampleUsing
    path: str
    path_span: Span = field(compare=False)
    options: tuple[CopyOption, ...]

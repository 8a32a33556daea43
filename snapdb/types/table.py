"""Tables: named columns over immutable segments, as one version sees them."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Column", "Segment", "Table", "Version"]


@dataclass(frozen=True, slots=True)
class Column:
    """A column as it was declared."""

    name: str
    type: str
    """DuckDB's spelling of the type, e.g. `FLOAT[128]`. Parquet may hold it in another form (relational.types)."""
    nullable: bool = True


@dataclass(frozen=True, slots=True)
class Segment:
    """One immutable Parquet file of a table."""

    path: str
    """Relative to the database directory."""
    rows: int
    bytes: int
    sha256: str
    first: int
    """Row id of the file's first row; row ids count on from it in file order. Unused for segments of deletes."""


@dataclass(frozen=True, slots=True)
class Table:
    """A table at one version."""

    id: int
    """Never reused: a replaced table is another table."""
    name: str
    columns: tuple[Column, ...]
    segments: tuple[Segment, ...]
    deletes: tuple[Segment, ...]
    """Parquet files of one column `row_id`: rows of `segments` that are no longer there."""
    rows: int
    """Live rows."""
    state: int
    """The last version, not after this one, that changed the table."""

    def column(self, name: str) -> Column | None:
        """The column of that name, whatever its case."""
        folded = name.lower()
        return next((c for c in self.columns if c.name.lower() == folded), None)

    @property
    def next_row(self) -> int:
        """The id that the next appended row will get."""
        return max((s.first + s.rows for s in self.segments), default=0)


@dataclass(frozen=True, slots=True)
class Version:
    """What one commit published to one table."""

    version: int
    time: int
    """Microseconds since 1970, UTC; grows with every version."""
    message: str | None
    tag: str | None
    author: str
    table: str | None
    rows_added: int
    rows_removed: int

"""Tables: named columns over immutable segments, as one version sees them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Column:
    """A column as it was declared."""

    name: str
    type: str
    """DuckDB's spelling of the type, e.g. `FLOAT[128]`. Parquet may hold it in another form (sql_engine.values)."""
    nullable: bool = True
    field: int = 0
    """What stays when the column is renamed, and is never given again; 0 where no table holds the column."""
    default: str | None = None
    """The value, as text, of rows that were given none, and of those older than the column."""


@dataclass(frozen=True, slots=True)
class Segment:
    """One immutable Parquet file of a table."""

    path: str
    """Relative to the database directory."""
    rows: int
    bytes: int
    sha256: str
    first: int = 0
    """Row id of the file's first row; row ids count on from it in file order. Of deletes: the oldest version in it.
    0 where the file is not part of a version yet."""
    columns: tuple[Column, ...] | None = None
    """The table's columns when the file was written; None: as the table's now."""
    until: int | None = None
    """Of deletes: only rows with `version` ≤ until count, for the file holds later ones too; None: all of them."""


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
    next_row: int
    """The id that the next appended row will get; rows of `segments` from here on belong to later versions."""
    fields: int
    """How many columns it has ever had; the last field that was given."""

    @property
    def folder(self) -> str:
        """Where its files go, relative to the database directory."""
        return f"tables/{self.id}" if self.id > 0 else "tables"

    def column(self, name: str) -> Column | None:
        """The column of that name, whatever its case."""
        folded = name.lower()
        return next((c for c in self.columns if c.name.lower() == folded), None)


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


@dataclass(frozen=True, slots=True)
class Tag:
    """A name for a version."""

    name: str
    version: int
    time: int
    """When the version was committed: microseconds since 1970, UTC."""

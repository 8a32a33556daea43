"""The read side of the catalog: one frozen value per moment, and the SQL that reads its tables and snapshots."""

from snapdb.catalog.elements import EdgeRows, VertexRows, element_columns, shown_rows
from snapdb.catalog.state import Catalog, load, tables_at, tags, version_at, version_of_tag, versions

__all__ = [
    "Catalog",
    "EdgeRows",
    "VertexRows",
    "element_columns",
    "load",
    "shown_rows",
    "tables_at",
    "tags",
    "version_at",
    "version_of_tag",
    "versions",
    "with_changes",
]

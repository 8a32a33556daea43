"""The read side of the catalog: a frozen value for each point in time, and the SQL that reads tables and snapshots."""

from snapdb.catalog.elements import EdgeRows, VertexRows, element_columns, shown_rows
from snapdb.catalog.state import Catalog, VersionHistory, load, tables_at

__all__ = ["Catalog", "EdgeRows", "VersionHistory", "VertexRows", "element_columns", "load", "shown_rows", "tables_at"]

"""The read side of the catalog: one frozen value per moment, and the SQL that reads its tables and snapshots."""

from snapdb.catalog.elements import EdgeRows, VertexRows, snapshot_views
from snapdb.catalog.state import Catalog, load, tables_at, version_at, versions

__all__ = ["Catalog", "EdgeRows", "VertexRows", "load", "snapshot_views", "tables_at", "version_at", "versions"]

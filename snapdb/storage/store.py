"""An open database: its directory, its catalog, the SQL engine that reads its tables, and its disk."""

from typing import NamedTuple

from snapdb.sql_engine import SqlEngine
from snapdb.storage.catalog_db.connection import CatalogDb
from snapdb.storage.catalog_db.db_dir import DatabaseDir
from snapdb.storage.disk import Disk


class Store(NamedTuple):
    """The parts of an open database that statements use."""

    db_dir: DatabaseDir
    """The database directory."""
    catalog_db: CatalogDb
    """The catalog database."""
    sql_engine: SqlEngine
    """DuckDB."""
    disk: Disk
    """The file operations that modify the directory."""

    def close(self) -> None:
        """Close the catalog and the SQL engine."""
        self.catalog_db.close()
        self.sql_engine.close()

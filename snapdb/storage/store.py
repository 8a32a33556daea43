"""An open database: its directory, its catalog, the SQL engine that reads its tables, and the disk that it is on."""

from typing import NamedTuple

from snapdb.sql_engine import SqlEngine
from snapdb.storage.catalog_db.connection import CatalogDb
from snapdb.storage.catalog_db.db_dir import DatabaseDir
from snapdb.storage.disk import Disk


class Store(NamedTuple):
    """What statements read and write."""

    db_dir: DatabaseDir
    catalog_db: CatalogDb
    sql_engine: SqlEngine
    disk: Disk
    """The directory's: what writes its files."""

    def close(self) -> None:
        """Close the catalog and the SQL engine."""
        self.catalog_db.close()
        self.sql_engine.close()

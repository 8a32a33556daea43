"""The doors by which tests reach inside the engine: what it is made of is named here, and not in each test."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from snapdb import Database
from snapdb.catalog import Catalog
from snapdb.execute.session import ExecutionContext
from snapdb.plan import Plan, bind
from snapdb.sql import parse
from snapdb.storage.catalog_db.connection import CatalogDb
from snapdb.storage.catalog_db.db_dir import DatabaseDir, open_db_dir
from snapdb.storage.catalog_db.locks import TablesLock


def catalog_db_of(db: Database) -> CatalogDb:
    """The connection of a database to its catalog."""
    return db._session.store.catalog_db


def db_dir_of(db: Database) -> DatabaseDir:
    """The directory of a database."""
    return db._session.store.db_dir


def catalog_of(db: Database) -> Catalog:
    """The catalog as an open transaction of the database sees it."""
    return db._session.catalog()


def committed_catalog_of(db: Database) -> Catalog:
    """The catalog as it is committed."""
    return db._session.head()


def engine_of(db: Database, lock: TablesLock | None = None, *, committed: bool = False) -> ExecutionContext:
    """What operators run with; the files that the catalog names stay until the lock is released."""
    return db._session._context(None, lock or TablesLock(db_dir_of(db)), committed=committed)


def open_catalog_db(path: Path, *, read_only: bool = False) -> CatalogDb:
    """A connection of the test's own to the catalog of the database at a path."""
    return CatalogDb(open_db_dir(path, read_only=read_only))


def bind_text(db: Database, text: str, parameters: Any = None, **parts: Any) -> Plan:
    """The plan of a statement, before any rule changed it; `parts` of the catalog replace those that there are."""
    (statement,) = parse(text)
    context = engine_of(db).bind_context
    return bind(statement, replace(context, catalog=replace(context.catalog, **parts), parameters=parameters))

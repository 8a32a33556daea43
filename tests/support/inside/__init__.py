"""Access to the engine's internals for tests, so that tests do not depend on the names of internal modules."""

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
    """Return a database's connection to its catalog."""
    return db._session.store.catalog_db


def db_dir_of(db: Database) -> DatabaseDir:
    """Return a database's directory."""
    return db._session.store.db_dir


def catalog_of(db: Database) -> Catalog:
    """Return the catalog as seen by the database's open transaction."""
    return db._session.catalog()


def committed_catalog_of(db: Database) -> Catalog:
    """Return the committed catalog."""
    return db._session.head()


def engine_of(db: Database, lock: TablesLock | None = None, *, committed: bool = False) -> ExecutionContext:
    """Return the context in which operators run. The catalog's files are kept until the lock is released."""
    return db._session._context(None, lock or TablesLock(db_dir_of(db)), committed=committed)


def open_catalog_db(path: Path, *, read_only: bool = False) -> CatalogDb:
    """Return a separate connection to the catalog of the database at a path."""
    return CatalogDb(open_db_dir(path, read_only=read_only))


def bind_text(db: Database, text: str, parameters: Any = None, **parts: Any) -> Plan:
    """Return a statement's plan before any rule is applied. `parts` replace parts of the catalog."""
    (statement,) = parse(text)
    context = engine_of(db).bind_context
    return bind(statement, replace(context, catalog=replace(context.catalog, **parts), parameters=parameters))

"""A database that is opened only after everything in it was checked."""

from __future__ import annotations

from collections.abc import Callable

from snapdb.errors import CorruptError
from snapdb.storage.catalog_db.connection import Ledger
from snapdb.storage.catalog_db.db_dir import Home
from snapdb.storage.catalog_db.locks import TablesLock
from snapdb.storage.check import check_database


def verify_files(
    home: Home, ledger: Ledger, report: Callable[[str, float | None], None] = lambda what, share: None
) -> None:
    """Nothing when a check finds no damage; files that nothing points at are none.

    Args:
        report: Called with what is being done and the share of it that is done.

    Raises:
        CorruptError: the first damage, by name.
    """
    lock = TablesLock(home)
    try:
        for kind, path, problem, remedy in (p for p in check_database(home, ledger, report) if p.is_damage):
            raise CorruptError(f"{home.path / path} ({kind}): {problem}; {remedy}", code="damaged-file")
    finally:
        lock.release()

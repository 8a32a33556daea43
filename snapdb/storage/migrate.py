"""Bringing a catalog to this format, in one transaction."""

from __future__ import annotations

import sqlite3

from snapdb.storage.disk import Disk
from snapdb.storage.schema import APPLICATION_ID, FORMAT, MIGRATIONS


def migrate(connection: sqlite3.Connection, disk: Disk) -> int:
    """Apply the steps that a catalog lacks, all of them or none; the format that was found.

    A process that makes the same database at this moment does it once for both: the first one in.
    """
    connection.execute("BEGIN IMMEDIATE")
    try:
        (found,) = connection.execute("PRAGMA user_version").fetchone()
        for step in MIGRATIONS[found:]:
            for statement in filter(str.strip, step.sql.split(";\n")):
                connection.execute(statement)
            for more in step.then:
                more(connection)
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {FORMAT}")
        disk.commit(connection)
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    return int(found)

"""The location of the sources, and a file of another database."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
"""The root directory of the repository."""


def make_sqlite_file(path: Path) -> None:
    """Make a SQLite file with a table `remark`."""
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE remark (id INTEGER, text TEXT)")
        connection.execute("INSERT INTO remark VALUES (1, 'one')")

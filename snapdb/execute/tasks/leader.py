"""Which daemon leads a database, and what starts one, in words."""

from __future__ import annotations

import shlex
import socket
from contextlib import suppress
from pathlib import Path
from typing import Literal

from snapdb.catalog.listing import moment
from snapdb.storage.catalog_db.connection import CatalogDb
from snapdb.storage.catalog_db.db_dir import DatabaseDir
from snapdb.storage.catalog_db.task_rows import Leader, read_leader


def leads(catalog_db: CatalogDb) -> str:
    """The daemon that leads, or what to do where none does."""
    leader = read_leader(catalog_db)
    if leader is None:
        return nobody(catalog_db.db_dir)
    if _is_gone(leader):
        return f"{who(leader)} ended without a word; {nobody(catalog_db.db_dir)}"
    return f"{who(leader)} since {moment(leader.since):%Y-%m-%d %H:%M:%S}+00:00"


def nobody(db_dir: DatabaseDir) -> str:
    """That no daemon starts scheduled runs, and the command that starts one."""
    return f"no daemon leads this database; run: {command('run', db_dir)}"


def who(leader: Leader) -> str:
    """Which process it is, or was."""
    return f"pid {leader.pid} on {leader.host}"


def command(name: Literal["run", "history"], db_dir: DatabaseDir) -> str:
    """What to type for `snapdb schedule`."""
    return f"snapdb schedule {name} {shlex.quote(str(db_dir.path))}"


def _is_gone(leader: Leader) -> bool:
    """Whether no process of this machine is it. One that waits takes over within seconds, where there is one."""
    if leader.host != socket.gethostname() or not Path("/proc/self").exists():
        return False
    with suppress(OSError, OverflowError):
        return not Path(f"/proc/{leader.pid}").exists()
    return False

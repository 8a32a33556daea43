"""`db.wait_for`: wait until a snapshot is published, by this process or another."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Self

from snapdb.catalog import Catalog
from snapdb.errors import DatabaseError, QueryError, WaitTimeout
from snapdb.execute.tasks.leader import command, nobody, who
from snapdb.graph.lineage import published
from snapdb.storage.catalog_db.connection import CatalogDb
from snapdb.storage.catalog_db.task_rows import LEASE_TTL, read_leader
from snapdb.types import Published, did_you_mean

_PULSE = 0.1
"""Seconds between two looks, each of which reads two rows where nothing was changed."""


@dataclass(frozen=True, slots=True)
class Awaited:
    """What is waited for."""

    name: str
    newer_than: Published | int | datetime | None
    timeout: float | None

    @classmethod
    def of(cls, name: str, newer_than: Published | int | datetime | None, timeout: float | None) -> Self:
        """What a caller asks for.

        Raises:
            ValueError: an argument is out of its range.
        """
        if not isinstance(name, str):
            raise ValueError(f"wait_for takes the name of a snapshot, found {name!r}")
        known = isinstance(newer_than, Published | int | datetime | None) and not isinstance(newer_than, bool)
        if not known or (isinstance(newer_than, datetime) and newer_than.tzinfo is None):
            raise ValueError(
                "newer_than is what wait_for or stream.published gave, a version, or a moment with its time zone as "
                f"datetime.now(UTC), found {newer_than!r}"
            )
        if timeout is not None and not _seconds(timeout):
            raise ValueError(f"timeout is 0 seconds or more, or None to wait for ever, found {timeout!r}")
        return cls(name, newer_than, timeout)

    def wait(self, catalog_db: CatalogDb, catalog: Callable[[], Catalog], stopped: threading.Event) -> Published:
        """The publication, as soon as it is there.

        Args:
            catalog: gives what there is; it costs next to nothing where nothing was changed.
            stopped: is set by whoever interrupts.

        Raises:
            BindError: the name is that of a table, a graph or a sampler.
            WaitTimeout: it did not come in time.
            QueryError: somebody interrupted.
            DatabaseError: the database is not there any more, or is read as files that nobody changes.
        """
        began = time.monotonic()
        leader = read_leader(catalog_db)
        seen: Catalog | None = None
        while True:
            now = catalog()
            if now is not seen and (found := self._found(now)) is not None:
                return found
            seen = now
            if catalog_db.db_dir.immutable:
                raise DatabaseError(
                    f"{catalog_db.db_dir.path} cannot be written from here and nobody had it open, so it is read as "
                    "files that do not change, and waiting would never end; open it again once a writer has it open",
                    code="cannot-wait",
                )
            left = math.inf if self.timeout is None else began + self.timeout - time.monotonic()
            if left <= 0:
                silent = (
                    time.monotonic() - began > LEASE_TTL and leader is not None and leader == read_leader(catalog_db)
                )
                raise WaitTimeout(f"{self._words(now)}; {_daemon(catalog_db, silent=silent)}", code="wait-timeout")
            if stopped.wait(min(_PULSE, left)):
                raise QueryError("interrupted", code="interrupted")

    def _found(self, catalog: Catalog) -> Published | None:
        """The publication that is there, if it is new enough."""
        folded = self.name.lower()
        if folded not in catalog.snapshots and (catalog.kind_of(self.name) or folded in catalog.samplers):
            catalog.snapshot(self.name)  # says what the name is of
        snapshot = catalog.snapshots.get(folded)
        found = None if snapshot is None else published(snapshot)
        return found if found is not None and found.newer_than(self.newer_than) else None

    def _words(self, catalog: Catalog) -> str:
        """What was waited for, and what there is."""
        waited = f"waited {self.timeout:g} s for snapshot {self.name}"
        snapshot = catalog.snapshots.get(self.name.lower())
        if snapshot is None:
            near = did_you_mean(self.name, [other.name for other in catalog.snapshots.values()])
            return f"{waited}, and there is none of that name{near}"
        there = published(snapshot)
        return f"{waited} {_newer(self.newer_than)}, and it is at {_said(there)}"


def _newer(than: Published | int | datetime | None) -> str:
    match than:
        case Published():
            return f"newer than {_said(than)}"
        case datetime():
            return f"published after {than.isoformat(' ', 'milliseconds')}"
        case _:
            return f"of a version after {than}"


def _said(found: Published) -> str:
    return f"version {found.version}, published {found.time.isoformat(' ', 'milliseconds')}"


def _daemon(catalog_db: CatalogDb, *, silent: bool) -> str:
    """Who would publish it."""
    leader, db_dir = read_leader(catalog_db), catalog_db.db_dir
    if leader is None:
        return nobody(db_dir)
    if silent:
        return f"the daemon that led it, {who(leader)}, does not answer; run: {command('run', db_dir)}"
    return f"its daemon is {who(leader)}; what it did: {command('history', db_dir)}"


def _seconds(timeout: object) -> bool:
    return isinstance(timeout, int | float) and not isinstance(timeout, bool) and timeout >= 0

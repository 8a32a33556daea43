"""`db.wait_for`: waits until a snapshot is published, by this process or another."""

import math
import time
from datetime import datetime

from snapdb.catalog import Catalog
from snapdb.errors import DatabaseError, QueryError, WaitTimeout
from snapdb.execute.session import DatabaseSession
from snapdb.execute.tasks.operators import describe_process, scheduler_command, suggest_daemon
from snapdb.graph.open import published
from snapdb.storage.catalog_db.connection import CatalogDb
from snapdb.storage.catalog_db.task_rows import LEASE_TTL, LeaderLease
from snapdb.types import Published, did_you_mean

_PULSE = 0.1
"""The number of seconds between two checks. If nothing has changed, a check reads two rows."""
_REMOTE_PULSE = 2.0
"""The number of seconds between two checks of a published database, which read an object."""


def wait_for(
    session: DatabaseSession, name: str, newer_than: Published | int | datetime | None, timeout: float | None
) -> Published:
    """Wait for and return a publication of a snapshot. The arguments and errors are those of `Database.wait_for`."""
    _check_arguments(name, newer_than, timeout)
    catalog_db, stopped = session.store.catalog_db, session.store.sql_engine.stopped
    stopped.clear()
    began = time.monotonic()
    leader = LeaderLease(catalog_db).read()
    seen: Catalog | None = None
    attached = catalog_db.db_dir.url is not None
    while True:
        if attached:
            session.renew()
        catalog = session.head()  # cheap unless something was committed
        if catalog is not seen and (newest := _published(catalog, name)) is not None and newest.newer_than(newer_than):
            return newest
        seen = catalog
        if catalog_db.db_dir.immutable and not attached:
            raise DatabaseError(
                f"{catalog_db.db_dir.path} is not writable, and no other process had it open, so it is read as "
                "immutable files, "
                "and waiting would never end; open it again while a writer has it open",
                code="cannot-wait",
            )
        waited = time.monotonic() - began
        left = math.inf if timeout is None else timeout - waited
        if left <= 0:
            # A leader whose heartbeat has not changed for the duration of a lease is dead or suspended.
            silent = waited > LEASE_TTL and leader is not None and leader == LeaderLease(catalog_db).read()
            state = _state(catalog, name, newer_than)
            hint = _publisher(session) if attached else _daemon(catalog_db, silent=silent)
            raise WaitTimeout(f"waited {timeout:g} s for snapshot {name}{state}; {hint}", code="wait-timeout")
        if stopped.wait(min(_REMOTE_PULSE if attached else _PULSE, left)):
            raise QueryError("interrupted", code="interrupted")


def _publisher(session: DatabaseSession) -> str:
    """Return the message text about the database that would publish the snapshot."""
    return f"publish it again: PUBLISH TO '{session.store.db_dir.url}' in the database that publishes it"


def _check_arguments(name: str, newer_than: Published | int | datetime | None, timeout: float | None) -> None:
    if not isinstance(name, str):
        raise ValueError(f"the argument of wait_for must be the name of a snapshot, found {name!r}")
    known = isinstance(newer_than, Published | int | datetime | None) and not isinstance(newer_than, bool)
    if not known or (isinstance(newer_than, datetime) and newer_than.tzinfo is None):
        raise ValueError(
            "newer_than must be a result of wait_for or stream.published, a version, or a datetime with a time zone "
            "such as "
            f"datetime.now(UTC), found {newer_than!r}"
        )
    if timeout is not None and not _seconds(timeout):
        raise ValueError(f"timeout must be 0 seconds or more, or None to wait forever, found {timeout!r}")


def _published(catalog: Catalog, name: str) -> Published | None:
    """Return the publication of the snapshot. Raises BindError if the name belongs to another kind of object."""
    folded = name.lower()
    if folded not in catalog.snapshots and (catalog.kind_of(name) or folded in catalog.samplers):
        catalog.snapshot(name)  # raises an error that names the kind of the object
    snapshot = catalog.snapshots.get(folded)
    return None if snapshot is None else published(snapshot)


def _state(catalog: Catalog, name: str, newer_than: Published | int | datetime | None) -> str:
    """Return the expected and the current state, for a message."""
    snapshot = catalog.snapshots.get(name.lower())
    if snapshot is None:
        near = did_you_mean(name, [other.name for other in catalog.snapshots.values()])
        return f", which does not exist{near}"
    return f" {_newer(newer_than)}, but it is at {_publication_text(published(snapshot))}"


def _newer(than: Published | int | datetime | None) -> str:
    match than:
        case Published():
            return f"newer than {_publication_text(than)}"
        case datetime():
            return f"published after {than.isoformat(' ', 'milliseconds')}"
        case _:
            return f"with a version after {than}"


def _publication_text(published: Published) -> str:
    return f"version {published.version}, published {published.time.isoformat(' ', 'milliseconds')}"


def _daemon(catalog_db: CatalogDb, *, silent: bool) -> str:
    """Return the message text about the scheduler that would publish the snapshot."""
    leader, db_dir = LeaderLease(catalog_db).read(), catalog_db.db_dir
    if leader is None:
        return suggest_daemon(db_dir)
    if silent:
        command = scheduler_command("run", db_dir)
        return f"the scheduler, {describe_process(leader)}, does not respond; run: {command}"
    return f"its scheduler is {describe_process(leader)}; to list its runs, run: {scheduler_command('history', db_dir)}"


def _seconds(timeout: object) -> bool:
    return isinstance(timeout, int | float) and not isinstance(timeout, bool) and timeout >= 0

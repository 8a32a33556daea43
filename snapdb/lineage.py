"""A batch again, from what it says of itself: its database is found, opened and asked."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from snapdb.database import Database, connect
from snapdb.errors import DatabaseError
from snapdb.execute.samples.lineage import read_lineage
from snapdb.plan.queries import Parameters
from snapdb.storage.catalog_db.db_dir import CATALOG

if TYPE_CHECKING:
    from snapdb.loading import Batch


def replay(
    lineage: Mapping[str, object],
    batch: int,
    database: Database | str | Path | None = None,
    *,
    epoch: int | None = None,
    seeds: object = None,
    params: Parameters = None,
) -> Batch:
    """A batch again, bit for bit, from the lineage of any batch of its stream.

    The tables are read at the versions of then. A snapshot that was refreshed, replaced or dropped since is pinned
    again for the time of this call.

    Args:
        lineage: `batch.lineage` or `stream.lineage`, or what JSON kept of one; a manifest's will do.
        batch: Its number within the epoch, over all ranks: `batch.index[1]`.
        database: Where the database is now, or the database itself; None: where the lineage says.
        epoch: Another epoch than the lineage's.
        seeds: Those that `db.stream` was given, where it was given ids.
        params: Those that `db.stream` was given, where the lineage could not hold them.

    Raises:
        InputError: it is no lineage, or is damaged, or has no such batch.
        FormatError: it is of another rng scheme.
        DatabaseError: its database is not there, or the snapshot is gone and nothing can be written.
        DataError: the seeds are others than then.
    """
    if isinstance(database, Database):
        return database.replay(lineage, batch, epoch=epoch, seeds=seeds, params=params)
    with at_lineage(lineage, database) as found:
        return found.replay(lineage, batch, epoch=epoch, seeds=seeds, params=params)


def at_lineage(lineage: Mapping[str, object], place: str | Path | None = None) -> Database:
    """The database of a lineage, opened for writing where that can be.

    Raises:
        DatabaseError: it is not there.
    """
    path = Path(read_lineage(lineage).database if place is None else place)
    if not (path / CATALOG).exists():
        said = ", where this lineage says that it was" if place is None else ""
        raise DatabaseError(
            f"there is no database at {path}{said}; say where it is now: database=… (--database)", code="no-database"
        )
    return connect(path, read_only=not os.access(path, os.W_OK))

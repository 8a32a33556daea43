"""Batch replay: rebuilds a batch from its lineage, in the database that the lineage specifies."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from snapdb.database import Database, connect
from snapdb.errors import DatabaseError
from snapdb.execute.samples.lineage import read_lineage
from snapdb.on_first_use import public_names
from snapdb.plan.queries import Parameters
from snapdb.storage.catalog_db.db_dir import CATALOG

if TYPE_CHECKING:
    from snapdb.loading import Batch

__dir__ = public_names(__name__)


def replay(
    lineage: Mapping[str, object],
    batch: int,
    database: Database | str | Path | None = None,
    *,
    epoch: int | None = None,
    seeds: object = None,
    params: Parameters = None,
) -> Batch:
    """Rebuild a batch, bit for bit, from the lineage of any batch of the same stream.

    Tables are read at the stream's versions (time travel). If the snapshot has been refreshed, replaced or dropped
    since then, it is rebuilt for this call.

    Args:
        lineage: `batch.lineage` or `stream.lineage`, possibly after a round trip through JSON, or the lineage in an
            export's manifest.
        batch: The batch number within the epoch, counted over all ranks: `batch.index[1]`.
        database: The database, or its current path. Defaults to the path in the lineage.
        epoch: The epoch number. Defaults to the lineage's epoch.
        seeds: The ids that `db.stream` received as `seeds`, or None if it received none.
        params: The parameters that `db.stream` received, if the lineage could not record them.

    Returns:
        The batch, on the CPU.

    Raises:
        InputError: The value is not a lineage or is damaged, or the epoch has no such batch.
        FormatError: The lineage has a different random number scheme.
        DatabaseError: The database is not at this path, or the snapshot must be rebuilt and the database is read-only.
        DataError: The seeds differ from those of the stream.
    """
    if isinstance(database, Database):
        return database.replay(lineage, batch, epoch=epoch, seeds=seeds, params=params)
    with at_lineage(lineage, database) as found:
        return found.replay(lineage, batch, epoch=epoch, seeds=seeds, params=params)


def at_lineage(lineage: Mapping[str, object], place: str | Path | None = None) -> Database:
    """Open the database of a lineage, for writing if the directory is writable.

    Raises:
        DatabaseError: There is no database at the path.
    """
    path = Path(read_lineage(lineage).database if place is None else place)
    if not (path / CATALOG).exists():
        said = ", the path in this lineage" if place is None else ""
        raise DatabaseError(
            f"no database exists at {path}{said}; pass its new path: database=… (--database)", code="no-database"
        )
    return connect(path, read_only=not os.access(path, os.W_OK))

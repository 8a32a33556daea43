"""snapdb: a SQL-like database engine for snapshots of graphs that change.

    import snapdb

    with snapdb.connect("shop.snapdb") as db:
        db.execute("CREATE SNAPSHOT q3 OF shop FOR EVENT_TIME AS OF DATE '2026-10-01'")
        stream = db.stream("SAMPLE FROM q3 SEEDS (FROM customer SELECT cid) AS customer FANOUT (DEFAULT => [10, 10])")
        for batch in stream:
            ...

Importing the package does not load an engine, because each public name is imported on first use (PEP 562).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from snapdb.errors import (
    BindError,
    CommitConflict,
    CorruptError,
    DatabaseError,
    DataError,
    DataWarning,
    FormatError,
    InputError,
    LockedError,
    ParseError,
    QueryError,
    SnapdbError,
    WaitTimeout,
)
from snapdb.on_first_use import on_first_use, public_names
from snapdb.release import __version__

if TYPE_CHECKING:
    from snapdb.database import Database, connect
    from snapdb.execute.results import Result
    from snapdb.lineage import replay
    from snapdb.loading import Batch, BatchFolder, BatchStream, WalkBatch, read_batches
    from snapdb.relations import Relation
    from snapdb.sql.parser import format_sql
    from snapdb.storage.catalog_db.connection import upgrade
    from snapdb.types.snapshot import Published

__all__ = [
    "Batch",
    "BatchFolder",
    "BatchStream",
    "BindError",
    "CommitConflict",
    "CorruptError",
    "DataError",
    "DataWarning",
    "Database",
    "DatabaseError",
    "FormatError",
    "InputError",
    "LockedError",
    "ParseError",
    "Published",
    "QueryError",
    "Relation",
    "Result",
    "SnapdbError",
    "WaitTimeout",
    "WalkBatch",
    "__version__",
    "connect",
    "format_sql",
    "read_batches",
    "replay",
    "upgrade",
]

_LAZY = {
    "Batch": ".loading",
    "BatchFolder": ".loading",
    "BatchStream": ".loading",
    "Database": ".database",
    "Published": ".types.snapshot",
    "Relation": ".relations",
    "Result": ".execute.results",
    "WalkBatch": ".loading",
    "connect": ".database",
    "format_sql": ".sql.parser",
    "load_ipython_extension": ".notebook",
    "read_batches": ".loading",
    "replay": ".lineage",
    "unload_ipython_extension": ".notebook",
    "upgrade": ".storage.catalog_db.connection",
}

if not TYPE_CHECKING:  # a type checker would accept any name as an attribute of the package
    __getattr__ = on_first_use(__name__, _LAZY)
__dir__ = public_names(__name__)

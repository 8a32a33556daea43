"""snapdb: a SQL-like database engine for snapshots of graphs that change.

    import snapdb

    with snapdb.connect("shop.snapdb") as db:
        db.execute("CREATE SNAPSHOT q3 OF shop FOR EVENT_TIME AS OF DATE '2026-10-01'")
        stream = db.stream("SAMPLE FROM q3 SEEDS (FROM customer SELECT cid) AS customer FANOUT (DEFAULT => [10, 10])")
        for batch in stream:
            ...

Importing it loads no engine: the names below bring theirs on first use (PEP 562).
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from snapdb.errors import (
    BindError,
    CommitConflict,
    CorruptError,
    DatabaseError,
    DataError,
    FormatError,
    InputError,
    LockedError,
    ParseError,
    QueryError,
    SnapdbError,
)
from snapdb.release import __version__

if TYPE_CHECKING:
    from snapdb.database import Database, connect
    from snapdb.execute.result import Result
    from snapdb.lineage import replay
    from snapdb.loading import Batch, BatchFolder, BatchStream, read_batches
    from snapdb.sql.print import format_sql
    from snapdb.storage.upgrade import upgrade

__all__ = [
    "Batch",
    "BatchFolder",
    "BatchStream",
    "BindError",
    "CommitConflict",
    "CorruptError",
    "DataError",
    "Database",
    "DatabaseError",
    "FormatError",
    "InputError",
    "LockedError",
    "ParseError",
    "QueryError",
    "Result",
    "SnapdbError",
    "__version__",
    "connect",
    "format_sql",
    "read_batches",
    "replay",
    "upgrade",
]

_LAZY = {
    "Batch": "snapdb.loading",
    "BatchFolder": "snapdb.loading",
    "BatchStream": "snapdb.loading",
    "Database": "snapdb.database",
    "Result": "snapdb.execute.result",
    "connect": "snapdb.database",
    "format_sql": "snapdb.sql.print",
    "load_ipython_extension": "snapdb.notebook",
    "read_batches": "snapdb.loading",
    "replay": "snapdb.lineage",
    "unload_ipython_extension": "snapdb.notebook",
    "upgrade": "snapdb.storage.upgrade",
}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'snapdb' has no attribute {name!r}")
    value = getattr(importlib.import_module(_LAZY[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__

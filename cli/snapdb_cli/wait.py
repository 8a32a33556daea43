"""`snapdb wait`: the next publication of a snapshot, as soon as it is there."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from snapdb.catalog.listing import listing
from snapdb.database import connect

from .diagnostics import Diagnostics, ExitCode
from .output import Output
from .progress import Progress

_COLUMNS = [
    ("snapshot", pa.string()),
    ("graph", pa.string()),
    ("version", pa.int64()),
    ("published", pa.timestamp("us", tz="UTC")),
]


def wait(
    path: Path,
    snapshot: str,
    newer_than: int | None,
    timeout: float | None,
    diagnostics: Diagnostics,
    format: str,  # noqa: A002  # the option's name
) -> ExitCode:
    """Show the publication that was waited for; the database is only read.

    Raises:
        WaitTimeout: it did not come in time.
        BindError: the name is that of something else.
    """
    with connect(path, read_only=True) as database, Progress(diagnostics, f"waiting for {snapshot}") as progress:
        found = database.wait_for(snapshot, newer_than, timeout)
        batch = listing(_COLUMNS, [(found.name, found.graph, found.version, found.time)])
        Output(format).write(batch.schema, [batch], progress.stop)
    return ExitCode.OK

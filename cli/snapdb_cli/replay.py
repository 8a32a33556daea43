"""`snapdb replay`: the sampled edges of a batch that was made before, from the lineage that was kept of it."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from snapdb.errors import InputError
from snapdb.lineage import at_lineage

from .diagnostics import Diagnostics, ExitCode
from .output import Output
from .progress import Progress


def replay(
    path: Path,
    batch: int,
    epoch: int | None,
    database: Path | None,
    diagnostics: Diagnostics,
    format: str,  # noqa: A002  # the option's name
) -> ExitCode:
    """Show the rows that SAMPLE gives of the batch; `path` is a file of JSON, or - for stdin.

    Raises:
        SnapdbError: it holds no lineage, or the batch cannot be made again.
    """
    lineage = _read(path)
    with Progress(diagnostics, f"replaying batch {batch}") as progress, at_lineage(lineage, database) as db:
        db.progress = progress.update
        rows = db.replay_rows(lineage, batch, epoch=epoch)
        Output(format).write(rows.schema, rows.to_batches(), progress.stop)
    return ExitCode.OK


def _read(path: Path) -> Any:
    """What a file of JSON holds."""
    text = sys.stdin.buffer.read() if str(path) == "-" else path.read_bytes()
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(
            f"{path} is no JSON ({error}); keep a lineage with json.dump(batch.lineage, file)", code="lineage"
        ) from error

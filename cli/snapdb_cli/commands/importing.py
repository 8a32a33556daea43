"""`snapdb import`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from snapdb.database import connect
from snapdb_cli.diagnostics import Diagnostics, ExitCode
from snapdb_cli.terminal import Progress


def run(
    path: Path, source: Path, graph: str, snapshot: str, options: dict[str, Any], diagnostics: Diagnostics
) -> ExitCode:
    """Import the graph in a file or folder, and show what it creates."""
    with connect(path, variables=False) as database, Progress(diagnostics, f"importing {source}") as progress:
        database.progress = progress.update
        imported = database.import_graph(graph, source, snapshot=snapshot, **options)
    diagnostics.say(str(imported))
    return ExitCode.OK

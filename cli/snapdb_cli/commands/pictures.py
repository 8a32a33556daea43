"""`snapdb draw` and `snapdb plot`."""

from __future__ import annotations

import sys
from pathlib import Path

from snapdb.database import connect
from snapdb.errors import InputError
from snapdb_cli.diagnostics import Diagnostics, ExitCode
from snapdb_cli.output import Output
from snapdb_cli.plots import draw as draw_charts
from snapdb_cli.plots import plot as plot_charts
from snapdb_cli.terminal import Progress


def draw(path: Path, sampler: str, batch: int, seeds: int, target: Path | None, diagnostics: Diagnostics) -> ExitCode:
    """Write a batch of a sampler as a picture to a file, or as SVG to stdout.

    Raises:
        InputError: The file's suffix is neither .svg nor .html, or stdout is a terminal.
    """
    if target is None and sys.stdout.isatty():
        raise InputError(
            "the picture is SVG, and stdout is a terminal; write it to a file: -o sample.svg, or > sample.svg",
            code="output-format",
        )
    with connect(path, read_only=True) as database, Progress(diagnostics, f"drawing {sampler}") as progress:
        database.progress = progress.update
        drawing = database.draw(sampler, batch, seeds)
        progress.stop()
        if target is None:
            print(drawing.svg())
        else:
            drawing.save(target)
    diagnostics.announce(drawing.caption)
    return ExitCode.OK


def plot(path: Path, name: str, element: str, diagnostics: Diagnostics) -> ExitCode:
    """Write charts of the tables of a database, or of a table or snapshot."""
    with connect(path, read_only=True) as database, Progress(diagnostics, f"reading {path}") as progress:
        database.progress = progress.update
        charts = plot_charts(database, name, element)
        progress.stop()
    if charts:
        Output().draw(lambda width, color, unicode: draw_charts(charts, width, color=color, unicode=unicode))
    else:
        diagnostics.announce(f"{name or 'the database'} has no rows to plot")
    return ExitCode.OK

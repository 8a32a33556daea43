"""Charts of growth and degrees as text: `\\plot` at the prompt and `snapdb plot`. The bars are rich's."""

from __future__ import annotations

import io
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from snapdb.database import Database
from snapdb.errors import BindError
from snapdb.execute.rendering import printable
from snapdb.on_first_use import module_on_first_use
from snapdb.pictures.charts import bin_label
from snapdb.pictures.growth import Degrees, Growth, element_degrees, element_growth, version_growth
from snapdb.sql_engine import quote
from snapdb.types.text import did_you_mean

if TYPE_CHECKING:
    from rich import bar, console, table, text
else:
    bar, console = module_on_first_use("rich.bar"), module_on_first_use("rich.console")
    table, text = module_on_first_use("rich.table"), module_on_first_use("rich.text")

_MOST_BARS = 20
"""The maximum number of bars of a chart of growth."""
_MOST_TABLES = 8
"""The maximum number of charts of tables."""
_COLORS = ("cyan", "yellow", "green", "magenta", "blue")
_PARTS = str.maketrans("▏▎▍▌▋▊▉█▐▕", "   #######")
"""Bars in ASCII, in which a bar of less than half a cell is empty."""


@dataclass(frozen=True, slots=True)
class BarChart:
    """Horizontal bars with a label and a number each."""

    heading: str
    bars: tuple[tuple[str, int | None], ...]
    """(label, number) from top to bottom. None has no bar and no number."""
    logarithmic: bool = False
    """Whether a bar's length is that of the logarithm of its number."""


def plot(database: Database, name: str, element: str = "") -> tuple[BarChart, ...]:
    """Return charts of a table, a snapshot or an element of one, or of all tables for an empty name.

    Raises:
        BindError: Neither a table nor a snapshot has this name, or the snapshot does not contain the element.
    """
    if not name:
        return _tables(database)
    known = database.names()
    table, snapshot = (_exact_name(known[kind], name) for kind in ("tables", "snapshots"))
    if snapshot is not None:
        return _snapshot(database, snapshot, element)
    if table is not None and not element:
        return _table(database, table)
    if table is not None:
        raise BindError(
            f'{table} is a table, and only snapshots have elements such as "{element}"; leave out "{element}"',
            code="unknown-type",
        )
    schema, dot, rest = name.partition(".")
    if dot and not element and (snapshot := _exact_name(known["snapshots"], schema)) is not None:
        return _snapshot(database, snapshot, rest)
    raise BindError(
        f'no table or snapshot is named "{name}"{did_you_mean(name, [*known["tables"], *known["snapshots"]])}',
        code="unknown-table",
    )


def _exact_name(names: Sequence[str], name: str) -> str | None:
    """Return the name as it was created, whose case can differ, or None if there is none."""
    return next((one for one in names if one.casefold() == name.casefold()), None)


def _tables(database: Database) -> tuple[BarChart, ...]:
    """Return the current rows of all tables, and the growth of the largest ones."""
    growth = version_growth(database.execute("SHOW VERSIONS").arrow())
    if growth is None:
        return ()
    last = tuple((name, rows[-1]) for name, rows in growth.series.items())
    charts = [BarChart("Rows by table", last[:_MOST_BARS])] if len(last) > 1 else []
    return (*charts, *list(_growth(growth))[:_MOST_TABLES])


def _table(database: Database, name: str) -> tuple[BarChart, ...]:
    growth = version_growth(database.execute(f"SHOW VERSIONS OF {quote(name)}").arrow())
    return () if growth is None else tuple(_growth(growth))


def _snapshot(database: Database, name: str, element: str) -> tuple[BarChart, ...]:
    """Return the growth and the degrees of all elements of a snapshot, or of one."""
    rows = database.execute(f"SUMMARIZE SNAPSHOT {quote(name)}").arrow().to_pylist()
    chosen = [row for row in rows if not element or row["element"].casefold() == element.casefold()]
    if not chosen:
        names = [row["element"] for row in rows]
        near = did_you_mean(element, names) or f"; it has {', '.join(names)}"
        raise BindError(f'snapshot "{name}" has no element "{element}"{near}', code="unknown-type")
    return tuple(chart for row in chosen for chart in _element(row))


def _element(row: dict[str, Any]) -> Iterator[BarChart]:
    if (growth := element_growth(row)) is not None:
        yield from _growth(growth)
    if (degrees := element_degrees(row)) is not None:
        yield _degrees(degrees)


def _growth(growth: Growth) -> Iterator[BarChart]:
    """Yield one chart per table or element, with evenly spaced places if there are many."""
    count = len(growth.places)
    shown = sorted({round(i * (count - 1) / (_MOST_BARS - 1)) for i in range(_MOST_BARS)} if count > 1 else {0})
    for name, rows in growth.series.items():
        bars = tuple((growth.places[i], rows[i]) for i in shown if rows[i] is not None)
        yield BarChart(f"{name}: {growth.noun}s by {growth.axis}", bars)


def _degrees(degrees: Degrees) -> BarChart:
    bars = tuple((bin_label(i), count) for i, count in enumerate(degrees.counts))
    return BarChart(f"{degrees.heading}, number of vertices (logarithmic)", bars, logarithmic=True)


def draw(charts: Sequence[BarChart], width: int, *, color: bool = False, unicode: bool = True) -> str:
    """Return charts as text.

    Args:
        charts: The charts.
        width: The maximum width in terminal cells.
        color: Whether to use ANSI colours.
        unicode: Whether to draw bars with block characters. Otherwise they consist of #.

    >>> chart = BarChart("knows: rows by version", (("1", 10), ("2", 40)))
    >>> print(draw([chart], 30, unicode=False))
    knows: rows by version
    1 ######                    10
    2 ######################### 40
    """
    buffer = io.StringIO()
    screen = console.Console(
        file=buffer, width=width, force_terminal=color, color_system="standard" if color else None, highlight=False,
        legacy_windows=False, markup=False, emoji=False,
    )  # fmt: skip
    for place, chart in enumerate(charts):
        if place:
            screen.print()
        screen.print(text.Text(printable(chart.heading).replace("\n", " "), style="bold" if color else ""))
        screen.print(_grid(chart, _COLORS[place % len(_COLORS)] if color else "default"))
    drawn = "\n".join(line.rstrip() for line in buffer.getvalue().splitlines())
    return drawn if unicode else drawn.translate(_PARTS)


def _grid(chart: BarChart, color: str) -> table.Table:
    grid = table.Table.grid(padding=(0, 1), expand=True)
    grid.add_column(no_wrap=True, overflow="ellipsis", max_width=32)
    grid.add_column(ratio=1, min_width=4)
    grid.add_column(justify="right", no_wrap=True)
    lengths = [_length(number or 0, chart.logarithmic) for _, number in chart.bars]
    most = max(lengths, default=0.0) or 1.0
    for (label, number), length in zip(chart.bars, lengths, strict=True):
        shown = "" if number is None else f"{number:,}"
        grid.add_row(text.Text(printable(label).replace("\n", " ")), bar.Bar(most, 0, length, color=color), shown)
    return grid


def _length(number: int, logarithmic: bool) -> float:
    """Return the length of a bar. On a logarithmic scale, 1 has a visible length."""
    return math.log10(number) + 0.3 if logarithmic and number > 0 else float(max(number, 0))

"""Growth and degrees as numbers, from the rows of SHOW VERSIONS and SUMMARIZE SNAPSHOT, and as charts for notebooks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import accumulate
from typing import Any

import pyarrow as pa

from snapdb.pictures.charts import degree_chart, growth_chart

_VERSIONS = {"version", "table", "rows_added", "rows_removed"}
_SUMMARY = {"element", "kind", "growth", "degrees", "from_time", "to_time"}
_INTERVALS = 20
"""The maximum number of intervals of `growth`."""
_MOST_LINES = 8
"""The maximum number of tables in a chart."""
_MOST_ELEMENTS = 8
"""The maximum number of elements with charts."""


@dataclass(frozen=True, slots=True)
class Growth:
    """Row counts over versions or times."""

    heading: str
    axis: str
    """What the places are: versions or times."""
    noun: str
    places: tuple[str, ...]
    """The versions, or the starts of intervals of time."""
    series: Mapping[str, tuple[int | None, ...]]
    """Name of the table or element → the number of rows at each place, or None before the table existed."""


@dataclass(frozen=True, slots=True)
class Degrees:
    """A histogram of degrees in powers of two: 0, 1, 2, 3-4, 5-8, …"""

    heading: str
    counts: tuple[int, ...]


def version_growth(versions: pa.Table) -> Growth | None:
    """Return the rows of each table after each version, from the rows of SHOW VERSIONS. None if there are none.

    The largest tables come first. A version in which only other tables changed is a place of every table.

    >>> rows = [(1, "a", 5, 0), (2, "b", 7, 0), (3, "a", 1, 2)]
    >>> names = ["version", "table", "rows_added", "rows_removed"]
    >>> growth = version_growth(pa.Table.from_pylist([dict(zip(names, row, strict=True)) for row in rows]))
    >>> growth.places, dict(growth.series)
    (('1', '2', '3'), {'b': (None, 7, 7), 'a': (5, 5, 4)})
    """
    rows = versions.select(["version", "table", "rows_added", "rows_removed"]).to_pylist()
    places = sorted({row["version"] for row in rows if row["table"] is not None})
    index = {version: i for i, version in enumerate(places)}
    changes: dict[str, list[int | None]] = {}
    for row in rows:
        if row["table"] is not None:
            steps = changes.setdefault(row["table"], [None] * len(places))
            place = index[row["version"]]
            steps[place] = (steps[place] or 0) + row["rows_added"] - row["rows_removed"]
    series = {name: tuple(_sums(steps)) for name, steps in changes.items()}
    ordered = sorted(series.items(), key=lambda item: -(item[1][-1] or 0))
    return Growth("Rows by version", "version", "row", tuple(map(str, places)), dict(ordered)) if places else None


def _sums(steps: Sequence[int | None]) -> Iterator[int | None]:
    """Yield the running sum, or None before the first value."""
    total: int | None = None
    for step in steps:
        if step is not None:
            total = (total or 0) + step
        yield total


def element_growth(row: Mapping[str, Any]) -> Growth | None:
    """Return the number of rows of an element up to the end of each interval of time, from a row of SUMMARIZE SNAPSHOT.

    None if the element has no event times.
    """
    counts = row["growth"]
    if not counts:
        return None
    places = interval_starts(row["from_time"], row["to_time"], len(counts))
    name = row["element"]
    return Growth(f"{name} by event time", "event time", "row", tuple(places), {name: tuple(accumulate(counts))})


def element_degrees(row: Mapping[str, Any]) -> Degrees | None:
    """Return the degree histogram of an element, from a row of SUMMARIZE SNAPSHOT, or None if there are no vertices."""
    what = "in-degrees" if row["kind"] == "edge" else "edges per vertex"
    counts = row["degrees"]
    return Degrees(f"{row['element']}: {what}", tuple(counts)) if counts else None


def interval_starts(first: str, last: str, count: int) -> list[str]:
    """Return the starts of intervals of equal width as text, as SUMMARIZE SNAPSHOT chooses them.

    >>> interval_starts("5", "44", 20)[:3]
    ['5', '7', '9']
    >>> interval_starts("2026-01-01 00:00:00", "2026-02-09 23:59:59.999999", 20)[:2]
    ['2026-01-01', '2026-01-03']
    """
    try:
        low, high = int(first), int(last)
    except ValueError:
        return _moments(first, last, count)
    width = -(-(high - low + 1) // _INTERVALS)
    return [str(low + i * width) for i in range(count)]


def _moments(first: str, last: str, count: int) -> list[str]:
    try:
        low, high = datetime.fromisoformat(first), datetime.fromisoformat(last)
    except ValueError:  # a year outside the range of Python's calendar
        return [f"interval {i + 1}" for i in range(count)]
    span = (high - low) // timedelta(microseconds=1) + 1
    width = timedelta(microseconds=-(-span // _INTERVALS))
    spec = "%Y-%m-%d" if width >= timedelta(days=1) else "%Y-%m-%d %H:%M:%S"
    return [(low + i * width).strftime(spec) for i in range(count)]


def charts_html(table: pa.Table) -> str:
    """Return charts for the rows of SHOW VERSIONS or SUMMARIZE SNAPSHOT as HTML. Empty for other results."""
    charts = list(_charts(table))
    return f"<div>{''.join(charts)}</div>" if charts else ""


def _charts(table: pa.Table) -> Iterator[str]:
    names = set(table.column_names)
    if names >= _VERSIONS and (growth := version_growth(table)) is not None:
        shown = dict(list(growth.series.items())[:_MOST_LINES])
        more = len(growth.series) - len(shown)
        heading = f"{growth.heading}, {_MOST_LINES} largest of {len(growth.series)} tables" if more else growth.heading
        yield growth_chart(growth.places, shown, heading=heading)
    elif names >= _SUMMARY:
        for row in table.slice(0, _MOST_ELEMENTS).to_pylist():
            if (growth := element_growth(row)) is not None:
                yield growth_chart(growth.places, growth.series, heading=growth.heading, axis=growth.axis, width=400)
            if (degrees := element_degrees(row)) is not None:
                yield degree_chart(degrees.counts, heading=degrees.heading)

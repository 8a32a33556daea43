"""Snapshots: the pin on both axes, a profile of each element, and what differs from another snapshot."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from snapdb.database import Database
from snapdb.pictures.charts import degree_chart
from snapdb.pictures.growth import element_degrees
from snapdb.sql_engine import quote, text_literal
from snapdb_ui.cells import Cell, bytes_text, count_text
from snapdb_ui.pages.page import Ask, Column, Page, Panel, drawn, listing, table, table_of
from snapdb_ui.pages.timeline import timelines_panel
from snapdb_ui.reader import Rows, dicts, rows

_DRIFTED = 0.25
"""The population stability index above which a distribution has changed: the usual threshold."""
_ROWS = 100
_READ = 10_000
"""The number of rows of a difference that are read."""
_COUNTS = tuple(Column(name, name) for name in ("element", "kind", "added", "removed", "changed", "before", "after"))
SNAPSHOTS = (
    Column("name", "snapshot", "snapshots/{name}"),
    Column("graph", "graph", "graphs/{graph}"),
    Column("version", "version"),
    Column("from_time", "from"),
    Column("to_time", "to"),
    Column("nodes", "nodes", text=count_text),
    Column("edges", "edges", text=count_text),
    Column("form", "form"),
    Column("bytes", "size", text=bytes_text),
    Column("tag", "tag"),
    Column("created", "created"),
)
_LIST = listing("SHOW SNAPSHOTS", SNAPSHOTS, "There are no snapshots.")


def _definition(db: Database, ask: Ask) -> Mapping[str, Any]:
    found = rows(db, f"DESCRIBE SNAPSHOT {quote(ask.name)}")
    others = dicts(db, f"SELECT name FROM snapdb.snapshots WHERE graph = ({_graph(ask.name)}) ORDER BY name")
    names = [row["name"] for row in others if row["name"] != ask.name]
    return {
        "table": table_of(found, blank=True),
        "empty": "The snapshot has no elements.",
        "others": names,
        "against": ask.options.get("against", ""),
        "name": ask.name,
    }


def _graph(snapshot: str) -> str:
    return f"SELECT graph FROM snapdb.snapshots WHERE name = {text_literal(snapshot)}"


def _profile(db: Database, ask: Ask) -> Mapping[str, Any]:
    found = dicts(db, f"SUMMARIZE SNAPSHOT {quote(ask.name)}")
    degrees = [one for one in map(element_degrees, found) if one is not None]
    return {
        "elements": [{**row, "bars": _bars(row["growth"] or ())} for row in found],
        "charts": [drawn(degree_chart(one.counts, heading=one.heading)) for one in degrees],
    }


def _bars(counts: Sequence[int]) -> list[tuple[int, float, int]]:
    """Return (place, height from 0 to 1, count) of each bar of a chart."""
    most = max(counts, default=0) or 1
    return [(place, count / most, count) for place, count in enumerate(counts)]


def _diff(db: Database, ask: Ask) -> Mapping[str, Any]:
    against = ask.options.get("against", "")
    if not against:
        return {"against": ""}
    pair = f"DIFF SNAPSHOT {quote(ask.name)} WITH {quote(against)}"
    elements = dicts(db, pair)
    drift = sorted(dicts(db, f"{pair} FEATURES"), key=lambda row: -(row["psi"] or 0.0))
    changes, more = _changes(db, f"{pair} ROWS")
    return {
        "against": against,
        "name": ask.name,
        "elements": table(elements, _COUNTS),
        "drift": [{**row, "drifted": (row["psi"] or 0.0) > _DRIFTED} for row in drift],
        "degrees": sorted(
            (row for row in elements if row["degree_psi"] is not None), key=lambda row: -row["degree_psi"]
        ),
        "threshold": _DRIFTED,
        "changes": table_of(changes, blank=True),
        "more": more,
        "empty": "No row was added or removed.",
    }


def _changes(db: Database, statement: str) -> tuple[Rows, list[str]]:
    """Return the first rows of each kind of change, and the kinds with more rows."""
    counts: Counter[str] = Counter()
    shown: list[Sequence[Cell]] = []
    found = rows(db, statement, _READ)
    for row in found.rows:
        counts[row[0].text] += 1
        if counts[row[0].text] <= _ROWS:
            shown.append(row)
    more = [kind for kind, count in counts.items() if count > _ROWS or found.more]
    return Rows(found.names, shown, found.more), more


PAGES = (
    Page(
        "/snapshots",
        "snapshots",
        "Snapshots",
        (
            Panel("timeline", "By event time", timelines_panel, "timeline.html"),
            Panel("snapshots", "Snapshots", _LIST, "table.html"),
        ),
    ),
    Page(
        "/snapshots/{name}",
        "snapshots",
        "Snapshot {name}",
        (
            Panel("definition", "Definition", _definition, "snapshot.html"),
            Panel("diff", "Difference", _diff, "diff.html"),
            Panel("profile", "Profile", _profile, "profile.html"),
        ),
    ),
)

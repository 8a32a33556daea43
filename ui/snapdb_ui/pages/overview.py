"""The first page: snapshots, growth, last runs, caches and sizes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from snapdb.database import Database
from snapdb.pictures.charts import growth_chart
from snapdb.pictures.growth import version_growth
from snapdb_ui.cells import bytes_text, count_text
from snapdb_ui.pages.page import Ask, Column, Page, Panel, Table, drawn, listing, table
from snapdb_ui.pages.timeline import timelines_panel
from snapdb_ui.reader import dicts

_RUNS = 15
_LINES = 8
"""The number of tables in a chart, of which the largest are shown."""
_POINTS = 150
"""The number of points of a line in a picture."""
_TABLE_COLUMNS = (
    Column("name", "table", "tables/{name}"),
    Column("rows", "rows", text=count_text),
    Column("columns", "columns"),
    Column("segments", "segments"),
    Column("bytes", "size", text=bytes_text),
    Column("version", "version"),
)
_CACHE_COLUMNS = (
    Column("name", "cache"),
    Column("sampler", "sampler", "samplers/{sampler}"),
    Column("what", "contents"),
    Column("place", "place"),
    Column("room", "room", text=bytes_text),
    Column("spill", "spill"),
    Column("bytes", "used", text=bytes_text),
    Column("rows", "rows", text=count_text),
    Column("hit_rate", "hit rate", text=lambda rate: "" if rate is None else f"{rate:.1%}"),
    Column("age", "age, batches"),
    Column("bytes_read", "read", text=bytes_text),
    Column("bytes_saved", "saved", text=bytes_text),
    Column("streams", "streams"),
)
TABLES = listing("SHOW TABLES", _TABLE_COLUMNS, "There are no tables.")
"""The panel of all tables."""
_CACHES = listing("SHOW CACHES", _CACHE_COLUMNS, "There are no caches.")
_RUN_COLUMNS = (
    Column("task", "task", "tasks/{task}"),
    Column("run", "run", "runs/{task}/{run}"),
    Column("state", "state", "runs/{task}/{run}", state=True),
    Column("scheduled", "scheduled"),
    Column("seconds", "seconds"),
    Column("error", "error"),
)


def growth(db: Database, ask: Ask, where: str = "true") -> Mapping[str, Any]:
    """Return the rows of each table by version, as a picture with few points and as numbers."""
    found = version_growth(db.execute(f"SELECT * FROM snapdb.versions WHERE {where}").arrow())
    if found is None:
        return {"chart": None, "data": None}
    shown = dict(list(found.series.items())[:_LINES])
    step = -(-len(found.places) // _POINTS)
    places = [*range(0, len(found.places) - 1, step), len(found.places) - 1]
    thinned = {name: [counts[place] for place in places] for name, counts in shown.items()}
    chart = growth_chart([found.places[place] for place in places], thinned, width=720)
    left_out = len(found.series) - len(shown)
    data = {"names": list(shown), "data": [[int(place) for place in found.places], *shown.values()]}
    return {"chart": drawn(chart), "data": data, "left_out": left_out}


def runs_table(db: Database, most: int, where: str = "true") -> Table:
    """Return the last attempts of task runs, newest first."""
    columns = ", ".join(column.name for column in _RUN_COLUMNS)
    order = f"ORDER BY scheduled DESC, attempt DESC LIMIT {most}"
    return table(dicts(db, f"SELECT {columns} FROM snapdb.task_runs WHERE {where} {order}"), _RUN_COLUMNS)


def _runs(db: Database, ask: Ask) -> Mapping[str, Any]:
    return {"table": runs_table(db, _RUNS), "empty": "No task has run yet.", "more": ("tasks", "all tasks")}


PAGES = (
    Page(
        "/",
        "overview",
        "Overview",
        (
            Panel("timeline", "Snapshots by event time", timelines_panel, "timeline.html"),
            Panel("growth", "Rows by version", growth, "growth.html"),
            Panel("tables", "Tables", TABLES, "table.html"),
            Panel("runs", "Last runs", _runs, "table.html"),
            Panel("caches", "Caches", _CACHES, "table.html"),
        ),
    ),
    Page("/caches", "caches", "Caches", (Panel("caches", "Caches", _CACHES, "table.html", repeated=True),)),
)

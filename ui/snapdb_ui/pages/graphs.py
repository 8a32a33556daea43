"""Property graphs: elements and keys as a drawing, snapshots, and what retention would remove."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import cos, pi, sin
from typing import Any

from snapdb.database import Database
from snapdb.sql_engine import quote, text_literal
from snapdb_ui.pages.page import Ask, Column, Page, Panel, listing, table, table_of
from snapdb_ui.pages.snapshots import SNAPSHOTS
from snapdb_ui.reader import dicts, rows

_GRAPHS = (
    Column("name", "graph", "graphs/{name}"),
    Column("vertex_types", "vertex types"),
    Column("edge_types", "edge types"),
    Column("retention", "retention"),
)
_LIST = listing("SHOW GRAPHS", _GRAPHS, "There are no property graphs.")
_WIDTH, _BOX = 640.0, (130.0, 44.0)
_HEIGHTS = (130.0, 320.0)
"""The height of a drawing with at most two vertex types, and with more."""
_APART = 26.0
"""The distance between the arcs of two edge types with the same ends."""


def _elements(db: Database, ask: Ask) -> Mapping[str, Any]:
    found = dicts(db, f"SELECT * FROM snapdb.elements WHERE graph = {text_literal(ask.name)}")
    described = rows(db, f"DESCRIBE GRAPH {quote(ask.name)}")
    return {"drawing": _drawing(found), "table": table_of(described, blank=True), "empty": "The graph has no elements."}


def _drawing(elements: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """Return the vertex types as boxes on an ellipse, and the edge types as arcs between them."""
    vertices = [e for e in elements if e["kind"] == "vertex"]
    height = _HEIGHTS[len(vertices) > 2]
    places: dict[str, tuple[float, float]] = {}
    for number, vertex in enumerate(vertices):
        angle = pi + 2 * pi * number / len(vertices)
        far = 0.0 if len(vertices) == 1 else 1.0
        places[vertex["element"]] = (
            _WIDTH / 2 + far * cos(angle) * (_WIDTH / 2 - _BOX[0] / 2 - 8),
            height / 2 + (18 if len(vertices) <= 2 else 0) + far * sin(angle) * (height / 2 - _BOX[1] / 2 - 30),
        )
    arcs = []
    pairs: dict[frozenset[str], int] = {}
    for edge in (e for e in elements if e["kind"] == "edge"):
        ends = frozenset((edge["source"], edge["destination"]))
        number = pairs[ends] = pairs.get(ends, -1) + 1
        arcs.append(_arc(edge, places, number))
    boxes = [
        {
            "name": v["element"],
            "key": ", ".join(v["key"] or ()),
            "features": ", ".join(v["features"] or ()),
            "x": places[v["element"]][0] - _BOX[0] / 2,
            "y": places[v["element"]][1] - _BOX[1] / 2,
            "table": v["table"],
        }
        for v in vertices
    ]
    return {"boxes": boxes, "arcs": arcs, "width": _WIDTH, "height": height, "box": _BOX}


def _arc(edge: Mapping[str, Any], places: Mapping[str, tuple[float, float]], number: int) -> Mapping[str, Any]:
    (x1, y1), (x2, y2) = places[edge["source"]], places[edge["destination"]]
    title = f"{edge['element']}: {', '.join(edge['source_key'])} → {', '.join(edge['destination_key'])}"
    if edge["source"] == edge["destination"]:
        top, wide = y1 - _BOX[1] / 2, 34 + number * _APART
        path = f"M {x1 - 22:.1f} {top:.1f} C {x1 - wide:.1f} {top - wide:.1f}, {x1 + wide:.1f} {top - wide:.1f}, "
        return {
            "path": f"{path}{x1 + 22:.1f} {top:.1f}",
            "x": x1,
            "y": top - wide * 0.75 - 4,
            "name": edge["element"],
            "title": title,
        }
    length = max(1.0, ((x2 - x1) ** 2 + (y2 - y1) ** 2) ** 0.5)
    unit_x, unit_y = (x2 - x1) / length, (y2 - y1) / length
    # The two directions of a pair bend to different sides.
    bend = (number + 1) // 2 * _APART * (1 if number % 2 else -1) * (1 if x1 < x2 or (x1 == x2 and y1 < y2) else -1)
    reach = min(_BOX[0] / 2 / max(abs(unit_x), 1e-9), _BOX[1] / 2 / max(abs(unit_y), 1e-9)) + 4
    middle_x, middle_y = (x1 + x2) / 2 - unit_y * bend * 2, (y1 + y2) / 2 + unit_x * bend * 2
    begin, end = (x1 + unit_x * reach, y1 + unit_y * reach), (x2 - unit_x * reach, y2 - unit_y * reach)
    return {
        "path": f"M {begin[0]:.1f} {begin[1]:.1f} Q {middle_x:.1f} {middle_y:.1f} {end[0]:.1f} {end[1]:.1f}",
        "x": (x1 + x2) / 2 - unit_y * bend,
        "y": (y1 + y2) / 2 + unit_x * bend - 5,
        "name": edge["element"],
        "title": title,
    }


def _snapshots(db: Database, ask: Ask) -> Mapping[str, Any]:
    found = dicts(db, f"SHOW SNAPSHOTS OF {quote(ask.name)}")
    return {"table": table(found, SNAPSHOTS), "empty": "The graph has no snapshots."}


def _retention(db: Database, ask: Ask) -> Mapping[str, Any]:
    policy = dicts(db, f"SELECT retention FROM snapdb.graphs WHERE name = {text_literal(ask.name)}")
    if not policy or policy[0]["retention"] is None:
        return {"table": None, "empty": "The graph has no retention policy."}
    statement = f"EXPIRE SNAPSHOTS OF {quote(ask.name)} BY RETENTION DRY RUN"
    found = rows(db, statement)
    return {
        "policy": policy[0]["retention"],
        "statement": statement,
        "table": table_of(found, blank=True),
        "empty": "It would remove nothing now.",
    }


PAGES = (
    Page("/graphs", "graphs", "Property graphs", (Panel("graphs", "Property graphs", _LIST, "table.html"),)),
    Page(
        "/graphs/{name}",
        "graphs",
        "Graph {name}",
        (
            Panel("elements", "Elements", _elements, "graph.html"),
            Panel("snapshots", "Snapshots", _snapshots, "table.html"),
            Panel("retention", "Retention", _retention, "retention.html"),
        ),
    ),
)

"""Snapshots on both axes: event time across, one bar each, coloured by version."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

import numpy as np

from snapdb.database import Database
from snapdb_ui.pages.page import Ask, address
from snapdb_ui.reader import dicts

_MOST = 60
"""The number of bars that are drawn."""
_LEFT, _WIDTH, _ROW = 150.0, 700.0, 22
"""The left edge of the axis, its length, and the height of a bar's row, in units of the drawing."""
_TICKS = 5


class Bar(NamedTuple):
    """The interval of event time that a snapshot covers."""

    name: str
    link: str
    y: int
    x: float
    width: float
    opens_left: bool
    opens_right: bool
    color: int
    """The number of the color, by version."""
    label: str
    title: str


class Timeline(NamedTuple):
    """The snapshots of one graph."""

    graph: str
    bars: Sequence[Bar]
    ticks: Sequence[tuple[float, str]]
    height: int
    left_out: int


def timelines_panel(db: Database, ask: Ask) -> Mapping[str, Any]:
    """Return the values of the panel with the snapshots of all graphs."""
    return {"timelines": timelines(dicts(db, "SHOW SNAPSHOTS"))}


def timelines(snapshots: Iterable[Mapping[str, Any]]) -> list[Timeline]:
    """Return a drawing for each graph, with its last snapshots."""
    graphs: dict[str, list[Mapping[str, Any]]] = {}
    for snapshot in snapshots:
        graphs.setdefault(snapshot["graph"], []).append(snapshot)
    return [_timeline(graph, members) for graph, members in sorted(graphs.items())]


def _timeline(graph: str, members: Sequence[Mapping[str, Any]]) -> Timeline:
    shown = members[-_MOST:]
    bounds = [_position(s[name]) for s in shown for name in ("from_time", "to_time") if s[name] is not None]
    least, most = (min(bounds), max(bounds)) if bounds else (0.0, 1.0)
    margin = (most - least) * 0.08 or max(1.0, abs(most) * 0.01)
    least, most = least - margin, most + margin
    versions = sorted({s["version"] for s in shown})

    def at(position: float) -> float:
        return _LEFT + _WIDTH * (position - least) / (most - least)

    bars = []
    for row, snapshot in enumerate(shown):
        begin, end = snapshot["from_time"], snapshot["to_time"]
        x1 = _LEFT if begin is None else at(_position(begin))
        x2 = _LEFT + _WIDTH if end is None else at(_position(end))
        label = f"version {snapshot['version']}" + (f" · {snapshot['tag']}" if snapshot["tag"] else "")
        covered = f"{begin or 'the beginning'} to {end or 'the end'}"
        title = f"{snapshot['name']}: {covered}, {label}, {snapshot['nodes']:,} nodes, {snapshot['edges']:,} edges"
        color = versions.index(snapshot["version"]) % 6
        link = address("snapshots", snapshot["name"])
        width = max(2.0, x2 - x1)
        bars.append(Bar(snapshot["name"], link, row * _ROW, x1, width, begin is None, end is None, color, label, title))
    dated = [str(s[name]) for s in shown for name in ("from_time", "to_time") if s[name] is not None]
    are_times = bool(dated) and all(_as_time(text) is not None for text in dated)
    steps = [least + (most - least) * step / (_TICKS - 1) for step in range(_TICKS)] if bounds else []
    ticks = [(at(step), _tick(step, are_times)) for step in steps]
    return Timeline(graph, bars, ticks, len(bars) * _ROW, len(members) - len(shown))


def _position(value: str) -> float:
    """Return an event time as a number: seconds, or the number itself."""
    moment = _as_time(str(value))
    return float(value) if moment is None else moment.timestamp()


def _as_time(text: str) -> datetime | None:
    """Return a text as a time. Years that Python does not support are the first or the last one."""
    if text.lstrip("-").isdecimal():
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return datetime.min.replace(tzinfo=UTC) if "BC" in text else datetime.max.replace(tzinfo=UTC)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _tick(position: float, is_time: bool) -> str:
    if not is_time:
        return f"{position:,.0f}"
    return str(np.datetime64(int(position), "s").astype("datetime64[D]"))

"""SHOW: what there is, a row each."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa

from snapdb.catalog import tags, versions
from snapdb.execute.listing import MOMENT, listing
from snapdb.execute.operator import Engine, Rows
from snapdb.plan.logical import ShowPlan
from snapdb.storage.commit import now
from snapdb.types import Snapshot

__all__ = ["Show", "window_text"]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

_TABLES = [("name", pa.string()), ("rows", pa.int64()), ("columns", pa.int64()), ("segments", pa.int64()),
           ("bytes", pa.int64()), ("version", pa.int64())]  # fmt: skip
_GRAPHS = [("name", pa.string()), ("vertex_types", pa.list_(pa.string())), ("edge_types", pa.list_(pa.string()))]
_SNAPSHOTS = [("name", pa.string()), ("graph", pa.string()), ("version", pa.int64()), ("from_time", pa.string()),
              ("to_time", pa.string()), ("form", pa.string()), ("nodes", pa.int64()), ("edges", pa.int64()),
              ("bytes", pa.int64()), ("created", MOMENT), ("refreshed", MOMENT), ("age", pa.string()),
              ("tag", pa.string()), ("moves", pa.string())]  # fmt: skip
_TAGS = [("name", pa.string()), ("version", pa.int64()), ("time", MOMENT)]
_VERSIONS = [("version", pa.int64()), ("time", MOMENT), ("message", pa.string()), ("tag", pa.string()),
             ("author", pa.string()), ("table", pa.string()), ("rows_added", pa.int64()),
             ("rows_removed", pa.int64())]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Show:
    """Lists one kind of thing."""

    plan: ShowPlan

    def run(self, engine: Engine) -> Rows:
        fields, rows = _LISTS[self.plan.what](engine, self.plan)
        named = 5 if self.plan.what == "VERSIONS" else 0  # versions have no name; LIKE looks at their table
        yield listing(fields, [row for row in rows if _like(row[named], self.plan.like)])
        return None


def window_text(snapshot: Snapshot) -> str:
    """A snapshot's window as its statement said it; of one that moves, where it is now too."""
    said = f"WINDOW {_length(snapshot.pin.window)}: " if snapshot.pin.window is not None else ""
    return said + _window_now(snapshot)


def _window_now(snapshot: Snapshot) -> str:
    start, stop = _bounds(snapshot)
    if stop is None:
        return "all time"
    if start is None:
        return f"AS OF {stop}"
    return f"BETWEEN {start} AND {stop}" if snapshot.window.closed else f"FROM {start} TO {stop}"


def _bounds(snapshot: Snapshot) -> tuple[str | None, str | None]:
    """The first and the last moment as they were said; ISO 8601 in UTC, or the user's integers."""
    window = snapshot.window
    stop = window.stop - 1 if window.stop is not None and window.closed else window.stop

    def text(time: int | None) -> str | None:
        if time is None or snapshot.unit == "integer":
            return None if time is None else str(time)
        return (_EPOCH + timedelta(microseconds=time)).replace(tzinfo=None).isoformat(sep=" ")

    return text(window.start), text(stop)


Listed = tuple[Sequence[tuple[str, pa.DataType]], list[Sequence[Any]]]


def _tables(engine: Engine, plan: ShowPlan) -> Listed:
    return _TABLES, [
        (t.name, t.rows, len(t.columns), len(t.segments), sum(s.bytes for s in (*t.segments, *t.deletes)), t.state)
        for t in plan.tables
    ]


def _graphs(engine: Engine, plan: ShowPlan) -> Listed:
    return _GRAPHS, [
        (g.name, [v.name for v in g.vertices], [e.name for e in g.edges])
        for g in engine.context.catalog.graphs.values()
    ]


def _snapshots(engine: Engine, plan: ShowPlan) -> Listed:
    named: dict[int, list[str]] = {}
    for tag in tags(engine.ledger):
        named.setdefault(tag.version, []).append(tag.name)
    moment = now()
    return _SNAPSHOTS, [
        (
            *_snapshot(s),
            None if s.refreshed is None else _EPOCH + timedelta(microseconds=s.refreshed),
            _age(moment - (s.refreshed or s.created)),
            ", ".join(named.get(s.version, [])) or None,
            _moves(s),
        )
        for s in engine.context.catalog.snapshots.values()
        if plan.of is None or s.graph.name.lower() == plan.of.lower()
    ]


def _snapshot(s: Snapshot) -> Sequence[Any]:
    created = _EPOCH + timedelta(microseconds=s.created)
    return (s.name, s.graph.name, s.version, *_bounds(s), s.form, s.nodes, s.edges, s.bytes, created)


def _age(microseconds: int) -> str:
    """A span of time for a person.

    >>> _age(0), _age(86_400_000_000 * 3 + 7_500_000_000)
    ('00:00', '3 days 02:05')
    """
    minutes = max(microseconds, 0) // 60_000_000
    days, minutes = divmod(minutes, 1440)
    clock = f"{minutes // 60:02}:{minutes % 60:02}"
    return f"{days} day{'' if days == 1 else 's'} {clock}" if days else clock


def _moves(snapshot: Snapshot) -> str | None:
    """What REFRESH resolves again; None when nothing moves."""
    pin = snapshot.pin
    parts = ["head"] if pin.head else []
    parts += [f"tag {pin.tag}"] if pin.tag is not None else []
    parts += [f"window {_length(pin.window)}"] if pin.window is not None else []
    return " + ".join(parts) or None


def _length(window: str | None) -> str:
    """The length of a window without the signs that SQL needs.

    >>> _length("INTERVAL '7 days'"), _length("interval (36) HOUR"), _length("400")
    ('7 days', '36 hour', '400')
    """
    return " ".join(re.sub(r"(?i)\binterval\b|['()]", " ", window or "").split()).lower()


def _tags(engine: Engine, plan: ShowPlan) -> Listed:
    found = tags(engine.ledger)
    return _TAGS, [(tag.name, tag.version, _EPOCH + timedelta(microseconds=tag.time)) for tag in found]


def _versions(engine: Engine, plan: ShowPlan) -> Listed:
    of = None if plan.of is None else plan.of.lower()
    return _VERSIONS, [
        (v.version, _EPOCH + timedelta(microseconds=v.time), v.message, v.tag, v.author, v.table, v.rows_added,
         v.rows_removed)
        for v in versions(engine.ledger)
        if of is None or (v.table or "").lower() == of
    ]  # fmt: skip


_LISTS: dict[str, Callable[[Engine, ShowPlan], Listed]] = {
    "TABLES": _tables,
    "GRAPHS": _graphs,
    "SNAPSHOTS": _snapshots,
    "TAGS": _tags,
    "VERSIONS": _versions,
}


def _like(name: str | None, pattern: str | None) -> bool:
    """SQL's LIKE: % is any text, _ any character; case does not count, as in names."""
    if pattern is None:
        return True
    expression = "".join({"%": ".*", "_": "."}.get(c, re.escape(c)) for c in pattern)
    return re.fullmatch(expression, name or "", re.IGNORECASE | re.DOTALL) is not None

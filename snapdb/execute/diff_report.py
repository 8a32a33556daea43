"""What a difference is answered with: a summary, the drift of each component, or the rows that came and went."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import astuple, dataclass
from typing import Any, Literal

import pyarrow as pa

from snapdb.catalog.listing import listing
from snapdb.execute.diff_drift import Drift, drifts
from snapdb.execute.diff_elements import Difference, ElementRows, Key, difference, replaced, row_count
from snapdb.execute.diff_rows import changed_rows
from snapdb.execute.diff_shifts import stability
from snapdb.execute.diff_side import Degrees, Side
from snapdb.execute.operator import Engine
from snapdb.relational import Session

_TEXT, _WHOLE, _REAL = pa.string(), pa.int64(), pa.float64()
_MOMENTS = [(name, _REAL) for name in ("mean_before", "mean_after", "std_before", "std_after", "psi")]
_SUMMARY = [
    ("element", _TEXT),
    ("kind", _TEXT),
    *((name, _WHOLE) for name in ("added", "removed", "changed", "before", "after")),
    *((name, _REAL) for name in ("degree_before", "degree_after", "degree_psi")),
    ("feature", _TEXT),
    *_MOMENTS,
]
_FEATURES = [("element", _TEXT), ("feature", _TEXT), ("component", _WHOLE), *_MOMENTS]


@dataclass(frozen=True, slots=True)
class _Element:
    """An element of either side, or of both."""

    key: Key
    name: str
    """As it is written in the later one."""
    before: ElementRows | None
    after: ElementRows | None
    difference: Difference


@dataclass(frozen=True, slots=True)
class _Counts:
    """How much of an element differs."""

    added: int
    removed: int
    changed: int
    before: int
    after: int


def report(
    engine: Engine, session: Session, before: Side, after: Side, detail: Literal["SUMMARY", "ROWS", "FEATURES"]
) -> Iterator[pa.RecordBatch]:
    """The batches of the answer, at least one."""
    elements = _elements(session, before, after)
    match detail:
        case "ROWS":
            found = [(e.name, e.before, e.after, e.difference) for e in elements]
            yield from changed_rows(session, found)
        case "FEATURES":
            yield listing(_FEATURES, _features(engine, before, after, elements))
        case "SUMMARY":
            yield listing(_SUMMARY, list(_summary(engine, session, before, after, elements)))


def _elements(session: Session, before: Side, after: Side) -> list[_Element]:
    """Those of the later side in its order, then those that went."""
    names = {Key("vertex", e.name.lower()): e.name for side in (before, after) for e in side.graph.vertices}
    names |= {Key("edge", e.name.lower()): e.name for side in (before, after) for e in side.graph.edges}
    keys = sorted(dict.fromkeys((*after.rows, *before.rows)), key=lambda key: key.kind == "edge")
    found = []
    for key in keys:
        then, now = before.rows.get(key), after.rows.get(key)
        found.append(_Element(key, names[key], then, now, difference(session, then, now)))
    return found


def _summary(
    engine: Engine, session: Session, before: Side, after: Side, elements: list[_Element]
) -> Iterator[tuple[Any, ...]]:
    by_key = {e.key: e for e in elements}
    for e in elements:
        engine.check_stopped()
        engine.report(f"comparing {e.name}", None)
        n = _counts(session, before, after, e)
        counts = (n.added, n.removed, n.changed, n.before, n.after)
        if e.key.kind == "edge":
            yield (e.name, "edge", *counts, *_degree_shift(before, after, e, by_key), *[None] * 6)
        else:
            yield (e.name, "vertex", *counts, None, None, None, *_greatest(before, after, e))


def _counts(session: Session, before: Side, after: Side, e: _Element) -> _Counts:
    """How many rows came, went and changed. What is known of the sides spares counting where it can."""
    then = before.count(e.key) if e.before else 0
    now = after.count(e.key) if e.after else 0
    if not e.difference.went:
        came = now - then
    elif not e.difference.came:
        came = 0
    else:
        came = row_count(session, e.difference.came)
    went = then + came - now
    changed = replaced(session, e.difference) if came and went else 0
    return _Counts(came - changed, went - changed, changed, then, now)


def _degree_shift(
    before: Side, after: Side, e: _Element, by_key: Mapping[Key, _Element]
) -> tuple[float | None, float | None, float | None]:
    """Mean in-degree on each side, and the stability index of its distribution."""
    if _untouched(e) and _same_ends(before, after, e, by_key):
        mean = _mean(after, e)
        return mean, mean, None if mean is None else 0.0
    then: Degrees | None = before.degrees(e.key.name) if e.before else None
    now: Degrees | None = after.degrees(e.key.name) if e.after else None
    psi = stability(then.bins, now.bins) if then and now else None
    return then.mean if then else None, now.mean if now else None, psi


def _same_ends(before: Side, after: Side, e: _Element, by_key: Mapping[Key, _Element]) -> bool:
    """Whether the destinations are the same vertices."""
    then, now = before.graph.edge(e.name), after.graph.edge(e.name)
    if then is None or now is None or then.destination != now.destination:
        return False
    ends = by_key[Key("vertex", now.destination.lower())]
    return then.destination_key == now.destination_key and _untouched(ends)


def _mean(side: Side, e: _Element) -> float | None:
    edge = side.graph.edge(e.name)
    assert edge is not None
    nodes = side.count(Key("vertex", edge.destination.lower()))
    return side.count(e.key) / nodes if nodes else None


def _greatest(before: Side, after: Side, e: _Element) -> tuple[Any, ...]:
    """The component that drifted most, and how; where no value can have moved, only that."""
    element = e.after.element if e.after else None
    if not element or not element.features or not e.before:
        return (None,) * 6
    if _same_values(before, after, e):
        return (*[None] * 5, 0.0)
    found = _drifts(before, after, e)
    drift = max(found, key=lambda d: (d.psi is not None, d.psi or 0.0), default=None)
    if drift is None:
        return (None,) * 6
    wide = sum(d.feature == drift.feature for d in found) > 1
    return (f"{drift.feature}[{drift.component}]" if wide else drift.feature, *astuple(drift)[2:])


def _features(engine: Engine, before: Side, after: Side, elements: list[_Element]) -> list[tuple[Any, ...]]:
    rows: list[tuple[Any, ...]] = []
    for e in elements:
        if e.key.kind == "vertex":
            engine.report(f"comparing the features of {e.name}", None)
            rows += [(e.name, *astuple(drift)) for drift in _drifts(before, after, e)]
    return rows


def _drifts(before: Side, after: Side, e: _Element) -> list[Drift]:
    """Every component of every feature of a vertex type."""
    same = _same_values(before, after, e)
    then = before.values(e.key.name) if e.before else {}
    now = then if same else after.values(e.key.name) if e.after else {}
    names = list(dict.fromkeys((*now, *then)))
    return [d for name in names for d in drifts(name, then.get(name), now.get(name), same=same)]


def _same_values(before: Side, after: Side, e: _Element) -> bool:
    """Whether the vertices are the same, and so are the files of their features."""
    return _untouched(e) and before.origin(e.key.name) == after.origin(e.key.name)


def _untouched(e: _Element) -> bool:
    return e.before is not None and e.after is not None and not (e.difference.came or e.difference.went)

"""Which edges of a topology a snapshot lets in: by their times as far as these tell, by reading tables for the rest."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from snapdb.execute.graph_data import EdgeData
from snapdb.graph.view import Adjacency
from snapdb.kernels.admit import STATIC, Admission, admitted
from snapdb.kernels.prefix import prefix_degrees
from snapdb.plan.snapshots import CreateSnapshotPlan
from snapdb.relational import Session
from snapdb.types import EdgeElement, Filter, Window

Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Limits:
    """What leaves edges of a type out, beside their ends."""

    window: Window
    """The snapshot's, narrowed by the conditions that times tell."""
    filters: tuple[Filter, ...]
    """The other conditions."""

    def plain(self, data: EdgeData) -> bool:
        """Whether nothing but the end of the window leaves edges out."""
        ends = (data.source.rows, data.destination.rows)
        chosen = bool(self.filters) or any(rows.selective for rows in ends)
        return self.window.start is None and data.rows.element.event_end is None and not chosen


def limits_of(plan: CreateSnapshotPlan, element: EdgeElement, adjacency: Adjacency | None = None) -> Limits:
    """What leaves edges of a type out; `adjacency` has them, where times are to be relied upon."""
    window, filters, pushed = plan.window, plan.filters_of(element.name), plan.bounds_of(element.name)
    # An integer that stands for "always there" is a time like others to a condition.
    if not pushed.filters or (pushed.start is not None and adjacency is not None and _may_be_static(adjacency)):
        return Limits(window, filters)
    starts = [moment for moment in (window.start, pushed.start) if moment is not None]
    stops = [moment for moment in (window.stop, pushed.stop) if moment is not None]
    narrowed = Window(max(starts, default=None), min(stops, default=None))
    return Limits(narrowed, tuple(f for f in filters if f not in pushed.filters))


def admission(
    session: Session, limits: Limits, data: EdgeData, adjacency: Adjacency, alive: Mapping[str, Bools | None]
) -> Admission | None:
    """Which edges of the topology the window and the filters let in, just those that SQL sees; None: all."""
    element, window = data.rows.element, limits.window
    timed = element.event_time is not None and (window.start is not None or window.stop is not None)
    ends = (data.destination, data.source)
    near, far = (alive[e.rows.element.name] if e.rows.selective else None for e in ends)
    kept = _passing(session, data, limits.filters) if limits.filters else None
    if near is None and far is None and kept is None:
        if not timed:
            return None
        if window.start is None and adjacency.until is None:
            assert adjacency.time is not None
            assert window.stop is not None
            degrees = prefix_degrees(adjacency.rows, adjacency.time, window.stop)
            return Admission(np.empty(0, np.uint64), degrees, int(degrees.sum(dtype=np.int64)), True)
    return admitted(
        adjacency.rows,
        time=adjacency.time if timed else None,
        until=adjacency.until if timed else None,
        edge_id=adjacency.edge_id,
        start=window.start,
        stop=window.stop,
        until_after=window.until_after,
        near_alive=near,
        far_alive=far,
        kept_edges=kept,
    )


def _may_be_static(adjacency: Adjacency) -> bool:
    return any(part is not None and bool((part == STATIC).any()) for part in adjacency.time or ())


def _passing(session: Session, data: EdgeData, filters: tuple[Filter, ...]) -> Bools:
    """[edge ids] Which edges pass the filters of their own type."""
    whole = data.rows.whole
    element = dataclasses.replace(whole.element, on_dangling="ERROR")  # the topology has left those out
    rows = dataclasses.replace(whole, filters=filters, element=element)
    passing = np.zeros(data.rows.table.next_row, np.bool_)
    for batch in session.reader(f"SELECT e_id FROM ({rows.sql})"):
        passing[batch.column(0).to_numpy()] = True
    return passing

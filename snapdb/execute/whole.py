"""A snapshot opened whole: all its elements, with the births of vertices, for readers that are no statement."""

from __future__ import annotations

from dataclasses import replace

from snapdb.execute.element_columns import Reading, births
from snapdb.execute.operator import Engine
from snapdb.graph import OpenSnapshot, open_snapshot
from snapdb.types import Snapshot


def open_whole(engine: Engine, snapshot: Snapshot) -> OpenSnapshot:
    """The snapshot as arrays; its files stay until the lease is released.

    Raises:
        CorruptError: a file of it is missing or damaged.
        CommitConflict: it was replaced or dropped at this moment.
    """
    opened = open_snapshot(engine.home, engine.ledger, snapshot)
    bearing = [vertex.name for vertex in snapshot.graph.vertices if vertex.event_time]
    if not bearing:
        return opened
    try:
        reading = Reading.of(engine, snapshot, opened.view, opened.id_maps)
        born = {name: births(reading, name) for name in bearing}
    except BaseException:
        opened.lease.release()
        raise
    return replace(opened, view=replace(opened.view, born=born))

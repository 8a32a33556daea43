"""Edges sorted by source, which are stored when they are first needed, because a snapshot has only IN rows."""

from __future__ import annotations

from collections.abc import Collection
from functools import partial

from snapdb.builders.context import BuildContext
from snapdb.graph.adjacency import outgoing_artifact, serves_outgoing, write_outgoing
from snapdb.graph.layout import read_layout
from snapdb.storage.artifacts import find_or_build
from snapdb.types import Snapshot

_WORTH = 1_000_000
"""The minimum number of edges for which OUT rows are stored on disk. Fewer edges are sorted in memory on demand."""


def store_outgoing(context: BuildContext, snapshot: Snapshot, edges: Collection[str]) -> bool:
    """Store the OUT rows of large edge types, if the database is writable. Returns whether all of them are stored.

    Args:
        context: The context of the build.
        snapshot: The snapshot.
        edges: The names of the edge types.
    """
    if context.store.db_dir.read_only or not edges:
        return False
    layout = read_layout(context.store.db_dir, snapshot)
    counts, types = {v.name: v.count for v in layout.vertices}, {e.name: e.type for e in snapshot.graph.edges}
    stored = 0
    for edge in layout.edges:
        if edge.name in edges and edge.edges >= _WORTH and serves_outgoing(edge):
            type_, what = types[edge.name], f"sorting {edge.name} by source"
            build = partial(
                write_outgoing,
                context.store.db_dir.path,
                edge,
                (counts[type_.source], counts[type_.destination]),
                report=partial(context.step, what),
            )
            find_or_build(context.store.catalog_db, outgoing_artifact(edge), build)
            stored += 1
    return stored == len(edges)

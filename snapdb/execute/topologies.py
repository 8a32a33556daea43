"""The topology of an edge type at a version: found, patched from the nearest one, or built from the table."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from snapdb.catalog.differences import rows_beyond
from snapdb.execute.dense_edges import DenseEdges, edge_rows
from snapdb.execute.earlier import edge_facts, edges_at, fields, newest
from snapdb.execute.edge_changes import Change, edge_change
from snapdb.execute.graph_data import EdgeData
from snapdb.execute.operator import Engine
from snapdb.relational import Session
from snapdb.storage.artefacts import Artefact, Found, digest_of, find, find_or_build, nearest
from snapdb.storage.disk import read_manifest
from snapdb.storage.patches import build_patch, read_patch, write_merged, write_patch
from snapdb.storage.topology import build_rows, read_rows

MERGE_SHARE = 0.1
"""Of the root's edges: a patch that holds more is merged into a new root, for sampling through it costs too much."""
REBUILD_SHARE = 0.25
"""Of the root's edges: when more came and went, sorting all of them anew is as fast."""


@dataclass(frozen=True, slots=True)
class Topology:
    """Where the edges of a version are."""

    root: Path
    patch: Path | None
    """What differs from the root; None: nothing."""
    edges: int
    skipped: int
    """Dangling edges, which are left out."""
    work: str
    """What it took, for a person."""
    written: int = 0
    """Bytes."""


def topology(engine: Engine, session: Session, data: EdgeData, *, full: bool = False) -> Topology:
    """The adjacency of one edge type with all the edges of its version.

    Args:
        full: Build it from the table, whatever is there.

    Raises:
        DataError: an edge dangles, or has no time or weight; it counts them and shows three.
    """
    wanted = wanted_topology(data)
    if full:
        wanted = wanted.anew()
    elif found := find(engine.home, engine.ledger, wanted.digest):
        return _found(found, "found")
    elif patched := _patched(engine, session, data, wanted):
        return patched
    return _found(_built(engine, session, data, wanted), "built")


def wanted_topology(data: EdgeData) -> Artefact:
    """What its topology is, wherever it is."""
    element, table = data.rows.element, data.rows.table
    timed = [element.event_time, element.event_end, element.weight]
    kept = [fields(table, timed), element.nulls_static]
    return Artefact(
        kind="topology",
        digest=digest_of("topology", 2, edge_facts(data, state=True), kept),
        folder=f"topology/{table.id}",
        family=digest_of("topology", 2, edge_facts(data, state=False), kept),
        version=newest(data, data.source, data.destination),
    )


def check_new(engine: Engine, session: Session, data: EdgeData) -> None:
    """Nothing when its topology could be made: the edges that would be looked at then are looked at now.

    Raises:
        DataError: as `topology` does.
    """
    wanted = wanted_topology(data)
    if find(engine.home, engine.ledger, wanted.digest):
        return
    base = nearest(engine.home, engine.ledger, wanted, whole=False)
    before = None if base is None else edges_at(engine, data, base.version)
    rows: str | None = edge_rows(data)
    if before is not None and _only_edges_changed(session, before, data):
        rows = rows_beyond(session, data.rows.root, data.rows.table, before.rows.table)
    for _ in DenseEdges(session, data, rows) if rows is not None else ():
        engine.check_stopped()


def _found(found: Found, work: str) -> Topology:
    facts = found.facts
    written = 0 if work == "found" else sum(int(file["bytes"]) for file in facts["files"].values())
    root, patch = (found.path, None) if found.base is None else (found.base, found.path)
    return Topology(root, patch, facts["edges"], facts["skipped"], work, written)


def _built(engine: Engine, session: Session, data: EdgeData, wanted: Artefact) -> Found:
    what = f"building the topology of {data.rows.element.name}"

    def build(directory: Path) -> dict[str, Any]:
        engine.report(what, None)
        edges = DenseEdges(session, data, edge_rows(data))
        facts = build_rows(
            edges,
            data.destination.id_map.limit,
            data.source.id_map.limit,
            data.rows.table.rows,
            data.rows.table.next_row,
            directory,
            report=lambda share: engine.step(what, share),
        )
        return facts | {"skipped": edges.skipped}

    return find_or_build(engine.home, engine.ledger, wanted, build)


def _patched(engine: Engine, session: Session, data: EdgeData, wanted: Artefact) -> Topology | None:
    """The nearest one with what changed since; None when there is none, or when too much changed."""
    base = nearest(engine.home, engine.ledger, wanted, whole=False)
    before = None if base is None else edges_at(engine, data, base.version)
    if (
        base is not None
        and base.base is not None
        and (before is None or not _only_edges_changed(session, before, data))
    ):
        base = nearest(engine.home, engine.ledger, wanted)
        before = None if base is None else edges_at(engine, data, base.version)
    if base is None or before is None or rows_apart(before, data) > REBUILD_SHARE * base.facts["edges"]:
        return None
    engine.report(f"finding what changed in {data.rows.element.name}", None)
    directory = base.base or base.path
    root = read_rows(directory)
    former = None if base.base is None else read_patch(base.path, root)
    limits = (data.source.id_map.limit, data.destination.id_map.limit)
    change = edge_change(session, before, data, root, former, base.facts["skipped"], limits)
    last = (base.facts if base.base is None else read_manifest(directory)).get("last_time")
    patch = build_patch(root, former, change.removed, change.added, limits[1], limits[0], last_time=last)
    edges = base.facts["edges"] - change.removed.edge_id.size + change.added.edge_id.size
    facts = {"edges": edges, "skipped": change.skipped}
    wider = patch.rows.indices.dtype != root.indices.dtype
    if wider or patch.rows.indices.size > MERGE_SHARE * root.indices.size:
        engine.report(f"merging the topology of {data.rows.element.name}", None)
        merged = find_or_build(
            engine.home, engine.ledger, wanted, lambda d: write_merged(root, patch, limits[1], d) | facts
        )
        return _found(merged, _told("merged", change))
    made = find_or_build(engine.home, engine.ledger, wanted, lambda d: write_patch(patch, d) | facts, directory)
    return _found(made, _told("patched", change))


def _only_edges_changed(session: Session, before: EdgeData, after: EdgeData) -> bool:
    """Whether no edge came or went by a vertex that did: only a root tells which edges a vertex has."""
    if after.rows.element.on_dangling != "ERROR":
        return False
    ends = ((before.source, after.source), (before.destination, after.destination))
    return all(
        new.rows.element.on_duplicate == "ERROR"
        and rows_beyond(session, old.rows.root, old.rows.table, new.rows.table) is None
        for old, new in ends
    )


def rows_apart(one: EdgeData, other: EdgeData) -> int:
    """An upper bound of the rows that came or went between two states of a table."""
    first, second = one.rows.table, other.rows.table
    grown = abs(first.next_row - second.next_row)
    return grown + abs((first.next_row - first.rows) - (second.next_row - second.rows))


def _told(done: str, change: Change) -> str:
    return f"{done}: {change.added.edge_id.size:,} edges came, {change.removed.edge_id.size:,} went"

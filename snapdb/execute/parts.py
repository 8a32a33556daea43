"""The shared parts of snapshots, found by what they follow from, or checked and built: topologies and features."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

from snapdb.execute.graph_data import EdgeData, VertexData, check_edges, check_vertices
from snapdb.execute.operator import Engine
from snapdb.relational import Session
from snapdb.storage.artefacts import digest_of, find_or_build
from snapdb.storage.features import write_features, write_target
from snapdb.storage.topology import read_edges, sort_edges, write_rows

__all__ = ["edge_features", "topology", "vertex_features"]


def topology(engine: Engine, session: Session, data: EdgeData) -> Path:
    """The adjacency of one edge type with all the edges of its version."""
    table, element = data.rows.table, data.rows.element
    digest = digest_of("topology", 1, _ends(data), _facts(element, "event_time", "weight"), [table.id, table.state])

    def build(directory: Path) -> dict[str, Any]:
        engine.report(f"building the topology of {element.name}", None)
        check_edges(session, data)
        edges = read_edges(session, data.dense)
        rows = sort_edges(edges, data.destination.id_map.limit, data.source.id_map.limit)
        return write_rows(rows, directory)

    return find_or_build(engine.home, engine.ledger, "topology", digest, f"topology/{table.id}", build)


def vertex_features(engine: Engine, session: Session, data: VertexData) -> Path | None:
    """The features and target of one vertex type; None when the graph names neither."""
    element, table = data.rows.element, data.rows.table
    if not element.features and element.target is None:
        check_vertices(session, data)
        return None
    digest = digest_of("vertex features", 1, _vertices(data), _facts(element, "features", "target"))

    def build(directory: Path) -> dict[str, Any]:
        engine.report(f"building the features of {element.name}", None)
        check_vertices(session, data)
        facts = write_features(session, data.features, element.features, directory)
        if element.target is not None:
            facts |= write_target(session, data.features, element.target, directory)
        return facts

    return find_or_build(engine.home, engine.ledger, "features", digest, f"features/{table.id}", build)


def edge_features(engine: Engine, session: Session, data: EdgeData) -> Path | None:
    """The features of one edge type; None when the graph names none."""
    element, table = data.rows.element, data.rows.table
    if not element.features:
        return None
    digest = digest_of("edge features", 1, [table.id, table.state], _ends(data), _facts(element, "features"))

    def build(directory: Path) -> dict[str, Any]:
        engine.report(f"building the features of {element.name}", None)
        return write_features(session, data.features, element.features, directory)

    return find_or_build(engine.home, engine.ledger, "features", digest, f"features/{table.id}", build)


def _vertices(data: VertexData) -> list[Any]:
    """What decides which rows, with which dense ids, a vertex type has."""
    table, element = data.rows.table, data.rows.element
    return [table.id, table.state, data.id_map.id, data.id_map.limit, element.on_duplicate]


def _ends(data: EdgeData) -> list[Any]:
    element = data.rows.element
    keys = _facts(element, "source_key", "destination_key", "on_dangling")
    return [_vertices(data.source), _vertices(data.destination), keys]


def _facts(element: Any, *names: str) -> list[Any]:
    every = dataclasses.asdict(element)
    return [every[name] for name in names]

"""How a snapshot keeps what is no plain number: the classes behind a target's codes, and widths of sparse features."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from snapdb.graph.layout import SnapshotLayout, VertexLayout
from snapdb.storage.artifacts import digest_of
from snapdb.storage.catalog_db.db_dir import DatabaseDir
from snapdb.storage.manifests import PublishedDir
from snapdb.types import PropertyGraph

_LISTED = 1000
"""Classes up to which a lineage holds their texts; of more it holds the number and the digest."""


def classes_of(db_dir: DatabaseDir, layout: VertexLayout) -> tuple[str, ...] | None:
    """The text behind each code of a vertex type's target; None where it is a number, or where there is none."""
    return _classes(_facts(db_dir, layout)) if layout.target else None


def codings(db_dir: DatabaseDir, graph: PropertyGraph, layout: SnapshotLayout) -> dict[str, Any]:
    """The classes and widths of a snapshot as plain values for JSON, by vertex type: a lineage keeps them."""
    classes: dict[str, Any] = {}
    widths: dict[str, dict[str, int]] = {}
    for vertex in layout.vertices:
        element = graph.vertex(vertex.name)
        sparse = [] if element is None else [spec.name for spec in element.features if spec.sparse]
        facts = _facts(db_dir, vertex) if vertex.target or sparse else {}
        if vertex.target and (names := _classes(facts)) is not None:
            classes[vertex.name] = _told(names)
        if sparse:
            widths[vertex.name] = {name: facts["widths"][name] for name in sparse}
    return {"classes": classes, "widths": widths}


def _facts(db_dir: DatabaseDir, layout: VertexLayout) -> dict[str, Any]:
    """The manifest that holds for the type: of a patch, its own."""
    directory = layout.features if layout.patch is None else layout.patch
    return {} if directory is None else PublishedDir(db_dir.inside(directory)).manifest


def _classes(facts: dict[str, Any]) -> tuple[str, ...] | None:
    names = (facts.get("target") or {}).get("classes")
    return None if names is None else tuple(names)


def _told(names: Sequence[str]) -> dict[str, Any]:
    listed = {"names": list(names)} if len(names) <= _LISTED else {}
    return {"count": len(names), "digest": digest_of("classes", list(names)), **listed}

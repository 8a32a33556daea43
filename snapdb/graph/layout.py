"""The layout of a snapshot, as its manifest records it: the arrays of each element, its classes and its widths."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from snapdb.errors import CorruptError
from snapdb.storage.artifacts import digest_of
from snapdb.storage.catalog_db.db_dir import DatabaseDir
from snapdb.storage.manifests import PublishedDir
from snapdb.types import PropertyGraph

Codings = Mapping[str, Mapping[str, object]]
"""`classes` and `widths` by vertex type, as a lineage records them."""

_LISTED = 1000
"""The number of classes up to which a lineage has their names; of more it has the number and the digest."""


@dataclass(frozen=True, slots=True)
class VertexLayout:
    """The arrays of one vertex type. Paths are relative to the database directory."""

    name: str
    """The name of the vertex type."""
    count: int
    """The number of dense ids, 0 ≤ id < count."""
    nodes: int
    """The number of vertices in the snapshot. When it is less than count, `alive-<name's index>.npy` marks them."""
    map_id: int
    """The id of the id map."""
    key: tuple[str, ...]
    """The key columns."""
    features: str | None
    """The directory of features and targets; None: it has none."""
    feature_names: tuple[str, ...]
    """The names of its features."""
    target: bool
    """Whether `target.npy` is among the files of the features."""
    patch: str | None = None
    """A directory with the features and targets of vertices that changed since `features` was built, or None."""
    history: tuple[str, ...] = ()
    """Directories of features with a history, in the order of `history_names`."""
    history_names: tuple[str, ...] = ()
    """The names of features with a history."""


@dataclass(frozen=True, slots=True)
class EdgeLayout:
    """The arrays of one edge type. Paths are relative to the database directory."""

    name: str
    """The name of the edge type."""
    form: str
    """The encoding of the adjacency, a `Form`: its files are `ends-<index>.npy`, `live-<index>.npy` or
    `rows-<index>-*.npy`; 'full' has none."""
    edges: int
    """The number of edges in the snapshot."""
    topology: str
    """The directory of the topology."""
    features: str | None
    """The directory of features; None: it has none."""
    feature_names: tuple[str, ...]
    """The names of its features."""
    patch: str | None = None
    """A directory with the rows that differ from those of `topology`, or None."""
    feature_patch: str | None = None
    """A directory with the features of edges that were added after `features` was built, or None."""
    reason: str = ""
    """The reason for the encoding, for the user."""
    bytes: int = 0
    """The bytes of its files in the snapshot's directory."""
    before: int | None = None
    """Under 'ends': exactly the edges before this time are in the snapshot; None: another condition decides."""


@dataclass(frozen=True, slots=True)
class SnapshotLayout:
    """Every element of a snapshot, in the graph's order."""

    vertices: tuple[VertexLayout, ...]
    edges: tuple[EdgeLayout, ...]

    @property
    def directories(self) -> tuple[str, ...]:
        """The shared directories that the snapshot uses."""
        named: list[str | None] = []
        for vertex in self.vertices:
            named += [vertex.features, vertex.patch, *vertex.history]
        for edge in self.edges:
            named += [edge.topology, edge.patch, edge.features, edge.feature_patch]
        return tuple(dict.fromkeys(path for path in named if path is not None))


def classes_of(db_dir: DatabaseDir, layout: VertexLayout) -> tuple[str, ...] | None:
    """The text of each code of a vertex type's target; None where it is a number, or where there is none."""
    return _classes(_manifest_of(db_dir, layout)) if layout.target else None


def codings(db_dir: DatabaseDir, graph: PropertyGraph, layout: SnapshotLayout) -> Codings:
    """The classes and widths of a snapshot by vertex type, as plain values for JSON, for a lineage."""
    classes: dict[str, dict[str, object]] = {}
    widths: dict[str, dict[str, int]] = {}
    for vertex in layout.vertices:
        element = graph.vertex(vertex.name)
        sparse = [] if element is None else [spec.name for spec in element.features if spec.sparse]
        manifest = _manifest_of(db_dir, vertex) if vertex.target or sparse else {}
        if vertex.target and (names := _classes(manifest)) is not None:
            classes[vertex.name] = _class_summary(names)
        if sparse:
            widths[vertex.name] = {name: manifest["widths"][name] for name in sparse}
    return {"classes": classes, "widths": widths}


def _manifest_of(db_dir: DatabaseDir, layout: VertexLayout) -> dict[str, Any]:
    """The manifest that applies to the type, which is that of its patch where it has one."""
    directory = layout.features if layout.patch is None else layout.patch
    return {} if directory is None else PublishedDir(db_dir.inside(directory)).manifest


def _classes(manifest: dict[str, Any]) -> tuple[str, ...] | None:
    """The classes that a manifest records, or None."""
    names = (manifest.get("target") or {}).get("classes")
    return None if names is None else tuple(names)


def _class_summary(names: Sequence[str]) -> dict[str, Any]:
    """The number and digest of classes, and their names where they are few."""
    # A lineage is part of every batch, and the names of many classes would outweigh it.
    listed = {"names": list(names)} if len(names) <= _LISTED else {}
    return {"count": len(names), "digest": digest_of("classes", list(names)), **listed}


def damaged_file(path: Path) -> CorruptError:
    """The error for a file that does not fit the manifest or the other files."""
    return CorruptError(
        f"{path} is damaged; restore it from a backup or create the snapshot again", code="damaged-snapshot"
    )

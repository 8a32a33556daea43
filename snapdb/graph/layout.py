"""What the manifest in a snapshot's directory has: where each element's arrays are, its classes and its widths."""

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
"""Of `classes` and of `widths`, by vertex type, what a lineage records."""

_LISTED = 1000
"""Classes up to which a lineage holds their texts; of more it holds the number and the digest."""


@dataclass(frozen=True, slots=True)
class VertexLayout:
    """Where one vertex type lies. Paths are relative to the database directory."""

    name: str
    count: int
    """Dense ids are 0 ≤ id < count."""
    nodes: int
    """How many of them are in the snapshot. When fewer than count, `alive-<name's index>.npy` tells which."""
    map_id: int
    key: tuple[str, ...]
    features: str | None
    feature_names: tuple[str, ...]
    target: bool
    """`target.npy` stands beside the features."""
    patch: str | None = None
    """A directory with the features and targets of those that changed since `features` was built."""
    history: tuple[str, ...] = ()
    """Directories of features that change in time, in the order of `history_names`."""
    history_names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class EdgeLayout:
    """Where one edge type lies."""

    name: str
    form: str
    """A `Form`; its files are `ends-<index>.npy`, `live-<index>.npy` or `rows-<index>-*.npy`, and none for 'full'."""
    edges: int
    topology: str
    features: str | None
    feature_names: tuple[str, ...]
    patch: str | None = None
    """A directory with the rows that differ from those of `topology`."""
    feature_patch: str | None = None
    """A directory with the features of edges that were added after `features` was built."""
    reason: str = ""
    """Why it has this form, for a person."""
    bytes: int = 0
    """Of its own files in the snapshot's directory."""
    before: int | None = None
    """Of 'ends': the edges before this moment are in it, and no others are out; None: something else decided."""


@dataclass(frozen=True, slots=True)
class SnapshotLayout:
    """Every element of a snapshot, in the graph's order."""

    vertices: tuple[VertexLayout, ...]
    edges: tuple[EdgeLayout, ...]

    @property
    def directories(self) -> tuple[str, ...]:
        """The shared directories that it stands on."""
        named: list[str | None] = []
        for vertex in self.vertices:
            named += [vertex.features, vertex.patch, *vertex.history]
        for edge in self.edges:
            named += [edge.topology, edge.patch, edge.features, edge.feature_patch]
        return tuple(dict.fromkeys(path for path in named if path is not None))


def classes_of(db_dir: DatabaseDir, layout: VertexLayout) -> tuple[str, ...] | None:
    """The text behind each code of a vertex type's target; None where it is a number, or where there is none."""
    return _classes(_manifest_of(db_dir, layout)) if layout.target else None


def codings(db_dir: DatabaseDir, graph: PropertyGraph, layout: SnapshotLayout) -> Codings:
    """The classes and widths of a snapshot as plain values for JSON, by vertex type: a lineage keeps them."""
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
    """The manifest that holds for the type: of a patch, its own."""
    directory = layout.features if layout.patch is None else layout.patch
    return {} if directory is None else PublishedDir(db_dir.inside(directory)).manifest


def _classes(manifest: dict[str, Any]) -> tuple[str, ...] | None:
    names = (manifest.get("target") or {}).get("classes")
    return None if names is None else tuple(names)


def _class_summary(names: Sequence[str]) -> dict[str, Any]:
    listed = {"names": list(names)} if len(names) <= _LISTED else {}
    return {"count": len(names), "digest": digest_of("classes", list(names)), **listed}


def damaged_file(path: Path) -> CorruptError:
    """The error for a file that does not fit the manifest or the other files."""
    return CorruptError(
        f"{path} is damaged; restore it from a backup or create the snapshot again", code="damaged-snapshot"
    )

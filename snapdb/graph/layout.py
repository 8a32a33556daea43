"""The layout of a snapshot in its manifest: each element's arrays, classes and widths."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from snapdb.errors import CorruptError, moved
from snapdb.storage.artifacts import digest_of
from snapdb.storage.catalog_db.codec import decode
from snapdb.storage.catalog_db.connection import CatalogDb
from snapdb.storage.catalog_db.db_dir import DatabaseDir
from snapdb.storage.manifests import PublishedDir
from snapdb.types import PropertyGraph, Snapshot

Codings = Mapping[str, Mapping[str, object]]
"""`classes` and `widths` by vertex type, as recorded in a lineage."""

_LISTED = 1000
"""The maximum number of classes whose names a lineage lists. For more classes, it contains only their number and
digest."""


@dataclass(frozen=True, slots=True)
class VertexLayout:
    """The arrays of a vertex type. Paths are relative to the database directory."""

    name: str
    """The name of the vertex type."""
    count: int
    """The number of dense ids. Every id is in 0 ≤ id < count."""
    nodes: int
    """The number of vertices in the snapshot. If it is less than `count`, `alive-<index of the type>.npy` marks
    them."""
    map_id: int
    """The id of the id map."""
    key: tuple[str, ...]
    """The key columns."""
    features: str | None
    """The directory of features and targets, or None."""
    feature_names: tuple[str, ...]
    """The names of the features."""
    target: bool
    """Whether the feature files include `target.npy`."""
    patch: str | None = None
    """The directory with the features and targets of vertices that changed after `features` was built, or None."""
    history: tuple[str, ...] = ()
    """The directories of features with a history, in the order of `history_names`."""
    history_names: tuple[str, ...] = ()
    """The names of features with a history."""


@dataclass(frozen=True, slots=True)
class EdgeLayout:
    """The arrays of an edge type. Paths are relative to the database directory."""

    name: str
    """The name of the edge type."""
    form: str
    """The encoding of the adjacency, a `Form`. Its files are `ends-<index>.npy`, `live-<index>.npy` or
    `rows-<index>-*.npy`. 'full' has no files."""
    edges: int
    """The number of edges in the snapshot."""
    topology: str
    """The directory of the topology."""
    features: str | None
    """The directory of features, or None."""
    feature_names: tuple[str, ...]
    """The names of the features."""
    patch: str | None = None
    """The directory with the rows that differ from those of `topology`, or None."""
    feature_patch: str | None = None
    """The directory with the features of edges that were added after `features` was built, or None."""
    reason: str = ""
    """The reason for choosing the encoding, for the user."""
    bytes: int = 0
    """The size of its files in the snapshot's directory, in bytes."""
    before: int | None = None
    """Under 'ends', the snapshot contains exactly the edges before this time. None if another condition applies."""


@dataclass(frozen=True, slots=True)
class SnapshotLayout:
    """All elements of a snapshot, in graph order."""

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
    """Return the text of each target code of a vertex type, or None if the target is a number or does not exist."""
    return _classes(_manifest_of(db_dir, layout)) if layout.target else None


def codings(db_dir: DatabaseDir, graph: PropertyGraph, layout: SnapshotLayout) -> Codings:
    """Return the classes and widths of a snapshot by vertex type, as plain JSON values for a lineage."""
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
    """Return the manifest that applies to the type.

    This is the delta's manifest if there is a delta, otherwise that of the features.
    """
    directory = layout.features if layout.patch is None else layout.patch
    return {} if directory is None else PublishedDir(db_dir.inside(directory)).manifest


def _classes(manifest: dict[str, Any]) -> tuple[str, ...] | None:
    """Return the classes that a manifest records, or None."""
    names = (manifest.get("target") or {}).get("classes")
    return None if names is None else tuple(names)


def _class_summary(names: Sequence[str]) -> dict[str, Any]:
    """Return the number and digest of classes, and their names if there are few."""
    # A lineage is part of every batch, and would become too large with the names of many classes.
    listed = {"names": list(names)} if len(names) <= _LISTED else {}
    return {"count": len(names), "digest": digest_of("classes", list(names)), **listed}


def damaged_file(path: Path) -> CorruptError:
    """Return the error for a file that does not fit the manifest or the other files."""
    return CorruptError(
        f"{path} is damaged; restore it from a backup or create the snapshot again", code="damaged-snapshot"
    )


@contextmanager
def raise_if_snapshot_replaced(catalog_db: CatalogDb, snapshot: Snapshot) -> Iterator[None]:
    """If files are missing because the snapshot was replaced or dropped, report a conflict instead of damage.

    Raises:
        CommitConflict: The snapshot was replaced or dropped (code 'moved').
    """
    try:
        yield
    except CorruptError:
        # A drop removes the snapshot's files immediately, unless a lease protects them.
        if catalog_db.rows("SELECT 1 FROM snapshots WHERE id = ?", (snapshot.id,)):
            raise
        what = f"snapshot {snapshot.name} was replaced or dropped while it was opened"
        raise moved(what, code="snapshot-replaced") from None


def read_layout(db_dir: DatabaseDir, snapshot: Snapshot) -> SnapshotLayout:
    """Return the layout that a snapshot's manifest records.

    Raises:
        CorruptError: The layout cannot be read.
    """
    return decode(SnapshotLayout, json.dumps(PublishedDir(db_dir.inside(snapshot.path)).manifest["layout"]))

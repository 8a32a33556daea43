"""What a snapshot's directory says of itself: the part of its manifest that opening it needs."""

from __future__ import annotations

from dataclasses import dataclass


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
    """A directory with the features and targets of those that changed since `features` was made."""
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
    """A directory with the features of edges that came after `features` was made."""
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

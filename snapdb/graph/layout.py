"""What a snapshot's directory says of itself: the part of its manifest that opening it needs."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["EdgeLayout", "SnapshotLayout", "VertexLayout"]


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


@dataclass(frozen=True, slots=True)
class EdgeLayout:
    """Where one edge type lies."""

    name: str
    form: str
    """'full', 'ends' (`ends-<index>.npy`) or 'materialized' (`rows-<index>-*.npy`)."""
    edges: int
    topology: str
    features: str | None
    feature_names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SnapshotLayout:
    """Every element of a snapshot, in the graph's order."""

    vertices: tuple[VertexLayout, ...]
    edges: tuple[EdgeLayout, ...]

    @property
    def directories(self) -> tuple[str, ...]:
        """The shared directories that it stands on."""
        named = [v.features for v in self.vertices] + [e.features for e in self.edges]
        return tuple(dict.fromkeys([e.topology for e in self.edges] + [f for f in named if f is not None]))

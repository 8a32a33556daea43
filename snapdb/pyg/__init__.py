"""PyG's own words over snapdb: stores and a sampler of a snapshot, and its loaders with threads for processes."""

from snapdb.pyg.loaders import link_loader, loader
from snapdb.pyg.sampler import SnapSampler
from snapdb.pyg.snapshot import SnapshotGraph, open  # noqa: A004  # it is read as snapdb.pyg.open
from snapdb.pyg.stores import SnapshotEdges, SnapshotFeatures

__all__ = ["SnapSampler", "SnapshotEdges", "SnapshotFeatures", "SnapshotGraph", "link_loader", "loader", "open"]

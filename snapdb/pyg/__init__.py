"""PyTorch Geometric over snapdb: threaded loaders, and a snapshot's stores and sampler."""

from snapdb.loading import pyg_package

pyg_package("snapdb.pyg")  # first, so that a missing package raises an error with the remedy

from snapdb.on_first_use import public_names  # noqa: E402
from snapdb.pyg.data import to_data  # noqa: E402
from snapdb.pyg.loaders import LinkNeighborLoader, NeighborLoader, link_loader, loader  # noqa: E402
from snapdb.pyg.sampler import SnapSampler  # noqa: E402
from snapdb.pyg.snapshot import SnapshotEdges, SnapshotFeatures, SnapshotGraph, open  # noqa: A004, E402  # used as snapdb.pyg.open  # noqa: E402

__all__ = [
    "LinkNeighborLoader",
    "NeighborLoader",
    "SnapSampler",
    "SnapshotEdges",
    "SnapshotFeatures",
    "SnapshotGraph",
    "link_loader",
    "loader",
    "open",
    "to_data",
]
__dir__ = public_names(__name__)

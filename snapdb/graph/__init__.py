"""One snapshot as arrays: its topology and features, opened read-only and shared by every thread."""

from snapdb.graph.open import OpenSnapshot, open_snapshot
from snapdb.graph.view import Adjacency, Feature, GraphView, KeyReader

__all__ = ["Adjacency", "Feature", "GraphView", "KeyReader", "OpenSnapshot", "open_snapshot"]

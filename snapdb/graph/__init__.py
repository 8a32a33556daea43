"""Snapshots as arrays: topology and features, opened read-only and shared by all threads.

Names are imported on first use because they need numba, and SELECT statements should not wait for its import.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from snapdb.on_first_use import on_first_use

if TYPE_CHECKING:
    from snapdb.graph.open import OpenSnapshot, open_snapshot
    from snapdb.graph.view import Adjacency, Feature, GraphView, KeyReader

__all__ = ["Adjacency", "Feature", "GraphView", "KeyReader", "OpenSnapshot", "open_snapshot"]

_MODULES = {
    "Adjacency": ".view",
    "Feature": ".view",
    "GraphView": ".view",
    "KeyReader": ".view",
    "OpenSnapshot": ".open",
    "open_snapshot": ".open",
}

__getattr__ = on_first_use(__name__, _MODULES)

"""Mini-batches: streams that build them on threads, tensors for features and targets, adapters, and files.

Names are imported on first use because importing torch takes longer than importing the rest of the engine, and a SELECT
should not wait for it (docs/adr/0002).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from snapdb.on_first_use import on_first_use, public_names

if TYPE_CHECKING:
    from snapdb.loading.adapters import pyg_package, save_pyg
    from snapdb.loading.batch import Batch
    from snapdb.loading.batch_folder import BatchFolder, BatchWriter, read_batches
    from snapdb.loading.metered import MeteredStream
    from snapdb.loading.stream import BatchStream
    from snapdb.loading.walk_batch import WalkBatch

__all__ = [
    "Batch",
    "BatchFolder",
    "BatchStream",
    "BatchWriter",
    "MeteredStream",
    "WalkBatch",
    "pyg_package",
    "read_batches",
    "save_pyg",
]

_HOMES = {
    "Batch": ".batch",
    "BatchFolder": ".batch_folder",
    "BatchStream": ".stream",
    "BatchWriter": ".batch_folder",
    "MeteredStream": ".metered",
    "WalkBatch": ".walk_batch",
    "pyg_package": ".adapters",
    "read_batches": ".batch_folder",
    "save_pyg": ".adapters",
}

if not TYPE_CHECKING:  # a type checker would accept any name as an attribute of the package
    __getattr__ = on_first_use(__name__, _HOMES)
__dir__ = public_names(__name__)

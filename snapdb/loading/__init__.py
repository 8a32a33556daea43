"""From subgraphs to device-ready batches: features and targets, threads that work ahead, and adapters.

Its names come on first use, because torch takes more of a second than all the rest of the engine: a SELECT should not
wait for it (docs/adr/0002).
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from snapdb.loading.batch import Batch
    from snapdb.loading.metered import MeteredStream
    from snapdb.loading.stream import BatchStream

__all__ = ["Batch", "BatchStream", "MeteredStream"]

_HOMES = {"Batch": "batch", "BatchStream": "stream", "MeteredStream": "metered"}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'snapdb.loading' has no attribute {name!r}")
    return getattr(importlib.import_module(f"snapdb.loading.{_HOMES[name]}"), name)

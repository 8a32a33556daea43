"""Samples: streams, rows and audits of a snapshot.

The functions that `Database` calls are imported on first use, so a SELECT does not load numba and torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from snapdb.on_first_use import on_first_use

if TYPE_CHECKING:
    from snapdb.execute.samples.infer import Inference, run_inference
    from snapdb.execute.samples.opening import open_named_snapshot, open_stream
    from snapdb.execute.samples.replay import replay_batch, replay_rows
    from snapdb.execute.samples.waiting import wait_for

__all__ = [
    "Inference",
    "open_named_snapshot",
    "open_stream",
    "replay_batch",
    "replay_rows",
    "run_inference",
    "wait_for",
]

_MODULES = {
    "Inference": ".infer",
    "run_inference": ".infer",
    "open_named_snapshot": ".opening",
    "open_stream": ".opening",
    "replay_batch": ".replay",
    "replay_rows": ".replay",
    "wait_for": ".waiting",
}

__getattr__ = on_first_use(__name__, _MODULES)

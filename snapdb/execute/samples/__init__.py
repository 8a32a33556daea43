"""Samples: the streams, the rows and the audits that are made of a snapshot.

The names that a database uses come on first use: a SELECT should not wait for numba and torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from snapdb.on_first_use import on_first_use

if TYPE_CHECKING:
    from snapdb.execute.following import Following
    from snapdb.execute.infer import INFERRED, Inference, Ready
    from snapdb.execute.opening import Opened, open_asked
    from snapdb.execute.past import read_lineage
    from snapdb.execute.replay import Replay
    from snapdb.execute.waiting import Awaited
    from snapdb.execute.whole import open_whole

__all__ = [
    "INFERRED",
    "Awaited",
    "Following",
    "Inference",
    "Opened",
    "Ready",
    "Replay",
    "open_asked",
    "open_whole",
    "read_lineage",
]

_MODULES = {
    "Awaited": "snapdb.execute.waiting",
    "Following": "snapdb.execute.following",
    "INFERRED": "snapdb.execute.infer",
    "Inference": "snapdb.execute.infer",
    "Opened": "snapdb.execute.opening",
    "Ready": "snapdb.execute.infer",
    "Replay": "snapdb.execute.replay",
    "open_asked": "snapdb.execute.opening",
    "open_whole": "snapdb.execute.whole",
    "read_lineage": "snapdb.execute.past",
}

__getattr__ = on_first_use(__name__, _MODULES)

"""Samples: the streams, the rows and the audits that are made of a snapshot.

The names that a database uses come on first use: a SELECT should not wait for numba and torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from snapdb.on_first_use import on_first_use

if TYPE_CHECKING:
    from snapdb.execute.samples.infer import INFERRED, Inference, Ready
    from snapdb.execute.samples.lineage import read_lineage
    from snapdb.execute.samples.opening import Following, Opened, open_statement, open_whole
    from snapdb.execute.samples.replay import Replay
    from snapdb.execute.samples.waiting import Awaited

__all__ = [
    "INFERRED",
    "Awaited",
    "Following",
    "Inference",
    "Opened",
    "Ready",
    "Replay",
    "open_statement",
    "open_whole",
    "read_lineage",
]

_MODULES = {
    "Awaited": ".waiting",
    "Following": ".opening",
    "INFERRED": ".infer",
    "Inference": ".infer",
    "Opened": ".opening",
    "Ready": ".infer",
    "Replay": ".replay",
    "open_statement": ".opening",
    "open_whole": ".opening",
    "read_lineage": ".lineage",
}

__getattr__ = on_first_use(__name__, _MODULES)

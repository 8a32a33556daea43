"""How thorough randomized tests are: `make soak` tries more than every other run."""

from __future__ import annotations

import os

SOAK = bool(os.environ.get("SNAPDB_SOAK"))


def examples(count: int) -> int:
    """The examples that hypothesis tries of a property: all of them under `make soak`, else a third."""
    return count if SOAK else max(count // 3, 5)

"""The thoroughness of randomized tests: `make soak` runs more examples than other test runs."""

from __future__ import annotations

import os

SOAK = bool(os.environ.get("SNAPDB_SOAK"))


def examples(count: int) -> int:
    """Return the number of examples that hypothesis tries: `count` under `make soak`, otherwise a third of it."""
    return count if SOAK else max(count // 3, 5)

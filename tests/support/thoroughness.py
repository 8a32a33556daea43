"""The thoroughness of randomized tests: `make soak` runs more examples than other test runs."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TypeVar

_T = TypeVar("_T")

SOAK = bool(os.environ.get("SNAPDB_SOAK"))


def examples(count: int) -> int:
    """Return the number of examples that hypothesis tries: `count` under `make soak`, otherwise a third of it."""
    return count if SOAK else max(count // 3, 5)


def some(values: Iterable[_T], count: int) -> list[_T]:
    """Return all values under `make soak`, otherwise the first `count`."""
    return list(values) if SOAK else list(values)[:count]

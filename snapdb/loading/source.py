"""What a stream reads: one publication of a snapshot, a seed set and a sampler; and the way to the next."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import NamedTuple

from snapdb.graph.view import GraphView
from snapdb.loading.shelf import CacheSource
from snapdb.sampling import Seeds
from snapdb.types import ExecutionHints, Published, SampleSpec


def nothing_held() -> None:
    """Releases nothing."""


class Source(NamedTuple):
    """Opened, until `release` is called."""

    view: GraphView
    seeds: Seeds
    """In their canonical order."""
    spec: SampleSpec
    hints: ExecutionHints = ExecutionHints()  # frozen
    """How batches are made, which changes none."""
    cache: CacheSource | None = None
    published: Published | None = None
    """Which publication the view is of; None: of no database."""
    release: Callable[[], None] = nothing_held
    newer: Callable[[], Source | None] | None = None
    """Looks whether something was published since, and opens that; it costs next to nothing where nothing was."""
    about: Callable[[], AbstractContextManager[None]] = nullcontext
    """Errors of the block point to where the statement says what they are about."""

"""What a stream reads: one publication of a snapshot, a seed set and a sampler; and how the next one is opened."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import NamedTuple

from snapdb.graph.view import GraphView
from snapdb.loading.cache_budget import CacheSource
from snapdb.sampling import Seeds
from snapdb.storage.catalog_db.locks import Lease
from snapdb.types import ExecutionHints, Published, SampleSpec


class StreamSource(NamedTuple):
    """An open snapshot with a seed set; its files stay until the lease is released."""

    view: GraphView
    seeds: Seeds
    """In canonical order."""
    spec: SampleSpec
    """The bound statement; EVERY AUTO is a number of batches, in its text too."""
    hints: ExecutionHints = ExecutionHints()
    cache: CacheSource | None = None
    """The caches of the sampler; None: the statement names no sampler, or it has none."""
    lease: Lease | None = None
    """Keeps the files of the view; None: the view is not of a database."""
    published: Published | None = None
    """The publication that the view is of; None: the view is not of a database."""
    refresh: Callable[[], StreamSource | None] | None = None
    """Opens what was published since, and returns None where nothing was, which is cheap to find out."""
    located: Callable[[], AbstractContextManager[None]] = nullcontext
    """Within it an error gets the place in the statement that it is about."""

    def release(self) -> None:
        """Release the lease; a second call does nothing."""
        if self.lease is not None:
            self.lease.release()

"""The measured batches of EXPLAIN SAMPLE and EXPLAIN WALK: a metered stream, and the batches that it measures."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from snapdb import loading
from snapdb.execute.session import ExecutionContext
from snapdb.loading.source import StreamOptions, StreamSource
from snapdb.types.text import counted

if TYPE_CHECKING:
    from snapdb.loading.metered import MeteredStream

_PROBES = 4


def metered(context: ExecutionContext, opened: StreamSource, *, caches: bool = False) -> MeteredStream:
    """Return a stream of the source's batches that measures their cost. It does not release the source."""
    # Several streams read the source one after another, so no stream may release it.
    source = opened._replace(lease=None)
    if not caches:
        source = source._replace(cache=None, feature_cache=None)
    return loading.MeteredStream(source, StreamOptions(max_threads=context.threads))


def places(stream: MeteredStream) -> list[int]:
    """Return the batches to measure: spread over the epoch, or the first ones if batches depend on earlier ones."""
    batches, refresh = len(stream), stream.spec.refresh
    if refresh is not None and refresh.visited:
        return list(range(min(_PROBES, batches)))
    return sorted({place * batches // _PROBES for place in range(_PROBES)}) if batches else []


def epoch_seeds(stream: MeteredStream) -> int:
    """Return the number of seeds in epoch 0."""
    seeds, subset = stream.seeds.ids.size, stream.spec.subset
    return seeds if subset is None else min(seeds, math.ceil(seeds * subset))


def batch_words(number: int) -> str:
    """Return a number of batches as text."""
    return counted(number, "batch", "batches")


def numbered(rows: int, size: int, seconds: float) -> dict[str, Any]:
    """Return the numbers of a plan node."""
    return {"rows": rows, "bytes": size, "seconds": round(seconds, 4)}

"""What a cache of a sampler's rows comes to in an epoch: as counts foretell it, and as the stream that had it tells."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from snapdb.execute.explain_refresh_rows import chances, life
from snapdb.sampling.cache_plan import Choice, draws_from, edges_read, layout_of
from snapdb.sampling.expected_visits import Visits
from snapdb.sampling.walks import Walk
from snapdb.types import Refresh, SampleSpec

if TYPE_CHECKING:
    from snapdb.loading.metered import MeteredStream


_LOOKS = 64
"""At the ages of a cache's rows, while an epoch is made."""

Numbers = dict[str, Any]


def cache_numbers(
    spec: SampleSpec, walks: Sequence[Walk], choices: Sequence[Choice], visits: Visits, batches: int, seconds: float
) -> Numbers:
    """What a cache of these rows holds when it is full, what batches find in it, and what an epoch reads to fill it.

    The epoch has so many batches; `seconds` is what it takes to draw and copy each row once.
    """
    looked, read = _asked(spec, walks, visits)
    hits = saved = drawn = filled = 0.0
    for choice in choices:
        item = choice.walk.arrays.rows.indices.itemsize
        for hop in _hops(spec, choice.walk):
            met, edges = visits[choice.walk.relation, hop][choice.nodes], edges_read(spec, choice, hop)
            hits, saved = hits + float(met @ (edges > 0)), saved + float(met @ edges) * item
        rows, edges_filled = _filled(spec, choice, visits, batches)
        drawn, filled = drawn + rows, filled + edges_filled * item
    return {
        "rows": sum(choice.nodes.size for choice in choices),
        "bytes": sum(layout_of(choice).bytes for choice in choices),
        "seconds": round(seconds, 6),
        "hit_rate": round(hits / looked, 3) if looked else 0.0,
        "batch_read": round(read - saved),
        "batch_saved": round(saved),
        "drawn": round(drawn),
        "bytes_filled": round(filled),
        **_age(spec.refresh, choices, batches),
    }


class CacheWatch:
    """The same as the stream that has the cache tells it, while it makes an epoch."""

    def __init__(self, stream: MeteredStream) -> None:
        self._stream, self._apart = stream, max(1, len(stream) // _LOOKS)
        self._batches = 0
        self._ages: list[float] = []

    def batch(self) -> None:
        """Told of every batch; now and then looks how old the rows are."""
        self._batches += 1
        if self._batches % self._apart == 0:
            stats = self._stream.cache_stats()
            if stats is not None and stats["age"] is not None:
                self._ages.append(stats["age"])

    def numbers(self) -> Numbers | None:
        """What the batches so far found; None: there is no cache."""
        stats = self._stream.cache_stats()
        if stats is None:
            return None
        pages = self._stream.pages(self._stream.sampler.cache)
        batches, looked = max(1, self._batches), stats["hits"] + stats["misses"]
        return {
            "rows": stats["filled"],
            "bytes": stats["bytes"],
            "seconds": round(stats["seconds"], 4),
            "hit_rate": round(stats["hits"] / looked, 3) if looked else 0.0,
            "batch_read": round((stats["bytes_read"] - stats["bytes_filled"]) / batches),
            "batch_saved": round(stats["bytes_saved"] / batches),
            "drawn": stats["drawn"],
            "bytes_filled": stats["bytes_filled"],
            **({"age": round(sum(self._ages) / len(self._ages), 1)} if self._ages else {}),
            "batch_pages": round(pages),
        }


def _hops(spec: SampleSpec, walk: Walk) -> list[int]:
    """The hops over a relation."""
    return [hop for hop in range(spec.hops) if walk.count(hop)]


def _asked(spec: SampleSpec, walks: Sequence[Walk], visits: Visits) -> tuple[float, float]:
    """How many rows with edges a batch looks for, and the bytes of the neighbours that it takes of them."""
    looked = read = 0.0
    for walk in walks:
        degrees = walk.adjacency.degrees()
        for hop in _hops(spec, walk):
            met = visits[walk.relation, hop]
            looked += float(met @ (degrees > 0))
            read += float(met @ np.minimum(degrees, walk.count(hop))) * walk.arrays.rows.indices.itemsize
    return looked, read


def _filled(spec: SampleSpec, choice: Choice, visits: Visits, batches: int) -> tuple[float, float]:
    """How many rows an epoch draws of a choice, its first draw among them, and the edges read for it or to copy it."""
    table, refresh = choice.table, spec.refresh
    if table is None or refresh is None:
        return 0.0, float(choice.lengths.sum())
    met = [visits[table.walk.relation, hop][choice.nodes] for hop in range(spec.hops) if draws_from(spec, table, hop)]
    later = (
        max(0, batches - 1) / refresh.period if refresh.strategy == "OTF" else math.ceil(batches / refresh.period) - 1
    )
    times = 1 + later * chances(refresh, sum(met, np.zeros(choice.nodes.size)))
    weighed = spec.drawing.method == "PRIORITY"
    edges = table.walk.adjacency.degrees()[choice.nodes] if weighed else choice.lengths
    return float(times.sum()), float(times @ edges)


def _age(refresh: Refresh | None, choices: Sequence[Choice], batches: int) -> Numbers:
    """For how many batches drawn rows have been the same, on average over the first epoch; where counts tell that."""
    if refresh is None or refresh.visited or all(choice.table is None for choice in choices):
        return {}
    number = np.arange(batches, dtype=np.float64)
    if refresh.strategy == "FCR":
        ages = number % refresh.period
    else:  # those that were not drawn anew yet are as old as the epoch
        since = np.minimum(number, life(refresh))
        ages = since - since**2 / (2 * life(refresh))
    return {"age": round(float(ages.mean()), 1)} if batches else {}

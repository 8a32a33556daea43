"""What the arrays of an edge type tell: how many edges each vertex has, when they happened, what they carry."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from snapdb.errors import CorruptError
from snapdb.execute.charts import bins_of
from snapdb.execute.summarize_features import FeatureFacts
from snapdb.graph import Adjacency
from snapdb.kernels.radix import count_buckets
from snapdb.kernels.rows import logical_parts, neighbours_of
from snapdb.storage.arrays import STATIC

Int64s = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


class Growth(NamedTuple):
    """When things happened."""

    first: int
    last: int
    counts: list[int]
    """In bins of one width between them."""


class Degrees(NamedTuple):
    """How many edges the vertices of a type have, each."""

    least: int | None = None
    median: float | None = None
    mean: float | None = None
    most: int | None = None


@dataclass(slots=True)
class EdgeFacts:
    """What was seen of an edge type's edges."""

    incoming: Int64s
    """[dense ids of the destinations] Edges that end in each."""
    outgoing: Int64s
    """[dense ids of the sources] Edges that begin in each."""
    count: int = 0
    growth: Growth | None = None
    first: int | None = None
    """The first moment; None: there is none."""
    last: int | None = None


def degrees_of_live(degrees: Int64s, alive: Bools | None) -> Degrees:
    """The least, the median, the mean and the most of the degrees of vertices that are there; of none, nothing."""
    live = degrees if alive is None else degrees[alive]
    if not live.size:
        return Degrees()
    return Degrees(int(live.min()), float(np.median(live)), float(live.mean()), int(live.max()))


def edge_facts(
    what: str, rows: Adjacency, sources: int, features: FeatureFacts, step: Callable[[float], None]
) -> EdgeFacts:
    """Read all edges of a type, some at a time.

    Args:
        what: The edge type, for messages.
        sources: How many dense ids there are of its sources.
        features: Is given the edges' ids.
        step: Told the share that is done; it may raise.

    Raises:
        CorruptError: an edge leads out of the arrays.
    """
    facts = EdgeFacts(rows.degrees(), np.zeros(sources, np.int64))
    edges = max(int(facts.incoming.sum()), 1)
    share = 0.5 if rows.time is not None else 1.0
    for part in logical_parts(rows.rows):
        _count_sources(what, np.asarray(neighbours_of(rows.rows, part.positions), np.int64), facts.outgoing)
        if rows.time is not None:
            _widen(facts, rows.time.read(part.positions))
        for _ in features.add(np.asarray(rows.edge_id.read(part.positions), np.int64)):
            step(share * facts.count / edges)
        facts.count += part.positions.size
        step(share * facts.count / edges)
    _grow(facts, rows, step)
    return facts


def _count_sources(what: str, sources: Int64s, counts: Int64s) -> None:
    if sources.size and not 0 <= int(sources.min()) <= int(sources.max()) < counts.size:
        raise CorruptError(
            f"the topology of {what} is damaged: an edge begins in no vertex; CHECK DATABASE names the file",
            code="damaged-file",
        )
    count_buckets(sources, 0, counts)


def _widen(facts: EdgeFacts, times: Int64s) -> None:
    """Take note of the first and the last moment; what is always there has none."""
    moments = times[times != STATIC]
    if moments.size:
        low, high = int(moments.min()), int(moments.max())
        facts.first = low if facts.first is None else min(facts.first, low)
        facts.last = high if facts.last is None else max(facts.last, high)


def _grow(facts: EdgeFacts, rows: Adjacency, step: Callable[[float], None]) -> None:
    """Count the edges of each bin, once it is known which bins there are."""
    if facts.first is None or facts.last is None or rows.time is None:
        return
    bins = bins_of(facts.first, facts.last)
    counts, done = np.zeros(bins.size, np.int64), 0
    for part in logical_parts(rows.rows):
        times = rows.time.read(part.positions)
        bins.add(times[times != STATIC], counts)
        done += part.positions.size
        step(0.5 + 0.5 * done / max(facts.count, 1))
    facts.growth = Growth(facts.first, facts.last, counts.tolist())

"""What the rows of a sampler come to: how many there are, how old they get, and what drawing from them costs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from snapdb.sampling.cache_plan import aliased, draws_from
from snapdb.sampling.expected_visits import Visits
from snapdb.sampling.rounds import RowTable
from snapdb.sampling.variance import variance_factor
from snapdb.types import Refresh, SampleSpec

Float64s = npt.NDArray[np.float64]


@dataclass(slots=True)
class RowCosts:
    """Of all rows that batches draw from, where they come by nodes as often as is expected."""

    rows: int = 0
    """There are so many, one a node and slot."""
    aliased: int = 0
    """Nodes with edges that have none: batches draw from all of their edges."""
    drawn: float = 0.0
    """Rows that a period draws anew."""
    bytes: float = 0.0
    """Of neighbours that are read for these; under PRIORITY all of a node's edges are looked at."""
    age: float = 0.0
    """For how many batches a row has been the same when one draws from it, on average."""
    variance: float = 1.0
    """How many times that of FBL is the variance of a mean over what batches draw from a row while it is the same."""


def row_costs(spec: SampleSpec, tables: tuple[RowTable, ...], visits: Visits) -> RowCosts:
    """What the rows of these tables come to.

    Raises:
        CorruptError: a row leads out of its arrays.
    """
    refresh = spec.refresh
    assert refresh is not None
    costs, ages, variances, weights = RowCosts(), 0.0, 0.0, 0.0
    for table in tables:
        degrees = table.walk.adjacency.degrees()
        kept = degrees > aliased(spec, table.size)
        hops = [hop for hop in range(spec.hops) if draws_from(spec, table, hop)]
        visited = sum((visits[table.walk.relation, hop] for hop in hops), np.zeros(degrees.size))
        if not visited.any():  # no seed leads there
            continue
        degrees, visited, edges = degrees[kept], visited[kept], np.count_nonzero(degrees)
        drawn = chances(refresh, visited)
        read = degrees if spec.drawing.method == "PRIORITY" else np.full(degrees.size, table.size)
        costs.rows, costs.aliased = costs.rows + degrees.size, costs.aliased + int(edges) - degrees.size
        costs.drawn += float(drawn.sum())
        costs.bytes += float(drawn @ read) * table.walk.arrays.rows.indices.itemsize
        ages += float(visited @ _ages(refresh, drawn))
        weights += float(visited.sum())
        for hop in hops:
            fanout = table.walk.fanout.counts[hop]
            draws = visited * life(refresh)
            factor = variance_factor(degrees, table.size, fanout, draws, refresh.kept(fanout))
            variances += float(visits[table.walk.relation, hop][kept] @ factor)
    if weights:
        costs.age, costs.variance = ages / weights, variances / weights
    return costs


def life(refresh: Refresh) -> float:
    """For how many batches a row stays the same; under SCOPE VISITED, while batches come by in each period."""
    return float(refresh.period / (1 if refresh.visited else refresh.share))


def chances(refresh: Refresh, visited: Float64s) -> Float64s:
    """The chance of each row to be drawn anew in a period, where batches come by so often."""
    if refresh.visited:
        found: Float64s = -np.expm1(-visited * refresh.period)
        return found
    return np.full(visited.size, float(refresh.share))


def _ages(refresh: Refresh, drawn: Float64s) -> Float64s:
    """The age of each row when a batch draws from it; under SCOPE VISITED periods pass in which none comes by."""
    if not refresh.visited:
        return np.full(drawn.size, (life(refresh) - 1) / 2)
    idle = np.divide(1 - drawn, drawn, out=np.zeros_like(drawn), where=drawn > 0)
    return (refresh.period - 1) / 2 + refresh.period * idle

"""What an algorithm reads and returns: a graph as arrays, nodes that a query gives, a run, and one value per node.

A method is a function `method(graph, options, run) -> Values`. `options` has the value of each option of the algorithm
in `snapdb.types.algorithms`, except `edges` and `weight`, which the graph contains: `direction` is OUT, IN or BOTH,
`seeds` is a `NodeWeights`, `pairs` a `NodePairs`, and an option that was not given has its default, or is None.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, NamedTuple, TypeAlias, TypeVar

import numpy as np

from snapdb.arrays import Array, Bools, Float64s, Int64s, UInt8s
from snapdb.errors import QueryError

Side: TypeAlias = Literal["OUT", "IN"]
"""OUT: a row has the destinations of a node's edges. IN: a row has the sources of the edges that end at a node."""

_A = TypeVar("_A")
_R = TypeVar("_R")
_WAIT = 0.05
"""The interval in seconds between checks for a stop request."""


class Rows(NamedTuple):
    """The edges of a graph in compressed sparse rows. The arrays are read-only, and can be views of files."""

    indptr: Int64s
    """int64 [nodes + 1] The position of each row's first edge."""
    indices: Array
    """int32 or int64 [edges] The neighbour of each edge. Rows are not sorted by neighbour, and can repeat it."""
    weight: Float64s
    """float64 [edges] The weights, finite and at least 0, or [0] for an unweighted graph."""


class NodeWeights(NamedTuple):
    """Nodes that a query gives, without duplicates."""

    nodes: Int64s
    """int64 [n] Node numbers in ascending order."""
    weight: Float64s | None = None
    """float64 [n] Their weights, finite and at least 0, or None if all are equal."""


class NodePairs(NamedTuple):
    """Pairs of nodes that a query gives, in its order."""

    source: Int64s
    """int64 [pairs] Node numbers."""
    destination: Int64s
    """int64 [pairs] Node numbers."""


class Values(NamedTuple):
    """The result of an algorithm."""

    values: Array
    """int64 or float64 [nodes], or [pairs]."""
    valid: Bools | None = None
    """[nodes] Whether a node has a value, NULL otherwise. None if all have one."""
    details: Mapping[str, int | float | str] = {}
    """What EXPLAIN ANALYZE shows, such as the number of iterations."""


@dataclass
class AlgorithmGraph:
    """A snapshot, or some of its edge types, as one graph of numbered nodes.

    With several vertex types, a node's number is the offset of its type plus its dense id.
    """

    nodes: int
    """The number of nodes, with those that do not exist in the snapshot."""
    edges: int
    """The number of edges."""
    open_rows: Callable[[Side], Rows]
    """Opens or sorts the rows of a direction."""
    alive: Bools | None = None
    """[nodes] Whether each node exists in the snapshot, or None if all do. Other nodes have no edges and no value."""
    open_rank: Callable[[], Int64s | None] = lambda: None
    """Computes `rank`."""
    weighted: bool = False
    """Whether the edges have weights."""
    _rows: dict[Side, Rows] = field(default_factory=dict)

    def rows(self, direction: Side) -> Rows:
        """Return the rows of a direction. IN rows are stored. OUT rows may have to be sorted on the first call."""
        if direction not in self._rows:
            self._rows[direction] = self.open_rows(direction)
        return self._rows[direction]

    @cached_property
    def rank(self) -> Int64s | None:
        """[nodes] The position of each node in the order (type, key), or None if that is the order of the numbers.

        Nodes that do not exist are last, so ranks are the same in a snapshot of the past and in a copy of its tables.
        """
        return self.open_rank()


@dataclass
class Run:
    """The threads of an algorithm, its progress reports, and stop requests."""

    threads: int = 1
    report: Callable[[float | None], None] = lambda share: None
    """Reports the completed share of the work, and raises QueryError after a stop request."""
    check: Callable[[], None] = lambda: None
    """Raises QueryError after a stop request."""
    stop: UInt8s = field(default_factory=lambda: np.zeros(1, np.uint8))
    """uint8 [1] Long kernels end soon after it becomes 1. Their results are then not used."""
    closing: threading.Event = field(default_factory=threading.Event)
    """Set when nobody reads the result any longer."""

    def step(self, share: float | None = None) -> None:
        """Report the completed share of the work, or None if it is unknown. Must be called between rounds.

        Raises:
            QueryError: A stop was requested.
        """
        self._check()
        self.report(share)

    def _check(self) -> None:
        if self.closing.is_set():
            raise QueryError("interrupted", code="interrupted")
        self.check()

    def parallel(self, function: Callable[[_A], _R], ranges: Iterable[_A]) -> list[_R]:
        """Return the results of calls in order. At most `threads` run at once, and results do not depend on how many.

        A single long kernel must also be called like this, because the calling thread checks for stop requests while
        it waits. A call must not use this method itself.

        Raises:
            QueryError: A stop was requested. `stop` is then 1, and all calls have ended.
        """
        with ThreadPoolExecutor(self.threads, thread_name_prefix="snapdb-algorithms") as pool:
            calls: list[Future[_R]] = [pool.submit(function, each) for each in ranges]
            try:
                pending = set(calls)
                while pending:
                    ended, pending = wait(pending, timeout=_WAIT, return_when=FIRST_COMPLETED)
                    for call in ended:
                        call.result()  # raises its error at once
                    self._check()
            except BaseException:
                self.stop[0] = 1
                for call in calls:
                    call.cancel()
                raise
        return [call.result() for call in calls]


Method: TypeAlias = Callable[[AlgorithmGraph, Mapping[str, Any], Run], Values]
"""An algorithm over a graph."""

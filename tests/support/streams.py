"""Streams of batches over a small graph in memory, and the threads that they leave behind."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from snapdb.graph import GraphView
from snapdb.loading import Batch, BatchStream
from snapdb.sampling import Seeds
from snapdb.types import EdgeType, Fanout, Relation, SampleSpec
from tests.support.graphs import MemoryGraph, all_seeds, sample_spec, ties
from tests.support.inside.graph import Adjacency
from tests.support.inside.loading import Sharing, StreamOptions, StreamSource
from tests.support.waiting import until

BOUGHT = EdgeType("customer", "bought", "product")


KNOWS = EdgeType("customer", "knows", "customer")


SPEC = sample_spec("customer", Fanout(BOUGHT, "BOTH", (3, 2)), Fanout(KNOWS, "IN", (2, 2)))


BATCHES = 8


def open_stream(view: GraphView, seeds: Seeds, spec: SampleSpec, **options: Any) -> BatchStream[Any]:
    """Return a stream over a view. `options` are fields of its source, its options and its sharing."""
    shared = {name: options.pop(name) for name in Sharing.__slots__ if name in options}
    read = {name: options.pop(name) for name in StreamSource._fields if name in options}
    return BatchStream(StreamSource(view, seeds, spec, **read), StreamOptions(**options, sharing=Sharing(**shared)))


class Released:
    """A lease that counts its releases."""

    def __init__(self, on_release: Callable[[], object] = lambda: None) -> None:
        self.release = on_release


def stream(**options: Any) -> BatchStream:
    graph = ties()
    return open_stream(graph.view(), all_seeds(graph, "customer"), SPEC, **{"threads": 0, **options})


def prints(batches: Iterable[Batch]) -> list[bytes]:
    """Return the content of batches as bytes for comparison."""
    return [
        b"".join(
            np.ascontiguousarray(tensor).tobytes()
            for part in (b.n_id, b.x, b.edge_index, b.e_id, b.edge_attr)
            for tensor in part.values()
        )
        + b.input_id.numpy().tobytes()
        + repr((b.index, b.num_sampled_nodes, b.num_sampled_edges)).encode()
        for b in batches
    ]


def workers_alive() -> int:
    return sum(thread.name.startswith("snapdb-batch") for thread in threading.enumerate())


def settles(condition: Callable[[], bool]) -> bool:
    """Wait until the condition holds, and return it."""
    return until(condition)


class Failing:
    """A feature that cannot be read in the batch that contains a certain seed."""

    shape, dtype = (30, 5), np.dtype(np.float32)

    def __init__(self, node: int) -> None:
        self.node = node

    def read(self, ids: npt.NDArray[Any]) -> npt.NDArray[Any]:
        if self.node in ids[:4]:
            raise OSError("disk on fire")
        return np.zeros((ids.size, 5), np.float32)


def failing_stream(**options: Any) -> BatchStream:
    """Return a stream that fails in batch 2 of epoch 0."""
    graph = ties()
    node = int(stream()[2].input_id[0])
    view = replace(graph.view(), node_features={"customer": {"x": Failing(node)}})
    spec = sample_spec("customer", Fanout(KNOWS, "IN", (0,)))
    return open_stream(view, all_seeds(graph, "customer"), spec, **options)


class Shelf:
    """A picklable reader of a graph's relations. The view's own reader is a closure in tests."""

    def __init__(self, graph: MemoryGraph) -> None:
        self.graph = graph

    def __call__(self, relation: Relation) -> Adjacency:
        return self.graph.view().adjacency(relation)


def subset_stream(**options: Any) -> BatchStream:
    """Return a stream with 11 of 30 seeds per epoch, then 11, then 8: 3, 3 and 2 batches."""
    graph, spec = ties(), replace(SPEC, subset=Fraction(11, 30))
    return open_stream(graph.view(), all_seeds(graph, "customer"), spec, **{"threads": 0, **options})


def epochs(opened: BatchStream, count: int = 2) -> list[bytes]:
    return [mark for _ in range(count) for mark in prints(opened)]


def after(opened: BatchStream, consumed: int) -> dict[str, Any]:
    """Return the state after `consumed` batches, with a round trip through JSON."""
    for _ in zip(range(consumed), opened, strict=False):
        pass
    state: dict[str, Any] = json.loads(json.dumps(opened.state_dict()))
    return state

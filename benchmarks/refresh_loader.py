"""Batches without a model, in memory. All strategies take turns in one process.

    python -m benchmarks.refresh_loader '{"path": …}'

prints one line of JSON. Batches are built on one thread, and the cache has another.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

import numpy as np

import snapdb
from benchmarks.refresh_strategies import STRATEGIES, asked, cache_of, define, full, linked, run_apart, stats_of
from snapdb.loading import BatchStream
from snapdb.sampling import epoch_order, vertex_input

ALL = tuple(strategy.name for strategy in STRATEGIES)
SOME = ("FBL", "FCR", "FCR shared", "FCR shared, amplify 1", "OTF 15 %, fetch 60 %")
PUBLISHED = ("FBL", "FCR", "FCR shared", "OTF 15 %", "OTF 15 % shared")


@dataclass(frozen=True, slots=True)
class Case:
    """A graph and a sampler, with the number of epochs, and of rounds of batches, that each strategy runs."""

    size: str
    fanouts: tuple[int, ...]
    strategies: tuple[str, ...]
    epochs: int
    rounds: int
    batches: int


CASES = (
    Case("arxiv", (15, 10, 5), ALL, 5, 7, 2),
    Case("arxiv", (10, 10), SOME, 5, 7, 2),
    Case("products", (10, 10), ALL, 3, 7, 2),
    Case("products", (15, 10, 5), SOME, 2, 3, 1),
    Case("products", (10, 10, 10), PUBLISHED, 2, 3, 1),
    Case("products", (5, 5, 5), PUBLISHED, 2, 5, 1),
)
QUICK = (Case("arxiv", (10, 10), ALL, 1, 3, 1),)
SEED = 7
IDLE = 0.5
"""Seconds without a drawn row after which a cache is considered idle."""


def loader_rows(*, quick: bool) -> list[dict[str, Any]]:
    """Return one row per graph, list of fanouts and strategy."""
    rows = []
    for case in QUICK if quick else CASES:
        with linked(case.size) as path:
            found, _ = run_apart("refresh_loader", {"path": str(path), **asdict(case)})
            for row in found:
                rows.append({"size": case.size, "fanouts": case.fanouts, **row})
                print(
                    f"{case.size} {case.fanouts} {row['strategy']}: {row['epoch_ratio']:.2f} of FBL's time", flush=True
                )
    return rows


def main() -> None:
    """Run the requested measurement."""
    wish = asked()
    with snapdb.connect(wish["path"]) as database:
        streams = {}
        for strategy in STRATEGIES:
            if strategy.name in wish["strategies"]:
                stream = database.stream(define(database, strategy, wish["fanouts"]), threads=0)
                _take(endless(stream), 2)
                streams[strategy.name] = stream
                print(f"{strategy.name}: filled in {full(stream):.1f} s", file=sys.stderr, flush=True)
        sources = {name: endless(stream) for name, stream in streams.items()}
        epochs = _turns(sources, wish["epochs"], streams["FBL"].batches, lambda name: _settle(streams[name]))
        found = _turns(sources, wish["rounds"], wish["batches"])
        sources = {name: samples(stream) for name, stream in streams.items()}
        sampled = _turns(sources, wish["rounds"], wish["batches"])
        rows = [_row(name, stream, epochs, found, sampled) for name, stream in streams.items()]
    print(json.dumps(rows))


Spent = dict[str, list[tuple[float, float]]]
"""Strategy → (wall-clock seconds, CPU seconds of this thread) per batch in each round."""


def _turns(
    sources: dict[str, Iterator[int]], rounds: int, batches: int, settle: Callable[[str], object] = lambda name: None
) -> Spent:
    """Time the batches of every source in each round. The order rotates, so that conditions are the same for all."""
    spent: Spent = {name: [] for name in sources}
    order = list(sources)
    for turn in range(rounds):
        for name in order[turn % len(order) :] + order[: turn % len(order)]:
            clock, busy = time.perf_counter(), time.thread_time()
            _take(sources[name], batches)
            each = (time.perf_counter() - clock, time.thread_time() - busy)
            spent[name].append((each[0] / batches, each[1] / batches))
            settle(name)
    return spent


def _settle(stream: BatchStream) -> None:
    """Wait until the cache's thread draws no more rows, which would slow down the next measurement."""
    drawn = -1
    while cache_of(stream) is not None and drawn != (drawn := stats_of(stream).drawn):
        time.sleep(IDLE)


def endless(stream: BatchStream) -> Iterator[int]:
    """Yield the number of edges in each ready batch, over any number of epochs."""
    while True:
        for batch in stream:
            yield sum(index.shape[1] for index in batch.edge_index.values())


def samples(stream: BatchStream) -> Iterator[int]:
    """Yield the number of edges in sampled neighbourhoods with the batch number that the cache has reached."""
    scratch, size = stream.sampler.scratch(), stream.sampler.spec.batch_size
    number = stats_of(stream).batch or 0
    order = epoch_order(stream.seeds, SEED, 0, "SHUFFLE")
    while True:
        for low in range(0, order.size, size):
            entry = vertex_input("node", stream.seeds.ids[order[low : low + size]])
            found = stream.sampler.sample(entry, number, scratch)
            yield sum(edges.position.size for edges in found.edges.values())


def _take(batches: Iterator[int], count: int) -> int:
    return sum(next(batches) for _ in range(count))


def refilled(stream: BatchStream, batches: int) -> None:
    """Redraw the rows that become stale within this many batches. No batch may be in progress."""
    number = (stats_of(stream).batch or 0) + batches
    cache_of(stream).reader.fill(lambda: number, lambda: None, lambda: None)


def _refreshing(stream: BatchStream) -> float:
    """Return the CPU time of a period's refresh per batch, or 0 under SCOPE VISITED, where batches redraw rows."""
    refresh = stream.spec.refresh
    if refresh is None or refresh.visited or refresh.every is None:
        return 0.0
    began = time.thread_time()
    refilled(stream, refresh.every)
    return (time.thread_time() - began) / refresh.every


def _row(name: str, stream: BatchStream, epochs: Spent, ready: Spent, sampled: Spent) -> dict[str, Any]:
    """Return the medians. A ratio compares a round with the same round of FBL."""
    stats, refreshing = stats_of(stream), _refreshing(stream)
    return {
        "strategy": name,
        "epoch_seconds": median(clock for clock, _ in epochs[name]),
        "epoch_ratio": _ratio(epochs, name, 0),
        "refreshing": refreshing,
        "refreshed_ratio": _ratio(ready, name, 1) + refreshing / median(busy for _, busy in ready["FBL"]),
        "seconds": median(clock for clock, _ in ready[name]),
        "ratio": _ratio(ready, name, 0),
        "cpu_ratio": _ratio(ready, name, 1),
        "sample_seconds": median(busy for _, busy in sampled[name]),
        "sample_ratio": _ratio(sampled, name, 1),
        "bytes": stats.bytes,
        "edges": stats.edges,
        "hit_rate": stats.hit_rate,
        "every": None if stream.spec.refresh is None else stream.spec.refresh.every,
        "topology": topology_of(stream),
    }


def _ratio(spent: Spent, name: str, kind: int) -> float:
    pairs = zip(spent[name], spent["FBL"], strict=True)
    return median(mine[kind] / theirs[kind] for mine, theirs in pairs)


def topology_of(stream: BatchStream) -> dict[str, int]:
    """Return the number of edges that the sampler reads from, and the bytes of rows and of edge ids."""
    adjacency = stream.view.adjacency(stream.sampler.relations[0])
    rows, ids = adjacency.rows, adjacency.edge_id.root
    entries = int(np.asarray(rows.indices.size))
    return {"edges": entries, "bytes": int(rows.indptr.nbytes + rows.indices.nbytes), "ids": int(ids.nbytes)}


if __name__ == "__main__":
    main()

"""EXPLAIN SAMPLE: the operators of one epoch, estimated from a few batches that are actually built.

A batch depends only on its number, so the measured batches are the ones that a trainer would receive. ANALYZE builds
the whole epoch in the same way as a stream and discards the batches.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from snapdb import loading
from snapdb.builders.element_columns import read_tables
from snapdb.execute.explain import details
from snapdb.execute.explain.feature_caches import SERVING_FEATURES, feature_cache_nodes, feature_cache_numbers
from snapdb.execute.explain.neighbor_pools import SERVING_CACHE, CacheWatch, pool_nodes
from snapdb.execute.samples.opening import open_sample
from snapdb.execute.session import ExecutionContext
from snapdb.graph.layout import read_layout
from snapdb.loading.source import StreamOptions, StreamSource
from snapdb.plan.plan import PlanNode
from snapdb.plan.samples import SamplePlan
from snapdb.plan.samples.plans import unreached_fanouts
from snapdb.plan.snapshots import event_unit
from snapdb.storage.array_files import lacks_huge_pages
from snapdb.types import EdgeType
from snapdb.types.text import counted

if TYPE_CHECKING:
    from snapdb.loading import Batch
    from snapdb.loading.metered import MeteredStream


@dataclass(slots=True)
class _Tally:
    """Counts over several batches. Scaled counts are rounded to integers."""

    batches: int = 0
    """The number of batches."""
    seeds: int = 0
    """The number of seeds."""
    bytes: int = 0
    """The size of all tensors of the batches, in bytes."""
    nodes: Counter[str] = field(default_factory=Counter)
    """The number of nodes by vertex type."""
    features: Counter[tuple[str, str]] = field(default_factory=Counter)
    """The number of bytes read, by vertex type and feature."""
    edges: Counter[tuple[EdgeType, int]] = field(default_factory=Counter)
    """The number of edges sampled, by the batch's edge type and hop."""
    frontier: Counter[tuple[EdgeType, int]] = field(default_factory=Counter)
    """The number of nodes expanded, by the batch's edge type and hop."""
    negatives: int = 0
    """The number of negative samples."""
    missing: int = 0
    """The number of negatives that were requested but could not be found."""

    def add(self, batch: Batch) -> None:
        """Add a batch to the counts."""
        self.batches += 1
        self.seeds += batch.batch_size
        self.missing += batch.negatives_missing
        if batch.edge_label_index is not None:
            self.negatives += batch.edge_label_index.shape[1] - batch.batch_size
        for name, ids in batch.n_id.items():
            self.nodes[name] += len(ids)
            self.features.update({(name, label): _size(rows) for label, rows in batch.features[name].items()})
        for key, counts in batch.num_sampled_edges.items():
            met = batch.num_sampled_nodes[key.destination]
            expanded = list(accumulate(met)) if batch.layout == "BLOCKS" else met
            for hop, count in enumerate(counts):
                self.edges[key, hop] += count
                self.frontier[key, hop] += expanded[hop]
        self.bytes += sum(_size(tensor) for tensor in batch.tensors())

    def scaled(self, seeds: int, batches: int) -> _Tally:
        """Return the counts, extrapolated to a different number of seeds and batches."""
        factor = seeds / self.seeds if self.seeds else 0.0

        def each(counts: Counter[Any]) -> Counter[Any]:
            return Counter({key: round(count * factor) for key, count in counts.items()})

        return _Tally(
            batches,
            seeds,
            round(self.bytes * factor),
            each(self.nodes),
            each(self.features),
            each(self.edges),
            each(self.frontier),
            round(self.negatives * factor),
            round(self.missing * factor),
        )


def _size(tensor: Any) -> int:
    """Return the size of a tensor in bytes. For a sparse tensor, it is the sum of its three parts."""
    if tensor.layout.__repr__() != "torch.sparse_csr":
        return int(tensor.nbytes)
    return sum(int(part.nbytes) for part in (tensor.crow_indices(), tensor.col_indices(), tensor.values()))


_PROBES = 4
_PATIENCE = 1.0
"""The time in seconds after which no further batch is measured."""
_EDGE = 24
"""The number of bytes per edge, for two local ids and a position."""

_Expanded = tuple[EdgeType, int]
"""The edge type of a batch, and a hop."""


@dataclass(frozen=True, slots=True)
class _Work:
    """The contents of the measured batches, and the time in seconds to build them."""

    tally: _Tally
    """The counts of the batches."""
    making: float
    """The CPU time of all threads together, in seconds."""
    sampling: float
    """The part of `making` that was spent on sampling neighbours."""
    shares: dict[_Expanded, float]
    """The share of each step in the sampling time. The shares add up to 1."""


def explain_sample(context: ExecutionContext, plan: SamplePlan, *, analyze: bool) -> PlanNode:
    """Return the operators of one epoch. With `analyze`, also run it."""
    started = time.perf_counter()
    opened = open_sample(context, plan)
    reading = time.perf_counter() - started
    try:
        context.check_stopped()
        with plan.places.under(), _metered(context, opened) as stream:
            expected, looked = _probed(context, stream)
            root = _root(context, plan, opened, stream, looked)
            _fill(root, expected, stream.options.threads_of(1), reading)
            cached = opened.cache is not None or opened.feature_cache is not None
            if analyze and not cached:
                _analyze(context, root, stream, expected.shares)
        if analyze and cached:  # the measured batches do not need cached rows
            with plan.places.under(), _metered(context, opened, caches=True) as stream:
                _analyze(context, root, stream, expected.shares)
    finally:
        opened.release()
    return root


def _metered(context: ExecutionContext, opened: StreamSource, *, caches: bool = False) -> MeteredStream:
    # Several streams read the source one after another, so no stream may release it.
    source = opened._replace(lease=None)
    if not caches:
        source = source._replace(cache=None, feature_cache=None)
    return loading.MeteredStream(source, StreamOptions(max_threads=context.threads))


def _probed(context: ExecutionContext, stream: MeteredStream) -> tuple[_Work, int]:
    """Return the work of an epoch, extrapolated from a few of its batches, and the number of these batches."""
    batches, seeds = len(stream), _epoch_seeds(stream)
    tally, places = _Tally(), _places(stream)
    if places:
        context.step(f"sampling a few batches of {stream.spec.snapshot}", None)
        stream.replayed(0, places[-1])  # a warm-up batch, so that kernel loading and page faults are not measured
        stream.start()
    started = time.perf_counter()
    for place in places:
        context.check_stopped()
        tally.add(stream.replayed(0, place))
        if time.perf_counter() - started > _PATIENCE:
            break
    context.check_stopped()
    steps: Mapping[_Expanded, float] = stream.steps(_PATIENCE)
    if not sum(steps.values()):  # too short to time, so the shares are based on the numbers of edges
        steps = tally.edges
    total = sum(steps.values())
    shares = {step: amount / total for step, amount in steps.items()} if total else {}
    scale = seeds / tally.seeds if tally.seeds else 0.0
    meter = stream.meter
    seconds = meter.build_seconds * scale, meter.sample_seconds * scale
    return _Work(tally.scaled(seeds, batches), *seconds, shares), tally.batches


def _places(stream: MeteredStream) -> list[int]:
    """Return the batches to measure: spread over the epoch, or the first ones if batches depend on earlier ones."""
    batches, refresh = len(stream), stream.spec.refresh
    if refresh is not None and refresh.visited:
        return list(range(min(_PROBES, batches)))
    return sorted({place * batches // _PROBES for place in range(_PROBES)}) if batches else []


def _epoch_seeds(stream: MeteredStream) -> int:
    seeds, subset = stream.seeds.ids.size, stream.spec.subset
    return seeds if subset is None else min(seeds, math.ceil(seeds * subset))


def _root(
    context: ExecutionContext, plan: SamplePlan, opened: StreamSource, stream: MeteredStream, looked: int
) -> PlanNode:
    """Return the operators, without numbers."""
    spec, (backend, why) = opened.spec, details.back_end(opened.spec, plan.hints)
    unit = event_unit(plan.snapshot.graph, read_tables(context, plan.snapshot), None)
    threads = stream.options.threads_of(1)
    memory = "memory as needed" if spec.memory is None else f"at most {spec.memory:,} bytes of memory"
    detail = (
        f"{_batches(len(stream))} of {spec.batch_size} from {spec.snapshot}: {counted(threads, 'thread')}, {memory}, "
        f"on {stream.device} WITH {backend}, {why}; estimated from {_batches(looked)}"
    )
    nodes = [*_expand_nodes(context, plan, stream, backend), *pool_nodes(context, plan, opened, stream)]
    if spec.link is not None and spec.link.negatives is not None:
        nodes.append(PlanNode("Negatives", details.negatives(spec), key="negatives"))
    nodes.append(PlanNode("Seeds", details.seed_order(spec), key="seeds"))
    drawing = f"{details.method(plan.hints.drawing or spec.drawing)}; {details.eligible(spec, unit)}"
    if lacks_huge_pages(traversal.arrays.rows.indices for traversal in stream.sampler.backend.host_traversals):
        drawing += "; no huge pages for files on this kernel: random reads of the topology miss the TLB"
    sample = PlanNode("Sample", drawing, tuple(nodes), key="sample")
    features = [
        PlanNode("Feature", details.feature_words(opened.view, kind, name, feature), key=("feature", kind, name))
        for kind in stream.sampler.node_types
        for name, feature in opened.view.node_features.get(kind, {}).items()
    ]
    when = details.gathered(plan.hints)
    caches, hints = feature_cache_nodes(context, opened, stream)
    children = (*features, *caches, sample)
    gather = PlanNode("Gather", f"features and targets of all nodes, {when}", children, key="gather")
    return PlanNode("Stream", detail, (gather, *hints), key="stream")


def _batches(number: int) -> str:
    return counted(number, "batch", "batches")


def _expand_nodes(context: ExecutionContext, plan: SamplePlan, stream: MeteredStream, backend: str) -> list[PlanNode]:
    """Return a plan node for each hop and relation, last hop first, in the order in which they are nested."""
    layouts = {edge.name: edge for edge in read_layout(context.store.db_dir, plan.snapshot).edges}
    idle = {relation for fanout in unreached_fanouts(plan.spec) for relation in fanout.relations} - plan.hints.idle
    nodes = []
    for hop in range(plan.spec.hops):
        for traversal in stream.sampler.traversals:
            relation = traversal.relation
            count = traversal.fanout.counts[hop]
            if not count:
                continue
            form = details.row_form(context, layouts[relation.edge.edge], relation, backend, plan.hints)
            unreached = ", not reachable from the seeds" if relation in idle else ""
            edges = f"{relation.edge.edge} {relation.direction} => {details.count_words(count)}"
            detail = f"hop {hop}: {edges}, {form}{unreached}"
            nodes.append(PlanNode("Expand", detail, key=("expand", relation.key, hop)))
    return nodes[::-1]


def _fill(root: PlanNode, work: _Work, threads: int, reading: float) -> None:
    """Set the estimates of every plan node in CPU seconds, and those of the node Stream in elapsed seconds."""
    seconds = work.making / max(1, threads)
    for node in root.walk():
        if _is_measured(node):
            node.estimates = _numbers(node.key, work, seconds, reading)


def _is_measured(node: PlanNode) -> bool:
    """Return whether a plan node's numbers are measured. The numbers of pools and caches are computed."""
    return node.key not in (None, SERVING_CACHE, SERVING_FEATURES)


def _numbers(key: Hashable, work: _Work, seconds: float, reading: float) -> dict[str, Any]:
    """Return the measurements or estimates of the plan node with the given key."""
    tally, gathering = work.tally, max(0.0, work.making - work.sampling)
    size, edges = sum(tally.features.values()), sum(tally.edges.values())
    match key:
        case "stream":
            return _numbered(tally.batches, tally.bytes, seconds)
        case "gather":
            return _numbered(sum(tally.nodes.values()), size, gathering)
        case ("feature", str(kind), str(name)):
            own = tally.features[kind, name]
            return _numbered(tally.nodes[kind], own, gathering * own / size if size else 0.0)
        case "sample":
            return _numbered(edges, edges * _EDGE, work.sampling)
        case ("expand", EdgeType() as relation, int(hop)):
            drawn, share = tally.edges[relation, hop], work.shares.get((relation, hop), 0.0)
            numbers = _numbered(drawn, drawn * _EDGE, work.sampling * share)
            return {**numbers, "frontier": tally.frontier[relation, hop]}
        case "negatives":
            return {**_numbered(tally.negatives, 8 * tally.negatives, 0.0), "missing": tally.missing}
        case "seeds":
            return _numbered(tally.seeds, 8 * tally.seeds, reading)
    raise AssertionError(f"unreachable: {key}")


def _numbered(rows: int, size: int, seconds: float) -> dict[str, Any]:
    return {"rows": rows, "bytes": size, "seconds": round(seconds, 4)}


def _analyze(context: ExecutionContext, root: PlanNode, stream: MeteredStream, shares: dict[_Expanded, float]) -> None:
    """Run the epoch and set the measurements next to the estimates."""
    tally, watch, what = _Tally(), CacheWatch(stream), f"sampling {stream.spec.snapshot}"
    stream.start()
    stream.set_epoch(0)
    batches, started = len(stream), time.perf_counter()
    for batch in stream:
        tally.add(batch)
        watch.batch()
        context.step(what, tally.batches / batches)
    seconds, meter, kept = time.perf_counter() - started, stream.meter, watch.numbers()
    work = _Work(tally, meter.build_seconds, meter.sample_seconds, shares)
    for node in root.walk():
        if _is_measured(node):
            node.measure(_numbers(node.key, work, seconds, float(node.estimates["seconds"])))
        elif node.key == SERVING_CACHE and kept is not None:
            node.measure(kept)
        elif node.key == SERVING_FEATURES and (stats := stream.cache_stats("FEATURES")) is not None:
            node.measure(feature_cache_numbers(stats, batches))
    threads = max(1, len(meter.threads))
    root.actual |= {"threads": threads, "busy": round(meter.cpu_seconds / (threads * seconds), 3) if seconds else 0.0}

"""EXPLAIN WALK: the steps of one epoch's walks, estimated from a few batches that are actually built.

ANALYZE builds the whole epoch in the same way as a stream and discards the batches.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from snapdb.builders.element_columns import read_tables
from snapdb.execute.explain import details
from snapdb.execute.explain.probes import batch_words, epoch_seeds, metered, numbered, places
from snapdb.execute.samples.opening import open_sample
from snapdb.execute.session import ExecutionContext
from snapdb.graph.layout import read_layout
from snapdb.loading.source import StreamSource
from snapdb.plan.plan import PlanNode
from snapdb.plan.samples import SamplePlan
from snapdb.plan.samples.plans import step_words, walk_words
from snapdb.plan.snapshots import event_unit
from snapdb.types.sampling import RandomWalk
from snapdb.types.text import counted

if TYPE_CHECKING:
    from snapdb.loading.metered import MeteredStream
    from snapdb.loading.walk_batch import WalkBatch

_PATIENCE = 1.0
"""The time in seconds after which no further batch is measured."""
_STEP = 16
"""The number of bytes per step, for a vertex and the position of an edge."""


@dataclass(slots=True)
class _Tally:
    """Counts over several batches of walks."""

    batches: int = 0
    """The number of batches."""
    seeds: int = 0
    """The number of seeds."""
    bytes: int = 0
    """The size of all tensors of the batches, in bytes."""
    steps: Counter[int] = field(default_factory=Counter)
    """The number of vertices reached, by the place of the step in the metapath."""
    pairs: int = 0
    """The number of skip-gram pairs."""
    negatives: int = 0
    """The number of negatives of these pairs."""

    def add(self, batch: WalkBatch, walk: RandomWalk) -> None:
        """Add a batch to the counts."""
        self.batches += 1
        self.seeds += batch.batch_size
        self.bytes += sum(int(tensor.nbytes) for tensor in batch.tensors())
        for place in range(min(len(walk.steps), walk.length)):
            reached = batch.walks[:, 1 + place :: len(walk.steps)]
            self.steps[place] += int((reached >= 0).sum())
        if batch.pairs is not None:
            self.pairs += batch.pairs.shape[1]
        if batch.negatives is not None:
            self.negatives += batch.negatives.numel()

    def scaled(self, seeds: int, batches: int) -> _Tally:
        """Return the counts, extrapolated to a different number of seeds and batches."""
        factor = seeds / self.seeds if self.seeds else 0.0
        steps = Counter({place: round(count * factor) for place, count in self.steps.items()})
        sizes = (round(count * factor) for count in (self.bytes, self.pairs, self.negatives))
        size, pairs, negatives = sizes
        return _Tally(batches, seeds, size, steps, pairs, negatives)


@dataclass(frozen=True, slots=True)
class _Work:
    """The contents of the measured batches, and the time in seconds to build them."""

    tally: _Tally
    """The counts of the batches."""
    making: float
    """The CPU time of all threads together, in seconds."""
    walking: float
    """The part of `making` that was spent on walking and on drawing pairs."""


def explain_walk(context: ExecutionContext, plan: SamplePlan, walk: RandomWalk, *, analyze: bool) -> PlanNode:
    """Return the operators of one epoch of WALK. With `analyze`, also run it."""
    started = time.perf_counter()
    opened = open_sample(context, plan)
    reading = time.perf_counter() - started
    try:
        context.check_stopped()
        with plan.places.under(), metered(context, opened) as stream:
            work, looked = _probed(context, stream, walk)
            root = _root(context, plan, opened, stream, walk, looked)
            seconds = work.making / max(1, stream.options.threads_of(1))
            for node in root.walk():
                node.estimates = _numbers(node.key, work, seconds, reading)
            if analyze:
                _analyze(context, root, stream, walk)
    finally:
        opened.release()
    return root


def _probed(context: ExecutionContext, stream: MeteredStream, walk: RandomWalk) -> tuple[_Work, int]:
    """Return the work of an epoch, extrapolated from a few of its batches, and the number of these batches."""
    tally, chosen, seeds = _Tally(), places(stream), epoch_seeds(stream)
    if chosen:
        context.step(f"walking over {stream.spec.snapshot}", None)
        _batch(stream, chosen[-1])  # a warm-up batch, so that kernel loading and page faults are not measured
        stream.start()
    started = time.perf_counter()
    for place in chosen:
        context.check_stopped()
        tally.add(_batch(stream, place), walk)
        if time.perf_counter() - started > _PATIENCE:
            break
    scale, meter = seeds / tally.seeds if tally.seeds else 0.0, stream.meter
    making, walking = meter.build_seconds * scale, meter.sample_seconds * scale
    return _Work(tally.scaled(seeds, len(stream)), making, walking), tally.batches


def _batch(stream: MeteredStream, place: int) -> WalkBatch:
    batch: Any = stream.replayed(0, place)
    walks: WalkBatch = batch
    return walks


def _root(
    context: ExecutionContext,
    plan: SamplePlan,
    opened: StreamSource,
    stream: MeteredStream,
    walk: RandomWalk,
    looked: int,
) -> PlanNode:
    """Return the operators, without numbers."""
    spec, (backend, why) = opened.spec, details.back_end(opened.spec, plan.hints)
    threads = stream.options.threads_of(1)
    memory = "memory as needed" if spec.memory is None else f"at most {spec.memory:,} bytes of memory"
    detail = (
        f"{batch_words(len(stream))} of {spec.batch_size} from {spec.snapshot}: {counted(threads, 'thread')}, "
        f"{memory}, on {stream.device} WITH {backend}, {why}; estimated from {batch_words(looked)}"
    )
    nodes = _step_nodes(context, plan, walk, backend)
    if walk.negatives:
        nodes.append(PlanNode("Negatives", f"{walk.negatives} per pair, uniform", key="negatives"))
    if walk.window is not None:
        nodes.append(PlanNode("Pairs", f"vertices at most {counted(walk.window, 'step')} apart", key="pairs"))
    nodes.append(PlanNode("Seeds", details.seed_order(spec), key="seeds"))
    unit = event_unit(plan.snapshot.graph, read_tables(context, plan.snapshot), None)
    words = "; ".join(filter(None, (walk_words(walk), details.walk_weights(spec.drawing), details.bounds(spec, unit))))
    return PlanNode("Stream", detail, (PlanNode("Walk", words, tuple(nodes), key="walk"),), key="stream")


def _step_nodes(context: ExecutionContext, plan: SamplePlan, walk: RandomWalk, backend: str) -> list[PlanNode]:
    """Return a plan node for each step of the metapath, last step first, in the order in which they are nested."""
    layouts = {edge.name: edge for edge in read_layout(context.store.db_dir, plan.snapshot).edges}
    return [
        PlanNode(
            "Step",
            f"{words}, {details.row_form(context, layouts[step.edge.edge], step, backend, plan.hints)}",
            key=("step", place),
        )
        for place, (step, words) in enumerate(zip(walk.steps, step_words(walk), strict=True))
    ][::-1]


def _numbers(key: Hashable, work: _Work, seconds: float, reading: float) -> dict[str, Any]:
    """Return the measurements or estimates of the plan node with the given key."""
    tally = work.tally
    steps = sum(tally.steps.values())
    match key:
        case "stream":
            return numbered(tally.batches, tally.bytes, seconds)
        case "walk":
            return numbered(steps, steps * _STEP, work.walking)
        case ("step", int(place)):
            own = tally.steps[place]
            return numbered(own, own * _STEP, work.walking * own / steps if steps else 0.0)
        case "pairs":
            return numbered(tally.pairs, 16 * tally.pairs, 0.0)
        case "negatives":
            return numbered(tally.negatives, 8 * tally.negatives, 0.0)
        case "seeds":
            return numbered(tally.seeds, 8 * tally.seeds, reading)
    raise AssertionError(f"unreachable: {key}")


def _analyze(context: ExecutionContext, root: PlanNode, stream: MeteredStream, walk: RandomWalk) -> None:
    """Run the epoch and set the measurements next to the estimates."""
    tally, what = _Tally(), f"walking over {stream.spec.snapshot}"
    stream.start()
    stream.set_epoch(0)
    batches, started = len(stream), time.perf_counter()
    every: Any = iter(stream)
    for batch in every:
        tally.add(batch, walk)
        context.step(what, tally.batches / batches)
    seconds, meter = time.perf_counter() - started, stream.meter
    work = _Work(tally, meter.build_seconds, meter.sample_seconds)
    for node in root.walk():
        node.measure(_numbers(node.key, work, seconds, float(node.estimates["seconds"])))
    threads = max(1, len(meter.threads))
    root.actual |= {"threads": threads, "busy": round(meter.cpu_seconds / (threads * seconds), 3) if seconds else 0.0}

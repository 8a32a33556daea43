"""SAMPLE as rows: one for each sampled edge, with the user's ids, in the order of batches whoever makes them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import pyarrow as pa

from snapdb.execute.operator import Engine, Outcome, Rows
from snapdb.execute.samples.opening import Opened, open_sample
from snapdb.execute.samples.rows import RowMaker, Task
from snapdb.loading.options import Options
from snapdb.loading.ordered import Ordered
from snapdb.plan.samples import CreateSamplerPlan, SamplePlan
from snapdb.plan.samples.plans import unreached_fanouts
from snapdb.sampling import Seeds, batches_before, epoch_order
from snapdb.storage.names import put_name
from snapdb.types import Sampler, SampleSpec
from snapdb.types.text import counted


@dataclass(frozen=True, slots=True)
class Sample:
    """Draws the epochs' batches, one after another or several at once."""

    plan: SamplePlan

    def run(self, engine: Engine) -> Rows:
        opened = open_sample(engine, self.plan)
        try:
            engine.check_stopped()
            with self.plan.places.under():
                maker = RowMaker(opened, self.plan.way)
            yield pa.RecordBatch.from_pylist([], schema=maker.schema)
            yield from self._made(engine, opened, maker)
        finally:
            opened.lease.release()
        return None

    def _made(self, engine: Engine, opened: Opened, maker: RowMaker) -> Iterator[pa.RecordBatch]:
        """The rows of all batches in their order; threads that make others end with the last, or when nobody reads."""

        def made(task: Task) -> list[pa.RecordBatch]:
            engine.check_stopped()
            return maker.rows(task)

        total = batches_before(opened.seeds.ids.size, opened.spec, self.plan.epochs)
        asked = Options(self.plan.way.threads, most=engine.threads)
        threads = 1 if maker.in_order else min(asked.threads_of(1, on_gpu=maker.on_gpu), total)
        tasks = self._tasks(opened) if total else iter(())
        if threads <= 1:
            yield from _read(engine, self.plan, map(made, tasks), total)
            return
        results = Ordered(made, tasks, threads=threads, room=lambda under_way: maker.room(threads + 1))
        try:
            yield from _read(engine, self.plan, results, total)
        finally:
            results.close()

    def _tasks(self, opened: Opened) -> Iterator[Task]:
        for epoch in range(self.plan.epochs):
            yield from epoch_tasks(opened.seeds, opened.spec, epoch)


def epoch_tasks(seeds: Seeds, spec: SampleSpec, epoch: int) -> Iterator[Task]:
    """The batches of one epoch, in their order."""
    order = epoch_order(seeds, spec.seed, epoch, spec.order, spec.subset)
    first = batches_before(seeds.ids.size, spec, epoch)
    for index, start in enumerate(range(0, order.size, spec.batch_size)):
        yield Task(first + index, epoch, index, order[start : start + spec.batch_size])


def _read(
    engine: Engine, plan: SamplePlan, results: Iterator[list[pa.RecordBatch]], total: int
) -> Iterator[pa.RecordBatch]:
    """The rows of every batch, told as they come."""
    for number in range(total):
        engine.step(f"sampling {plan.spec.snapshot}", number / total)
        yield from next(results)


# CREATE SAMPLER: the row that keeps a SAMPLE statement under a name


_SHOWN = 3
"""Fanouts that a notice names."""


@dataclass(frozen=True, slots=True)
class CreateSampler:
    """Writes the sampler's row, in the place of the one that the plan replaces."""

    plan: CreateSamplerPlan

    def run(self, engine: Engine) -> Rows:
        yield from ()
        sampler = replace(self.plan.sampler, text=_text(engine, self.plan))
        with engine.ledger.writing(publishes=True) as connection:
            put_name(connection, sampler, self.plan.replaces)
        said = f"{_said(sampler)}{_unreached(self.plan.sample.spec)}"
        return Outcome(f"sampler {sampler.name} of snapshot {sampler.snapshot}: {said}")


def _text(engine: Engine, plan: CreateSamplerPlan) -> str:
    """What is kept; where rows serve EVERY AUTO batches, how many that are now."""
    refresh = plan.sample.spec.refresh
    if refresh is None or refresh.every is not None:
        return plan.sampler.text
    opened = open_sample(engine, plan.sample)
    opened.lease.release()
    return opened.spec.text


def _said(sampler: Sampler) -> str:
    edges = " edges" if sampler.edges else ""
    return f"batches of {sampler.batch:,} {sampler.seeds}{edges}, {counted(sampler.hops, 'hop')}"


def _unreached(spec: SampleSpec) -> str:
    """A notice of the fanouts that no hop can use; nothing where all can be used."""
    names = [f"{fanout.edge.edge} {fanout.direction}" for fanout in unreached_fanouts(spec)]
    if not names:
        return ""
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return f"; never reached from the seeds: {', '.join(names[:_SHOWN])}{more} (EXPLAIN shows each hop)"

"""Samples: the operators of SAMPLE, as rows, and CREATE SAMPLER."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pyarrow as pa

from snapdb.execute.operator import ExecutionContext, Outcome, Rows
from snapdb.execute.samples.opening import Opened, open_sample
from snapdb.execute.samples.rows import RowMaker, Task
from snapdb.loading.options import Options
from snapdb.loading.ordered import Ordered
from snapdb.plan.samples import CreateSamplerPlan, SamplePlan
from snapdb.plan.samples.plans import unreached_fanouts
from snapdb.sampling import Seeds, batches_before, epoch_order
from snapdb.storage.tables.commit import put_name
from snapdb.types import Sampler, SampleSpec
from snapdb.types.text import counted

_SHOWN = 3
"""Fanouts that a notice names."""


def sample(plan: SamplePlan, context: ExecutionContext) -> Rows:
    """SAMPLE: a row for each sampled edge, with the keys of the user's tables, in the order of batches."""
    opened = open_sample(context, plan)
    try:
        context.check_stopped()
        with plan.places.under():
            maker = RowMaker(opened, plan.way)
        yield pa.RecordBatch.from_pylist([], schema=maker.schema)
        yield from _sampled_rows(context, plan, opened, maker)
    finally:
        opened.lease.release()
    return None


def _sampled_rows(
    context: ExecutionContext, plan: SamplePlan, opened: Opened, maker: RowMaker
) -> Iterator[pa.RecordBatch]:
    """The rows of all batches in their order, made by one thread or by several; these end when the reader does."""

    def rows_of(task: Task) -> list[pa.RecordBatch]:
        context.check_stopped()
        return maker.rows(task)

    total = batches_before(opened.seeds.ids.size, opened.spec, plan.epochs)
    options = Options(plan.way.threads, most=context.threads)
    threads = 1 if maker.in_order else min(options.threads_of(1, on_gpu=maker.on_gpu), total)
    epochs = range(plan.epochs if total else 0)
    tasks = (task for epoch in epochs for task in epoch_tasks(opened.seeds, opened.spec, epoch))
    if threads <= 1:
        yield from _read(context, plan, map(rows_of, tasks), total)
        return
    results = Ordered(rows_of, tasks, threads=threads, room=lambda under_way: maker.room(threads + 1))
    try:
        yield from _read(context, plan, results, total)
    finally:
        results.close()


def epoch_tasks(seeds: Seeds, spec: SampleSpec, epoch: int) -> Iterator[Task]:
    """The batches of one epoch, in their order."""
    order = epoch_order(seeds, spec.seed, epoch, spec.order, spec.subset)
    first = batches_before(seeds.ids.size, spec, epoch)
    for index, start in enumerate(range(0, order.size, spec.batch_size)):
        yield Task(first + index, epoch, index, order[start : start + spec.batch_size])


def _read(
    context: ExecutionContext, plan: SamplePlan, results: Iterator[list[pa.RecordBatch]], total: int
) -> Iterator[pa.RecordBatch]:
    """The rows of every batch, with progress reported before each."""
    for number in range(total):
        context.step(f"sampling {plan.spec.snapshot}", number / total)
        yield from next(results)


def create_sampler(plan: CreateSamplerPlan, context: ExecutionContext) -> Rows:
    """CREATE SAMPLER: write the row of the sampler, in place of the one that the plan replaces."""
    yield from ()
    sampler = replace(plan.sampler, text=_text(context, plan))
    with context.store.catalog_db.writing(publishes=True) as connection:
        put_name(connection, sampler, plan.replaces)
    said = f"{_said(sampler)}{_unreached(plan.sample.spec)}"
    return Outcome(f"sampler {sampler.name} of snapshot {sampler.snapshot}: {said}")


def _text(context: ExecutionContext, plan: CreateSamplerPlan) -> str:
    """What is kept; where rows serve EVERY AUTO batches, how many that are now."""
    refresh = plan.sample.spec.refresh
    if refresh is None or refresh.every is not None:
        return plan.sampler.text
    opened = open_sample(context, plan.sample)
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

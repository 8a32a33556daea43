"""COPY (SAMPLE …) TO: writes the batches of a sampler to a directory with a manifest, one file per batch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from snapdb import loading
from snapdb.execute.exports.folders import export_folder
from snapdb.execute.results import Outcome, Rows
from snapdb.execute.samples.opening import open_sample
from snapdb.execute.session import ExecutionContext
from snapdb.loading.source import StreamOptions, StreamSource
from snapdb.plan.exports import CopySamplePlan
from snapdb.types.text import counted, size_words

if TYPE_CHECKING:
    from snapdb.loading import BatchWriter


def copy_sample(plan: CopySamplePlan, context: ExecutionContext) -> Rows:
    """Run COPY (SAMPLE …) TO: write each batch of the epochs, built as in a stream, to its own file."""
    yield from ()
    with export_folder(context, plan.path, plan.span, overwrite=plan.overwrite) as folder:
        opened = open_sample(context, plan.sample)
        try:
            context.check_stopped()
            batches, size = _write_batches(plan, context, opened, loading.BatchWriter(folder, plan.format))
        finally:
            opened.release()
    return Outcome(f"{counted(batches, 'batch', 'batches')} to {plan.path}, {size_words(size)}", batches)


def _write_batches(
    plan: CopySamplePlan, context: ExecutionContext, opened: StreamSource, writer: BatchWriter
) -> tuple[int, int]:
    """Write each batch on the thread that builds it, and return the number of batches and bytes."""
    sample, what, done, size = plan.sample, f"writing {plan.path}", 0, 0
    with (
        sample.places.under(),
        loading.BatchStream(
            opened, StreamOptions(max_threads=context.threads, device="cpu", transform=writer)
        ) as stream,
    ):
        lineage = stream.lineage
        for epoch in range(sample.epochs if len(stream) else 0):
            total = len(stream)
            # The results of the transform replace the batches. Here, they are the numbers of bytes written.
            sizes: Iterator[Any] = iter(stream)
            for number, written in enumerate(sizes):
                context.step(what, (epoch + number / total) / sample.epochs)
                done, size = done + 1, size + written
        writer.finish(lineage, sample.epochs)
    return done, size

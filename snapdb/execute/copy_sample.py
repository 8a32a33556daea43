"""COPY (SAMPLE …) TO: the batches of some epochs in a folder, one file each, just as a stream gives them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from snapdb import loading
from snapdb.execute.export_folder import export_folder
from snapdb.execute.operator import Engine, Outcome, Rows
from snapdb.execute.samples.opening import Opened, open_sample
from snapdb.plan.exports import CopySamplePlan
from snapdb.types.text import counted, size_words

if TYPE_CHECKING:
    from snapdb.loading import BatchWriter


@dataclass(frozen=True, slots=True)
class CopySample:
    """Fills a folder beside the place, then gives it the place's name."""

    plan: CopySamplePlan

    def run(self, engine: Engine) -> Rows:
        yield from ()
        plan, sample = self.plan, self.plan.sample
        with export_folder(engine, plan.path, plan.span, overwrite=plan.overwrite) as folder:
            opened = open_sample(engine, sample)
            try:
                engine.check_stopped()
                batches, size = self._written(engine, opened, loading.BatchWriter(folder, plan.format))
            finally:
                opened.lease.release()
        return Outcome(f"{counted(batches, 'batch', 'batches')} to {plan.path}, {size_words(size)}", batches)

    def _written(self, engine: Engine, opened: Opened, writer: BatchWriter) -> tuple[int, int]:
        """How many batches were written, and their bytes; the threads that make batches write them."""
        sample, what, done, size = self.plan.sample, f"writing {self.plan.path}", 0, 0
        with (
            sample.places.under(),
            loading.BatchStream(
                opened.view,
                opened.seeds,
                opened.spec,
                device="cpu",
                most=engine.threads,
                way=sample.way,
                cache=opened.cache,
                transform=writer,
            ) as stream,
        ):
            lineage = stream.lineage
            for epoch in range(sample.epochs if len(stream) else 0):
                total = len(stream)
                sizes: Iterator[Any] = iter(stream)  # a transform's results stand in the batches' places
                for number, written in enumerate(sizes):
                    engine.step(what, (epoch + number / total) / sample.epochs)
                    done, size = done + 1, size + written
            writer.finish(lineage, sample.epochs)
        return done, size

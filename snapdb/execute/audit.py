"""AUDIT SAMPLE: every batch of a sampler held against what SQL sees, rule by rule; a correct engine breaks none.

The batches are those that a trainer gets. Nothing of the sampler is asked: edges are found again by their ids in the
snapshot's views, times are the tables' own, and values that change are looked for again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from snapdb import loading
from snapdb.catalog.listing import listing
from snapdb.execute.audit_rows import Counts, Truth, snapshot_truth
from snapdb.execute.audit_values import wrong_values
from snapdb.execute.evidence import Evidence
from snapdb.execute.opening import Opened, open_sample
from snapdb.execute.operator import Engine, Rows
from snapdb.plan.samples import AuditPlan
from snapdb.types import Relation

if TYPE_CHECKING:
    from snapdb.loading import Batch, BatchStream


CHECKS = ("time", "feature time", "snapshot", "exclusion", "target horizon")
"""edges and vertices from beyond their seed's time; values that were not known then; edges and vertices that the
snapshot has not; what seeds must not see; targets of others than seeds, and seeds that were not born."""

_FIELDS = [("batch", pa.int64()), ("check", pa.string()), ("violations", pa.int64())]
_CHUNK = 1 << 21
"""Rows of evidence that are held against the tables at once: each time, these are read."""


@dataclass(frozen=True, slots=True)
class Audit:
    """Draws the epochs' batches, and gives a row for each batch and check."""

    plan: AuditPlan

    def run(self, engine: Engine) -> Rows:
        sample = self.plan.sample
        yield listing(_FIELDS, [])
        truth = snapshot_truth(engine, sample)
        opened = open_sample(engine, sample)
        try:
            engine.check_stopped()
            with (
                sample.places.under(),
                loading.BatchStream(
                    opened.view, opened.seeds, opened.spec, most=engine.threads, way=sample.way
                ) as stream,
            ):
                batches = _batches(engine, stream, sample.epochs)
                yield from audited(truth, opened, [walk.relation for walk in stream.sampler.walks], batches)
        finally:
            opened.lease.release()
        return None


def audited(
    truth: Truth, opened: Opened, relations: list[Relation], batches: Iterable[Batch], chunk: int = _CHUNK
) -> Iterator[pa.RecordBatch]:
    """`batch, check, violations` for each of the batches, which are numbered from 0, some `chunk` rows at a time."""
    evidence, found, first, number = Evidence(), Counts(), 0, -1
    for number, batch in enumerate(batches):
        evidence.add(number, batch, opened.seeds, relations)
        found += _of_batch(number, batch, opened)
        if evidence.size >= chunk:
            yield _listed(first, number + 1, found + truth.violations(evidence))
            evidence, found, first = Evidence(), Counts(), number + 1
    if first <= number:
        yield _listed(first, number + 1, found + truth.violations(evidence))


def _batches(engine: Engine, stream: BatchStream, epochs: int) -> Iterator[Batch]:
    """The epochs' batches, one after another."""
    for epoch in range(epochs if len(stream) else 0):
        for index, batch in enumerate(stream):
            yield batch
            engine.step(f"auditing {stream.spec.snapshot}", (epoch + (index + 1) / len(stream)) / epochs)


def _of_batch(number: int, batch: Batch, opened: Opened) -> Counts:
    """What takes no SQL to see."""
    targets = 0 if batch.y is None else max(0, len(batch.y) - batch.batch_size)
    found = {"feature time": wrong_values(opened.view, opened.seeds, batch), "target horizon": targets}
    return Counter({(number, check): count for check, count in found.items()})


def _listed(start: int, stop: int, found: Counts) -> pa.RecordBatch:
    return listing(
        _FIELDS, [(number, check, found[number, check]) for number in range(start, stop) for check in CHECKS]
    )

"""From a sampling plan to what a sampler or a stream needs: the view, the seeds, the lease on the files."""

from __future__ import annotations

from dataclasses import dataclass, replace

from snapdb.execute.operator import Engine
from snapdb.execute.seeds import read_seeds
from snapdb.graph import GraphView, open_snapshot
from snapdb.plan.logical import SamplePlan
from snapdb.sampling import Seeds
from snapdb.storage.locks import Lease

__all__ = ["Opened", "open_sample"]


@dataclass(frozen=True, slots=True)
class Opened:
    """A snapshot and seeds, ready to be sampled; the files stay until the lease is released."""

    view: GraphView
    seeds: Seeds
    lease: Lease


def open_sample(engine: Engine, plan: SamplePlan) -> Opened:
    """Open the plan's snapshot and read its seeds.

    Raises:
        CorruptError: a file of the snapshot is missing or damaged.
        DataError: the seeds do not fit.
    """
    engine.report(f"opening {plan.snapshot.name}", None)
    opened = open_snapshot(engine.home, engine.ledger, plan.snapshot)
    try:
        seeds = read_seeds(engine, plan, opened.view, opened.id_maps[plan.spec.seed_type])
    except BaseException:
        opened.lease.release()
        raise
    lineage = {**opened.view.lineage, "tables_version": engine.context.catalog.version}
    return Opened(replace(opened.view, lineage=lineage), seeds, opened.lease)

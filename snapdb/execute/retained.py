"""Which snapshots stay by what their graphs say of it, and why."""

from __future__ import annotations

from collections.abc import Mapping

from snapdb.catalog import Catalog, tags
from snapdb.schedule.retention import kept
from snapdb.storage.commit import now
from snapdb.storage.ledger import Ledger
from snapdb.types import Retention, Snapshot


def retained(
    catalog: Catalog, ledger: Ledger, retentions: Mapping[str, Retention]
) -> list[tuple[Snapshot, str | None]]:
    """The snapshots of graphs that have a retention, graph by graph, oldest first, with why each stays; None: it goes.

    What a sampler is of stays besides.

    Args:
        retentions: By the case-folded name of the graph.
    """
    moment = now()
    tagged = {tag.version for tag in tags(ledger)}
    samplers = {sampler.snapshot.lower(): sampler.name for sampler in catalog.samplers.values()}
    found: list[tuple[Snapshot, str | None]] = []
    for graph, retention in retentions.items():
        asked = [s for s in catalog.snapshots.values() if s.graph.name.lower() == graph]
        asked.sort(key=lambda s: (s.made, s.id))
        reasons = kept([(s.made, s.version in tagged) for s in asked], retention, moment)
        for snapshot, reason in zip(asked, reasons, strict=True):
            sampler = samplers.get(snapshot.name.lower())
            of_it = None if sampler is None else f"sampler {sampler} is of it"
            found.append((snapshot, reason or of_it))
    return found

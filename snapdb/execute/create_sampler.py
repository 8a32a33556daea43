"""CREATE SAMPLER: the row that keeps a SAMPLE statement under a name."""

from __future__ import annotations

from dataclasses import dataclass, replace

from snapdb.errors import CommitConflict
from snapdb.execute.operator import Engine, Outcome, Rows
from snapdb.plan.logical import CreateSamplerPlan
from snapdb.storage.codec import encode

__all__ = ["CreateSampler"]


@dataclass(frozen=True, slots=True)
class CreateSampler:
    """Writes the sampler's row, in the place of the one that the plan replaces."""

    plan: CreateSamplerPlan

    def run(self, engine: Engine) -> Rows:
        yield from ()
        sampler, before = self.plan.sampler, self.plan.replaces
        folded = sampler.snapshot.lower()
        with engine.ledger.writing() as connection:
            if (
                before is not None
                and not connection.execute("DELETE FROM samplers WHERE id = ?", (before.id,)).rowcount
            ):
                raise _moved(sampler.name, "replaced or dropped")
            if not connection.execute("SELECT 1 FROM snapshots WHERE folded = ?", (folded,)).fetchone():
                raise CommitConflict(f"snapshot {sampler.snapshot} was dropped meanwhile; nothing was changed",
                                     code="snapshot-moved")  # fmt: skip
            row = (sampler.name, sampler.name.lower(), folded)
            sql = (
                "INSERT INTO samplers (name, folded, snapshot, definition) VALUES (?, ?, ?, '') ON CONFLICT DO NOTHING"
            )
            added = connection.execute(sql, row)
            if not added.rowcount or added.lastrowid is None:
                raise _moved(sampler.name, "created")
            definition = encode(replace(sampler, id=added.lastrowid))
            connection.execute("UPDATE samplers SET definition = ? WHERE id = ?", (definition, added.lastrowid))
        return Outcome(f"sampler {sampler.name} of snapshot {sampler.snapshot}: {_said(sampler.seeds, self.plan)}")


def _said(seeds: str, plan: CreateSamplerPlan) -> str:
    edges = " edges" if plan.sampler.edges else ""
    hops = f"{plan.sampler.hops} hop{'' if plan.sampler.hops == 1 else 's'}"
    return f"batches of {plan.sampler.batch:,} {seeds}{edges}, {hops}"


def _moved(name: str, what: str) -> CommitConflict:
    return CommitConflict(f"sampler {name} moved: it was {what} meanwhile; run the statement again",
                          code="sampler-moved")  # fmt: skip

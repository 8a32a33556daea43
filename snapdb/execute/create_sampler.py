"""CREATE SAMPLER: the row that keeps a SAMPLE statement under a name."""

from __future__ import annotations

from dataclasses import dataclass, replace

from snapdb.execute.opening import open_sample
from snapdb.execute.operator import Engine, Outcome, Rows
from snapdb.plan.samples import CreateSamplerPlan
from snapdb.plan.samples.plans import unreached_fanouts
from snapdb.storage.names import put_name
from snapdb.types import Sampler, SampleSpec
from snapdb.types.text import counted

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

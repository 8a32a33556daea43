"""CREATE SAMPLER: a SAMPLE statement that was bound as if it were run, under a name."""

from __future__ import annotations

from snapdb.plan.bind_sample import bind_sample
from snapdb.plan.names import check_own
from snapdb.plan.plan import NothingPlan, Plan
from snapdb.plan.samples import CreateSamplerPlan
from snapdb.plan.scope import Context
from snapdb.sql.ast import CreateSampler
from snapdb.storage.commit import author, now
from snapdb.types import Sampler


def bind_create_sampler(statement: CreateSampler, context: Context) -> Plan:
    """The sampler with its statement whole: of SAMPLE USING, what that came to."""
    name = statement.name
    found = context.catalog.samplers.get(name.text.lower())
    if (there := check_own(statement, "sampler", found)) is not None:
        return NothingPlan(there)
    sample = bind_sample(statement.sample, context)
    spec = sample.spec
    sampler = Sampler(
        id=0,
        name=name.text,
        text=spec.text,
        snapshot=spec.snapshot,
        seeds=spec.seed_type if spec.link is None else spec.link.edge.edge,
        edges=spec.link is not None,
        batch=spec.batch_size,
        hops=spec.hops,
        method=spec.drawing.method,
        created=now(),
        author=author(),
    )
    return CreateSamplerPlan(sampler, found, sample)

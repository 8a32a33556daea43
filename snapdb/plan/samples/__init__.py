"""Plans of samples: SAMPLE, CREATE SAMPLER and AUDIT."""

from snapdb.plan.samples.bind import FAMILY, bind_sample
from snapdb.plan.samples.plans import AuditPlan, CreateSamplerPlan, SamplePlan, SeedColumns

__all__ = ["FAMILY", "AuditPlan", "CreateSamplerPlan", "SamplePlan", "SeedColumns", "bind_sample"]

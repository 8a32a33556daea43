"""Samples: SAMPLE, CREATE SAMPLER and AUDIT."""

from snapdb.plan.samples.plans import AuditPlan, CreateSamplerPlan, SamplePlan, SeedColumns

__all__ = ["AuditPlan", "CreateSamplerPlan", "SamplePlan", "SeedColumns"]

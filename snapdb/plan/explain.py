"""Queries, and EXPLAIN of any statement."""

from __future__ import annotations

from dataclasses import dataclass

from snapdb.plan.plan import Plan, PlanNode


@dataclass(frozen=True, slots=True)
class ExplainPlan(Plan):
    """What a plan would do, told instead of done."""

    plan: Plan
    text: str
    """The statement."""
    analyze: bool
    """Do it too, and tell what it took."""
    json: bool
    bound: Plan | None = None
    """What the rules found; None: no rule was asked."""
    rules: tuple[str, ...] = ()
    """The rules that changed it, by name, in the order in which they ran."""

    def children(self) -> tuple[Plan, ...]:
        return (self.plan,)

    def is_read(self) -> bool:
        return not self.analyze or self.plan.is_read()

    def fits_transaction(self) -> bool:
        return self.plan.fits_transaction()

    def describe(self) -> PlanNode:
        return PlanNode("Explain", "and do it" if self.analyze else "", (self.plan.describe(),))

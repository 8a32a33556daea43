"""EXPLAIN of any statement."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from snapdb.errors import BindError
from snapdb.plan.plan import Plan, PlanFamily, PlanNode, Rule
from snapdb.plan.planner import bind_unlocated
from snapdb.plan.samples import SamplePlan
from snapdb.plan.scope import BindContext
from snapdb.sql.explain import Explain
from snapdb.sql.snapshots import RefreshSnapshot


@dataclass(frozen=True, slots=True)
class ExplainPlan(Plan):
    """EXPLAIN: show the plan of a statement. With ANALYZE, also run it."""

    plan: Plan
    text: str
    """The statement text."""
    analyze: bool
    """Whether to run and measure the plan."""
    json: bool
    bound: Plan | None = None
    """The plan before optimization, or None if no rules were applied."""
    rules: tuple[str, ...] = ()
    """The names of the rules that changed the plan, in execution order."""

    def is_read(self) -> bool:
        return not self.analyze or self.plan.is_read()

    def fits_transaction(self) -> bool:
        return self.plan.fits_transaction()

    def optimized(self, rules: Sequence[Rule]) -> ExplainPlan:
        """Return a copy with the optimized inner plan, the bound plan, and the names of the rules that changed it."""
        if isinstance(self.plan, ExplainPlan):
            return replace(self, bound=self.plan, plan=self.plan.optimized(rules))
        optimized, names = self.plan, []
        for rule in rules:
            changed = rule(optimized)
            if changed != optimized:
                names.append(rule.__name__)
            optimized = changed
        return replace(self, bound=self.plan, plan=optimized, rules=tuple(names))

    def describe(self) -> PlanNode:
        return PlanNode("Explain", "analyze" if self.analyze else "", (self.plan.describe(),))


def _bind_explain(statement: Explain, context: BindContext) -> ExplainPlan:
    """Bind the explained statement, and record the output format."""
    inner = statement.statement
    if isinstance(inner, RefreshSnapshot) and inner.dry_run:
        raise BindError(
            "EXPLAIN and DRY RUN cannot be combined, because neither executes the statement; keep one of them",
            span=inner.span,
            code="explained-twice",
        )
    plan = bind_unlocated(inner, context)
    if isinstance(plan, SamplePlan):  # EXPLAIN measures a stream, which also reads features
        plan = replace(plan, delivers="batches")
    return ExplainPlan(plan, inner.text, statement.analyze, statement.json)


FAMILY = PlanFamily(
    binders={Explain: _bind_explain}, operators={ExplainPlan: "snapdb.execute.explain.operators:explain"}
)

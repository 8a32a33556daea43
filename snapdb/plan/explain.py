"""EXPLAIN of any statement, and the plan that does nothing."""

from dataclasses import dataclass, replace

from snapdb.errors import BindError
from snapdb.plan.plan import Binder, NothingPlan, Plan, PlanFamily, PlanNode
from snapdb.plan.samples import SamplePlan
from snapdb.plan.scope import BindContext
from snapdb.sql.explain import Explain
from snapdb.sql.snapshots import RefreshSnapshot


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

    def is_read(self) -> bool:
        return not self.analyze or self.plan.is_read()

    def fits_transaction(self) -> bool:
        return self.plan.fits_transaction()

    def describe(self) -> PlanNode:
        return PlanNode("Explain", "and do it" if self.analyze else "", (self.plan.describe(),))


def bind_explain(statement: Explain, context: BindContext, bind: Binder) -> ExplainPlan:
    """The plan of the statement that is explained, which `bind` gives, and how it is shown."""
    inner = statement.statement
    if isinstance(inner, RefreshSnapshot) and inner.dry_run:
        raise BindError(
            "EXPLAIN and DRY RUN both tell without doing; write one of them", span=inner.span, code="explained-twice"
        )
    plan = bind(inner, context)
    if isinstance(plan, SamplePlan):  # what it takes is told of a stream, which gathers features too
        plan = replace(plan, delivers="batches")
    return ExplainPlan(plan, inner.text, statement.analyze, statement.json)


FAMILY = PlanFamily(
    binders={},  # that of EXPLAIN binds other statements, and is called where they are dispatched
    operators={ExplainPlan: "snapdb.execute.explain.operators:explain", NothingPlan: "snapdb.execute.session:nothing"},
)

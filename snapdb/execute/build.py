"""From a plan to the operator that runs it."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from snapdb.plan.caches import CreateCachePlan, RefreshCachePlan
from snapdb.plan.explain import ExplainPlan
from snapdb.plan.exports import CopySamplePlan, CopySnapshotPlan, CopyToPlan
from snapdb.plan.graphs import CreateGraphPlan
from snapdb.plan.maintenance import BackupPlan, CheckPlan, ExpirePlan, RetainPlan, SetRetentionPlan, VacuumPlan
from snapdb.plan.plan import NothingPlan, Plan, QueryPlan
from snapdb.plan.samples import AuditPlan, CreateSamplerPlan, SamplePlan
from snapdb.plan.show import DescribePlan, DropPlan, ShowPlan, SummarizePlan
from snapdb.plan.snapshots import CreateSnapshotPlan, RefreshPlan
from snapdb.plan.tables import AlterPlan, CreateTablePlan, DeletePlan, InsertPlan, UpdatePlan
from snapdb.plan.tasks import AlterTaskPlan, CreateTaskPlan, ExecuteTaskPlan
from snapdb.plan.versions import (
    BeginPlan,
    CommitPlan,
    CreateTagPlan,
    DiffGraphPlan,
    DiffSnapshotPlan,
    DiffTablePlan,
    RollbackPlan,
)

if TYPE_CHECKING:
    from snapdb.execute.operator import Engine, Rows

OPERATORS: dict[type, str] = {
    QueryPlan: "snapdb.execute.query:Query",
    CreateTablePlan: "snapdb.execute.create_table:CreateTable",
    InsertPlan: "snapdb.execute.insert:Insert",
    DeletePlan: "snapdb.execute.delete:Delete",
    UpdatePlan: "snapdb.execute.update:Update",
    AlterPlan: "snapdb.execute.alter_table:AlterTable",
    CopyToPlan: "snapdb.execute.copy_to:CopyTo",
    CopySnapshotPlan: "snapdb.execute.copy_snapshot:CopySnapshot",
    CopySamplePlan: "snapdb.execute.copy_sample:CopySample",
    CreateGraphPlan: "snapdb.execute.create_graph:CreateGraph",
    CreateSnapshotPlan: "snapdb.execute.create_snapshot:CreateSnapshot",
    CreateSamplerPlan: "snapdb.execute.create_sampler:CreateSampler",
    CreateCachePlan: "snapdb.execute.create_cache:CreateCache",
    RefreshCachePlan: "snapdb.execute.refresh_cache:RefreshCache",
    SamplePlan: "snapdb.execute.sample:Sample",
    AuditPlan: "snapdb.execute.audit:Audit",
    ShowPlan: "snapdb.execute.show:Show",
    DescribePlan: "snapdb.execute.describe:Describe",
    SummarizePlan: "snapdb.execute.summarize:Summarize",
    DropPlan: "snapdb.execute.drop:Drop",
    CreateTagPlan: "snapdb.execute.create_tag:CreateTag",
    CreateTaskPlan: "snapdb.execute.create_task:CreateTask",
    AlterTaskPlan: "snapdb.execute.create_task:AlterTask",
    ExecuteTaskPlan: "snapdb.execute.execute_task:ExecuteTask",
    DiffTablePlan: "snapdb.execute.diff_table:DiffTable",
    DiffSnapshotPlan: "snapdb.execute.diff_snapshot:DiffSnapshot",
    DiffGraphPlan: "snapdb.execute.diff_graph:DiffGraph",
    RefreshPlan: "snapdb.execute.refresh:Refresh",
    ExpirePlan: "snapdb.execute.expire:Expire",
    RetainPlan: "snapdb.execute.expire:Expire",
    SetRetentionPlan: "snapdb.execute.set_retention:SetRetention",
    ExplainPlan: "snapdb.execute.explain:Explain",
    BeginPlan: "snapdb.execute.transaction:Transaction",
    CommitPlan: "snapdb.execute.transaction:Transaction",
    RollbackPlan: "snapdb.execute.transaction:Transaction",
    CheckPlan: "snapdb.execute.check:Check",
    BackupPlan: "snapdb.execute.backup:Backup",
    VacuumPlan: "snapdb.execute.vacuum:Vacuum",
    NothingPlan: "snapdb.execute.nothing:Nothing",
}
"""Plan → the operator that runs it, as 'module:name': a function of the plan and the engine.

Its module is imported when the first such plan runs, so that a SELECT loads no numba.
"""


def run(plan: Plan, engine: Engine) -> Rows:
    """Run a plan in an engine. Nothing happens before the first item is requested."""
    operator = operator_of(type(plan))
    rows: Rows = operator(plan).run(engine) if isinstance(operator, type) else operator(plan, engine)
    return rows


def operator_of(plan: type) -> Any:
    """The operator that runs plans of a type."""
    module, _, name = OPERATORS[plan].partition(":")
    return getattr(import_module(module), name)

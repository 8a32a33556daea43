"""From a plan to the operator that runs it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from snapdb.execute.alter_table import AlterTable
from snapdb.execute.audit import Audit
from snapdb.execute.backup import Backup
from snapdb.execute.check import Check
from snapdb.execute.copy_sample import CopySample
from snapdb.execute.copy_snapshot import CopySnapshot
from snapdb.execute.copy_to import CopyTo
from snapdb.execute.create_cache import CreateCache
from snapdb.execute.create_graph import CreateGraph
from snapdb.execute.create_sampler import CreateSampler
from snapdb.execute.create_snapshot import CreateSnapshot
from snapdb.execute.create_table import CreateTable
from snapdb.execute.create_tag import CreateTag
from snapdb.execute.create_task import AlterTask, CreateTask
from snapdb.execute.delete import Delete
from snapdb.execute.describe import Describe
from snapdb.execute.diff_graph import DiffGraph
from snapdb.execute.diff_snapshot import DiffSnapshot
from snapdb.execute.diff_table import DiffTable
from snapdb.execute.drop import Drop
from snapdb.execute.execute_task import ExecuteTask
from snapdb.execute.expire import Expire
from snapdb.execute.explain import Explain
from snapdb.execute.insert import Insert
from snapdb.execute.nothing import Nothing
from snapdb.execute.operator import Operator
from snapdb.execute.query import Query
from snapdb.execute.refresh import Refresh
from snapdb.execute.refresh_cache import RefreshCache
from snapdb.execute.sample import Sample
from snapdb.execute.set_retention import SetRetention
from snapdb.execute.show import Show
from snapdb.execute.summarize import Summarize
from snapdb.execute.transaction import Transaction
from snapdb.execute.update import Update
from snapdb.execute.vacuum import Vacuum
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

_OPERATORS: dict[type, Callable[[Any], Operator]] = {
    QueryPlan: Query,
    CreateTablePlan: CreateTable,
    InsertPlan: Insert,
    DeletePlan: Delete,
    UpdatePlan: Update,
    AlterPlan: AlterTable,
    CopyToPlan: CopyTo,
    CopySnapshotPlan: CopySnapshot,
    CopySamplePlan: CopySample,
    CreateGraphPlan: CreateGraph,
    CreateSnapshotPlan: CreateSnapshot,
    CreateSamplerPlan: CreateSampler,
    CreateCachePlan: CreateCache,
    RefreshCachePlan: RefreshCache,
    SamplePlan: Sample,
    AuditPlan: Audit,
    ShowPlan: Show,
    DescribePlan: Describe,
    SummarizePlan: Summarize,
    DropPlan: Drop,
    CreateTagPlan: CreateTag,
    CreateTaskPlan: CreateTask,
    AlterTaskPlan: AlterTask,
    ExecuteTaskPlan: ExecuteTask,
    DiffTablePlan: DiffTable,
    DiffSnapshotPlan: DiffSnapshot,
    DiffGraphPlan: DiffGraph,
    RefreshPlan: Refresh,
    ExpirePlan: Expire,
    RetainPlan: Expire,
    SetRetentionPlan: SetRetention,
    ExplainPlan: lambda plan: Explain(plan, build),
    BeginPlan: Transaction,
    CommitPlan: Transaction,
    RollbackPlan: Transaction,
    CheckPlan: Check,
    BackupPlan: Backup,
    VacuumPlan: Vacuum,
    NothingPlan: Nothing,
}
"""Which operator runs which plan; one file each, beside this one."""


def build(plan: Plan) -> Operator:
    """The operator for a plan."""
    return _OPERATORS[type(plan)](plan)

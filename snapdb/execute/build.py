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
from snapdb.plan import logical

_OPERATORS: dict[type, Callable[[Any], Operator]] = {
    logical.QueryPlan: Query,
    logical.CreateTablePlan: CreateTable,
    logical.InsertPlan: Insert,
    logical.DeletePlan: Delete,
    logical.UpdatePlan: Update,
    logical.AlterPlan: AlterTable,
    logical.CopyToPlan: CopyTo,
    logical.CopySnapshotPlan: CopySnapshot,
    logical.CopySamplePlan: CopySample,
    logical.CreateGraphPlan: CreateGraph,
    logical.CreateSnapshotPlan: CreateSnapshot,
    logical.CreateSamplerPlan: CreateSampler,
    logical.CreateCachePlan: CreateCache,
    logical.RefreshCachePlan: RefreshCache,
    logical.SamplePlan: Sample,
    logical.AuditPlan: Audit,
    logical.ShowPlan: Show,
    logical.DescribePlan: Describe,
    logical.SummarizePlan: Summarize,
    logical.DropPlan: Drop,
    logical.CreateTagPlan: CreateTag,
    logical.CreateTaskPlan: CreateTask,
    logical.AlterTaskPlan: AlterTask,
    logical.ExecuteTaskPlan: ExecuteTask,
    logical.DiffTablePlan: DiffTable,
    logical.DiffSnapshotPlan: DiffSnapshot,
    logical.DiffGraphPlan: DiffGraph,
    logical.RefreshPlan: Refresh,
    logical.ExpirePlan: Expire,
    logical.RetainPlan: Expire,
    logical.SetRetentionPlan: SetRetention,
    logical.ExplainPlan: lambda plan: Explain(plan, build),
    logical.BeginPlan: Transaction,
    logical.CommitPlan: Transaction,
    logical.RollbackPlan: Transaction,
    logical.CheckPlan: Check,
    logical.BackupPlan: Backup,
    logical.VacuumPlan: Vacuum,
    logical.NothingPlan: Nothing,
}
"""Which operator runs which plan; one file each, beside this one."""


def build(plan: logical.Plan) -> Operator:
    """The operator for a plan."""
    return _OPERATORS[type(plan)](plan)

"""From a statement to a plan: every name is looked up, every type checked, before anything is done."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from snapdb.errors import BindError, SnapdbError
from snapdb.plan.caches import bind_create_cache, bind_refresh_cache
from snapdb.plan.explain import ExplainPlan
from snapdb.plan.exports import bind_copy_sample, bind_copy_snapshot, bind_copy_to
from snapdb.plan.graphs import bind_create_graph
from snapdb.plan.maintenance import CheckPlan, bind_backup, bind_expire, bind_retention, bind_vacuum
from snapdb.plan.plan import Plan, QueryPlan
from snapdb.plan.samples import SamplePlan
from snapdb.plan.samples.bind import bind_audit, bind_create_sampler, bind_sample
from snapdb.plan.scope import Context
from snapdb.plan.show import bind_describe, bind_drop, bind_show, bind_summarize
from snapdb.plan.snapshots import bind_create_snapshot, bind_refresh
from snapdb.plan.tables import bind_alter, bind_copy, bind_create_table, bind_delete, bind_insert, bind_update
from snapdb.plan.tasks import bind_alter_task, bind_create_task, bind_execute_task
from snapdb.plan.versions import (
    BeginPlan,
    CommitPlan,
    RollbackPlan,
    bind_create_tag,
    bind_diff_graph,
    bind_diff_snapshot,
    bind_diff_table,
)
from snapdb.sql import ast


def bind(statement: ast.Statement, context: Context) -> Plan:
    """The plan of a statement.

    Raises:
        BindError: a name, type or clause does not fit; it carries its place in the text.
    """
    try:
        return _BINDERS[type(statement)](statement, context)
    except SnapdbError as error:
        raise error.located(statement.source, statement.span) from error.__cause__


def _bind_explain(statement: ast.Explain, context: Context) -> ExplainPlan:
    """The plan that is told of."""
    inner = statement.statement
    if isinstance(inner, ast.RefreshSnapshot) and inner.dry_run:
        raise BindError(
            "EXPLAIN and DRY RUN both tell without doing; write one of them", span=inner.span, code="explained-twice"
        )
    plan = _BINDERS[type(inner)](inner, context)
    if isinstance(plan, SamplePlan):  # what it takes is told of a stream, which gathers features too
        plan = replace(plan, delivers="batches")
    return ExplainPlan(plan, inner.text, statement.analyze, statement.json)


_BINDERS: dict[type[ast.Statement], Callable[[Any, Context], Plan]] = {
    ast.Query: lambda statement, context: QueryPlan(context.asked(statement.query)),
    ast.CreateTable: bind_create_table,
    ast.CopyFrom: bind_copy,
    ast.CopyTo: bind_copy_to,
    ast.CopySnapshotTo: bind_copy_snapshot,
    ast.CopySampleTo: bind_copy_sample,
    ast.Insert: bind_insert,
    ast.Delete: bind_delete,
    ast.Update: bind_update,
    ast.AlterTable: bind_alter,
    ast.CreateGraph: bind_create_graph,
    ast.CreateSnapshot: bind_create_snapshot,
    ast.RefreshSnapshot: bind_refresh,
    ast.ExpireSnapshots: bind_expire,
    ast.Explain: _bind_explain,
    ast.Sample: bind_sample,
    ast.SampleUsing: bind_sample,
    ast.CreateSampler: bind_create_sampler,
    ast.CreateCache: bind_create_cache,
    ast.RefreshCache: bind_refresh_cache,
    ast.Audit: bind_audit,
    ast.Show: bind_show,
    ast.Describe: bind_describe,
    ast.Summarize: bind_summarize,
    ast.Drop: bind_drop,
    ast.CreateTag: bind_create_tag,
    ast.DiffTable: bind_diff_table,
    ast.DiffGraph: bind_diff_graph,
    ast.DiffSnapshot: bind_diff_snapshot,
    ast.Begin: lambda statement, context: BeginPlan(),
    ast.Commit: lambda statement, context: CommitPlan(statement.message),
    ast.Rollback: lambda statement, context: RollbackPlan(),
    ast.CheckDatabase: lambda statement, context: CheckPlan(),
    ast.BackupDatabase: bind_backup,
    ast.Vacuum: bind_vacuum,
    ast.CreateTask: bind_create_task,
    ast.AlterTask: bind_alter_task,
    ast.ExecuteTask: bind_execute_task,
    ast.SetRetention: bind_retention,
    ast.DropRetention: bind_retention,
}
"""Which binder reads which statement."""

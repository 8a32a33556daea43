"""From a plan to the operator that runs it."""

from __future__ import annotations

from snapdb.execute.create_graph import CreateGraph
from snapdb.execute.create_snapshot import CreateSnapshot
from snapdb.execute.create_table import CreateTable
from snapdb.execute.delete import Delete
from snapdb.execute.describe import Describe
from snapdb.execute.drop import Drop
from snapdb.execute.insert import Insert
from snapdb.execute.nothing import Nothing
from snapdb.execute.operator import Operator
from snapdb.execute.query import Query
from snapdb.execute.sample import Sample
from snapdb.execute.show import Show
from snapdb.plan import logical

__all__ = ["build"]


def build(plan: logical.Plan) -> Operator:
    """The operator for a plan; one file each, beside this one."""
    match plan:
        case logical.QueryPlan():
            return Query(plan)
        case logical.CreateTablePlan():
            return CreateTable(plan)
        case logical.InsertPlan():
            return Insert(plan)
        case logical.DeletePlan():
            return Delete(plan)
        case logical.CreateGraphPlan():
            return CreateGraph(plan)
        case logical.CreateSnapshotPlan():
            return CreateSnapshot(plan)
        case logical.SamplePlan():
            return Sample(plan)
        case logical.ShowPlan():
            return Show(plan)
        case logical.DescribePlan():
            return Describe(plan)
        case logical.DropPlan():
            return Drop(plan)
        case logical.NothingPlan():
            return Nothing(plan)

"""Property graphs: CREATE PROPERTY GRAPH over the columns of tables."""

from __future__ import annotations

from dataclasses import dataclass

from snapdb.plan.plan import Plan, PlanNode
from snapdb.types import PropertyGraph


@dataclass(frozen=True, slots=True)
class CreateGraphPlan(Plan):
    """A definition whose tables and columns are there; its data is checked when it is created."""

    graph: PropertyGraph
    replaces: bool

    def describe(self) -> PlanNode:
        return PlanNode("CreateGraph", self.graph.name)

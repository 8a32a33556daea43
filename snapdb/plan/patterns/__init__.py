"""The plans of graph patterns: GRAPH_TABLE as joins, and as path searches that a query reads."""

from snapdb.plan.patterns.select import bind_graph_table

__all__ = ["bind_graph_table"]

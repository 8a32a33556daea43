"""Physical operators, in one module or package per statement family.

An operator is a function that takes a plan and an execution context and yields Arrow batches. This file imports
nothing, because the daemon uses the task-run modules without DuckDB and Arrow. Only its workers import those.
"""

"""Physical operators by families of statements: functions of a plan and an execution context that yield Arrow batches.

Nothing is imported here: the daemon uses the modules on task runs without DuckDB and Arrow, which only its workers
need.
"""

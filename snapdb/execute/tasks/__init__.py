"""The operators of CREATE, ALTER and EXECUTE TASK, and the execution of a task run.

This file imports nothing, because the daemon uses the task-run modules without DuckDB and Arrow. Only its workers
import those.
"""

"""Tasks: the operators of CREATE, ALTER and EXECUTE TASK, and the execution of a task run.

Nothing is imported here: the daemon uses the modules on runs without DuckDB and Arrow, which only its workers need.
"""

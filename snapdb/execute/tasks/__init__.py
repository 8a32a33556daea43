"""Tasks: the operators of CREATE, ALTER and EXECUTE TASK, and how a run of a task is performed.

Nothing is imported here: the daemon uses what is about runs, without DuckDB and Arrow, which only its workers need.
"""

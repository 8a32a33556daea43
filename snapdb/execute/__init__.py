"""Physical operators by families of statements: functions of a plan that return a generator of Arrow batches.

Nothing is imported here: `build.py` imports an operator's module when its first plan runs, and the daemon uses what is
about runs without DuckDB and Arrow, which only its workers need.
"""

"""Physical operators, one a file, each a generator of Arrow batches.

Nothing is imported here: the daemon uses what is about runs, without DuckDB and Arrow, which only its workers need.
"""

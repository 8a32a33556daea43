"""DIFF: the rows of a table, snapshot or graph that only one side has."""

"""DIFF: the rows of a table, a snapshot or a graph that one side has and the other lacks."""

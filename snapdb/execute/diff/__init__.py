"""DIFF: the rows of a table, snapshot or graph that exist on only one side."""

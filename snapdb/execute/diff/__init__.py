"""DIFF: what a table, a snapshot or a whole graph has on one side and lacks on the other."""

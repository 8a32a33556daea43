"""EXPLAIN: the plan of a statement as a tree of operators, with estimates and, for ANALYZE, measurements."""

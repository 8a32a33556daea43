"""EXPLAIN: a statement's plan as a tree of operators, with estimates and, for ANALYZE, measurements."""

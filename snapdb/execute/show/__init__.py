"""SHOW, DESCRIBE, SUMMARIZE and DROP: the statements on every kind of named object."""

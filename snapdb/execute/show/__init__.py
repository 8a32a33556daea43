"""SHOW, DESCRIBE, SUMMARIZE and DROP: the statements that apply to every kind of named object."""

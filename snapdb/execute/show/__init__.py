"""SHOW, DESCRIBE, SUMMARIZE and DROP: the statements about everything that has a name."""

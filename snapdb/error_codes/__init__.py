"""The registry of error codes: docs/errors.md is made of it, and `SELECT * FROM snapdb.errors` reads it."""

from snapdb.error_codes.code import WORLD, Code
from snapdb.error_codes.graphs import GRAPHS
from snapdb.error_codes.names import NAMES
from snapdb.error_codes.outside import OUTSIDE
from snapdb.error_codes.queries import QUERIES
from snapdb.error_codes.rows import ROWS
from snapdb.error_codes.samples import SAMPLES
from snapdb.error_codes.storage import STORAGE
from snapdb.error_codes.texts import TEXTS

__all__ = ["CODES", "WORLD", "Code"]

CODES: tuple[Code, ...] = (*TEXTS, *NAMES, *GRAPHS, *SAMPLES, *ROWS, *QUERIES, *OUTSIDE, *STORAGE)
"""Every code that an error can have, by family."""

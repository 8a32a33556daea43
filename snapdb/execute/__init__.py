"""Physical operators, one a file, each a generator of Arrow batches."""

from snapdb.execute.build import build
from snapdb.execute.operator import Engine, Operator, Outcome
from snapdb.execute.result import Result

__all__ = ["Engine", "Operator", "Outcome", "Result", "build"]

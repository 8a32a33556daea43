"""The registry of error codes, read from errors.toml on first use.

`SELECT * FROM snapdb.errors` lists it, and docs/errors.md is generated from it.
"""

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any


@dataclass(frozen=True, slots=True)
class Code:
    """An error code, which programs use to identify an error."""

    code: str
    kind: str
    """The name of the error's class."""
    meaning: str
    """A sentence that describes the problem."""
    remedy: str
    """A sentence that describes the remedy."""
    example: str | None = None
    """Statements whose last one fails with this code in the example database, or None if there is no example."""
    no_example: str | None = None
    """The reason why there is no example, or None if there is one."""


@cache
def load_codes() -> tuple[Code, ...]:
    """Return all error codes, in the order of the file.

    >>> load_codes()[1].code
    'unexpected-word'
    """
    return tuple(Code(code, **entry) for code, entry in _entries().items() if code != _DATABASE)


def _example_database() -> str:
    """Return the statements that create the small database in which all examples run."""
    return str(_entries()[_DATABASE])


_DATABASE = "example_database"


@cache
def _entries() -> dict[str, Any]:
    return tomllib.loads(files("snapdb").joinpath("errors.toml").read_text(encoding="utf-8"))

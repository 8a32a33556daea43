"""The registry of error codes, read from errors.toml when something asks for it.

`SELECT * FROM snapdb.errors` lists it, and docs/errors.md is made from it.
"""

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any


@dataclass(frozen=True, slots=True)
class Code:
    """A word by which programs know an error."""

    code: str
    kind: str
    """The name of the class of the error."""
    meaning: str
    """What is wrong, as a sentence."""
    remedy: str
    """What to do about it, as a sentence."""
    example: str | None = None
    """Statements, the last of which fails with the code in the example database; None where there is no example."""
    no_example: str | None = None
    """Why there is no example; None where there is one."""


@cache
def load_codes() -> tuple[Code, ...]:
    """Every code that an error can have, in the order of the file.

    >>> load_codes()[1].code
    'unexpected-word'
    """
    return tuple(Code(code, **entry) for code, entry in _entries().items() if code != _DATABASE)


def _example_database() -> str:
    """The statements that create the small database in which every example runs."""
    return str(_entries()[_DATABASE])


_DATABASE = "example_database"


@cache
def _entries() -> dict[str, Any]:
    return tomllib.loads(files("snapdb").joinpath("errors.toml").read_text(encoding="utf-8"))

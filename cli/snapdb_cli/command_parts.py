"""What the declarations of commands share: arguments, options, the end of a help text, modules that load when used."""

from __future__ import annotations

import importlib
from typing import Any

import click

from .places import DatabasePath

database = click.argument("database", metavar="DB", type=DatabasePath())
quiet = click.option("-q", "--quiet", is_flag=True, help="Errors only on stderr.")


def module(name: str) -> Any:
    """A module of the command line, imported only when it is used: none of them is needed to print help."""
    return importlib.import_module(f".{name}", __package__)


def examples(*lines: str) -> str:
    """The end of a command's help."""
    return "\b\nExamples:\n" + "\n".join(f"  {line}" for line in lines)

"""What a command of the prompt is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from .repl_session import Session

__all__ = ["Command", "Leave", "Takes", "unquoted"]

Takes = tuple[str, ...] | Literal["file", "statement", "setting", "format", "query", "switch"]
"""What the argument is, for completion: kinds of names, or something else."""


class Leave(Exception):  # noqa: N818  # a wish, not an error
    """The prompt should end."""


@dataclass(frozen=True, slots=True)
class Command:
    """One command of the prompt."""

    names: tuple[str, ...]
    """With their backslash or dot, the one to show first."""
    argument: str
    """How its argument reads in the help; empty for none."""
    help: str
    run: Callable[[Session, str], None]
    """Called with what followed the name, stripped."""
    takes: Takes = ()


def unquoted(argument: str) -> str:
    """An argument without the quotes around it.

    >>> unquoted("'my file.sql'"), unquoted("a b")
    ('my file.sql', 'a b')
    """
    same = len(argument) > 1 and argument[0] == argument[-1] and argument[0] in "'\""
    return argument[1:-1] if same else argument

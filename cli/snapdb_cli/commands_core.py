"""What a command of the prompt is."""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal

from .repl_session import Session

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


def two_columns(rows: Iterable[tuple[str, str]]) -> str:
    """Names and what is told of each beside them, in lines that fit the terminal.

    >>> print(two_columns([("a", "first"), ("long", "second")]))
      a     first
      long  second
    """
    rows = list(rows)
    margin = max((len(name) for name, _ in rows), default=0) + 4
    room = max(shutil.get_terminal_size().columns - margin, 20)
    lines = []
    for name, told in rows:
        first, *more = textwrap.wrap(told, room, break_long_words=False) or [""]
        lines += [f"  {name}".ljust(margin) + first, *(" " * margin + line for line in more)]
    return "\n".join(lines)

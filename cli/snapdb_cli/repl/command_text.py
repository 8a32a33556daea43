"""The arguments of the prompt's commands, and lists of names with descriptions, as text."""

import shutil
import textwrap
from collections.abc import Iterable


def unquoted(argument: str) -> str:
    """Return an argument without its enclosing quotes.

    >>> unquoted("'my file.sql'"), unquoted("a b")
    ('my file.sql', 'a b')
    """
    same = len(argument) > 1 and argument[0] == argument[-1] and argument[0] in "'\""
    return argument[1:-1] if same else argument


def two_columns(rows: Iterable[tuple[str, str]]) -> str:
    """Format names and their descriptions in two columns that fit the terminal.

    >>> print(two_columns([("a", "first"), ("long", "second")]))
      a     first
      long  second
    """
    rows = list(rows)
    margin = max((len(name) for name, _ in rows), default=0) + 4
    room = max(shutil.get_terminal_size().columns - margin, 20)
    lines = []
    for name, text in rows:
        first, *more = textwrap.wrap(text, room, break_long_words=False) or [""]
        lines += [f"  {name}".ljust(margin) + first, *(" " * margin + line for line in more)]
    return "\n".join(lines)

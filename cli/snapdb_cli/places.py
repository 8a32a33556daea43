"""Database directories on the command line, and what a shell offers when one is being typed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem

_CATALOG = "catalog.sqlite"
"""The file by which a directory is known as a database."""


class DatabasePath(click.Path):
    """A database directory, there or not."""

    name = "database"

    def __init__(self) -> None:
        super().__init__(path_type=Path)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem[Any]]:
        """The databases whose path begins so, and the commands where one may stand; else directories to look in."""
        places = [CompletionItem(place) for place in _databases(incomplete)]
        group = ctx.command
        commands: list[CompletionItem[Any]] = []
        if isinstance(group, click.Group):
            known = sorted(group.commands.items())
            commands = [CompletionItem(n, help=c.get_short_help_str()) for n, c in known if n.startswith(incomplete)]
        return [*commands, *places] or [CompletionItem(incomplete, type="dir")]


def _databases(incomplete: str) -> list[str]:
    head, slash, start = incomplete.rpartition("/")
    folder = Path(f"{head}{slash}" or ".").expanduser()
    try:
        found = sorted(p.parent.name for p in folder.glob(f"*/{_CATALOG}"))
    except OSError:
        return []
    return [f"{head}{slash}{name}" for name in found if name.startswith(start)]

"""The scripts by which bash, zsh and fish complete the words of `snapdb`: click's own, which ask the program."""

from __future__ import annotations

import click
from click.shell_completion import ShellComplete, get_completion_class


def script(shell: str, command: click.Command) -> str:
    """The completion script of a command for a shell."""
    kind = get_completion_class(shell)
    assert kind is not None, shell
    # Not kind.source, which starts a bash to learn its version
    return ShellComplete.source(kind(command, {}, "snapdb", "_SNAPDB_COMPLETE")).lstrip()

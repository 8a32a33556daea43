"""The command-line program."""

from __future__ import annotations

from pathlib import Path

from click.testing import CliRunner, Result

from snapdb_cli.main import main


def run(*words: str | Path, stdin: str | bytes | None = None) -> Result:
    """Run the command line in this process."""
    return CliRunner().invoke(main, [str(word) for word in words], input=stdin)

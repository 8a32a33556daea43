"""What the options of the command line say, for whoever runs statements."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Settings:
    """The options that were given; None where the program, or the configuration of the prompt, decides."""

    format: str | None = None
    """The format of results; of the output's suffix where it was not said."""
    output: Path | None = None
    """Where results go; None: stdout."""
    null: str | None = None
    """What stands for NULL."""
    header: bool = True
    """Whether csv and tsv name their columns."""
    max_rows: int | None = None
    """So many rows of a table are shown."""
    keep_going: bool = False
    """Whether statements run after one that failed."""
    read_only: bool = False
    folders: tuple[Path, ...] = ()
    """The only folders that statements may read and write; none: all."""
    threads: int | None = None
    """How many threads the database may use; None: all cores."""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    """Values of the statements' `$name`s."""
    config: bool = True
    """Whether the prompt reads its configuration file."""

    @property
    def opening(self) -> dict[str, Any]:
        """How the database is opened, for `connect`."""
        return {"read_only": self.read_only, "threads": self.threads, "folders": self.folders or None}

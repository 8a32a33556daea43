"""The folders in which a database may read and write files, where it may not everywhere."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from snapdb.errors import InputError
from snapdb.relational.quote import text_literal

__all__ = ["Folders", "outside"]


@dataclass(frozen=True, slots=True)
class Folders:
    """Some folders, and all that lies in them."""

    paths: tuple[str, ...]
    """Absolute, with links followed; each ends with a slash, so that in/ holds nothing of in-secret/."""

    @classmethod
    def of(cls, own: Path, named: Sequence[str | Path]) -> Folders:
        """The database's own folder and those that were named; ValueError when one of these is no absolute path."""
        if isinstance(named, str) or any(not os.path.isabs(folder) for folder in named):
            raise ValueError(f"folders are absolute paths, found {named!r}")
        return cls(tuple(dict.fromkeys(os.path.join(os.path.realpath(folder), "") for folder in (own, *named))))

    def check(self, path: str | Path) -> None:
        """Raises InputError when a path, links followed, lies in none of them."""
        if not os.path.realpath(path).startswith(self.paths):
            raise InputError(outside(str(path)), code="folder-not-allowed")

    @property
    def settings(self) -> tuple[str, ...]:
        """What makes DuckDB keep to them: it follows links as `check` does, and never again allows more."""
        listed = ", ".join(map(text_literal, self.paths))
        return (f"SET GLOBAL allowed_directories = [{listed}]", "SET GLOBAL enable_external_access = false")


def outside(path: str) -> str:
    """What is said of a path in none of the folders."""
    return (
        f'"{path}" lies in no folder that may be read or written here: a task\'s run may use the database and the '
        "folders of the paths that its body names; write the path there as a string"
    )

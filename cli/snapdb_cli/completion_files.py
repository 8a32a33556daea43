"""Files and folders that a half-typed path may become."""

from __future__ import annotations

import os
from pathlib import Path

from .completion_match import matching

_MOST = 200


def paths(typed: str) -> tuple[str, list[str]]:
    """The last part of a path as far as it is typed, and what that part may become; folders end with a slash.

    Hidden files are there once a dot is typed. A folder that cannot be read holds nothing.
    """
    folder, slash, part = typed.rpartition("/")
    try:
        place = Path(folder + slash or ".").expanduser()
        entries = sorted(os.scandir(place), key=lambda entry: entry.name)
    except (OSError, RuntimeError, ValueError):
        return part, []
    found = [
        entry.name + ("/" if _is_folder(entry) else "")
        for entry in entries
        if entry.name.startswith(".") == part.startswith(".")
    ]
    return part, matching(part, found)[:_MOST]


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:
        return False

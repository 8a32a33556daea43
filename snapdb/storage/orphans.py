"""Files that nothing points at: what a crash, a killed process or a reader that held on has left."""

from __future__ import annotations

import os
import re
import sqlite3
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from snapdb.storage.catalog_db.db_dir import Home

HOUR = 3_600_000_000
"""Microseconds: how long a file that nothing points at is left alone, unless something else is said."""

_DEPTHS = {"tables": None, "ids": None, "topology": 2, "features": 2, "snapshots": 1}
"""Folder → how deep its directories lie; None: it holds files, however deep."""
_SPILL = re.compile(r"\.spill-(\d+)-[0-9a-f]+")


class Entry(NamedTuple):
    """A file, or a directory that is published or removed as one."""

    path: str
    """Relative to the database directory."""
    bytes: int
    touched: int
    """When it or anything in it was last written: microseconds since 1970 UTC."""


def pointed_at(connection: sqlite3.Connection) -> set[str]:
    """The paths that the catalog names, except as garbage."""
    tables = ("segments", "id_segments", "artefacts", "snapshots")
    return {row["path"] for row in connection.execute(" UNION ALL ".join(f"SELECT path FROM {t}" for t in tables))}


def orphans(home: Home, known: set[str], before: int) -> list[Entry]:
    """What is in the database directory but not `known`, and was last written before a moment.

    Args:
        known: Relative paths, the catalog's and those that are garbage.
        before: Microseconds since 1970 UTC.
    """
    found = (_entry(home, path) for path in _paths(home) if str(path.relative_to(home.path)) not in known)
    return sorted(entry for entry in found if entry is not None and entry.touched <= before)


def size_of(path: Path) -> int:
    """The bytes of a file or of everything in a directory; 0 when it is gone."""
    return _bytes(_stats(path))


def _entry(home: Home, path: Path) -> Entry | None:
    """A path with its size and age; None when it went away meanwhile."""
    stats = list(_stats(path))
    if not stats:
        return None
    touched = max(s.st_mtime_ns for s in stats) // 1000
    return Entry(str(path.relative_to(home.path)), _bytes(stats), touched)


def _bytes(stats: Iterable[os.stat_result]) -> int:
    return sum(s.st_size for s in stats if not stat.S_ISDIR(s.st_mode))


def _stats(path: Path) -> Iterator[os.stat_result]:
    """Of the files in a directory; of the path itself where it is a file, a link or an empty directory."""
    directory = path.is_dir() and not path.is_symlink()
    for each in (list(_files(path)) if directory else []) or [path]:
        try:
            yield each.lstat()
        except OSError:
            continue


def _paths(home: Home) -> Iterator[Path]:
    """Everything that can be an orphan."""
    for folder, depth in _DEPTHS.items():
        yield from _files(home.path / folder) if depth is None else _at_depth(home.path / folder, depth)
    for path in _children(home.path):
        spill = _SPILL.fullmatch(path.name)
        if re.fullmatch(r"\..+\.tmp", path.name) or (spill is not None and not _lives(int(spill[1]))):
            yield path


def _files(folder: Path) -> Iterator[Path]:
    for directory, _, names in os.walk(folder):
        yield from (Path(directory, name) for name in names)


def _at_depth(folder: Path, depth: int) -> Iterator[Path]:
    for path in _children(folder):
        if depth == 1 or path.is_symlink() or not path.is_dir():
            yield path
        else:
            yield from _at_depth(path, depth - 1)


def _children(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except OSError:
        return []


def _lives(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        return True
    return True

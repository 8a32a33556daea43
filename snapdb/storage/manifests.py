"""What the manifest of a published directory says, taken as data that may be damaged."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from sqlite3 import Row
from typing import Any, NamedTuple

from snapdb.errors import CorruptError
from snapdb.storage.catalog_db.db_dir import Home
from snapdb.storage.disk import MANIFEST, unsealed

_PARTS = ("topology", "patch", "features", "feature_patch")
"""What in an element's layout names a shared directory; `history` names several."""
_MISREAD = (ValueError, KeyError, TypeError, AttributeError, RecursionError)


class Listed(NamedTuple):
    """A manifest's files, and what the directory stands on."""

    files: dict[str, tuple[int, str]]
    """Name → bytes and sha256."""
    directories: tuple[str, ...]
    """The shared directories that a snapshot uses, relative to the database directory; none for anything else."""
    digest: str | None
    """What a shared directory is found by."""


def parse_manifest(directory: Path) -> Listed:
    """What a directory's manifest says; its files are not looked at.

    Raises:
        FileNotFoundError: it is not there.
        CorruptError: it cannot be read, or is no manifest.
    """
    path = directory / MANIFEST
    try:
        manifest: dict[str, Any] = unsealed(json.loads(path.read_bytes()))
        files = {str(name): (int(e["bytes"]), str(e["sha256"])) for name, e in manifest["files"].items()}
        directories = _directories(manifest.get("layout", {"vertices": [], "edges": []}))
        if strange := [name for name in files if (directory / name).parent != directory]:
            raise ValueError(f"it names {strange[0]!r}, a file elsewhere")
    except FileNotFoundError:
        raise
    except (OSError, *_MISREAD) as error:
        raise CorruptError(
            f"{path} cannot be read: {error}; restore it from a backup", code="damaged-snapshot"
        ) from error
    return Listed(files, directories, manifest.get("digest"))


def stood_on(home: Home, snapshots: Iterable[Row]) -> tuple[set[str], str | None]:
    """The shared directories that snapshots, given as rows of the catalog, stand on, and why there may be more."""
    used: set[str] = set()
    unread: str | None = None
    for row in snapshots:
        try:
            used.update(parse_manifest(home.inside(row["path"])).directories)
        except (OSError, CorruptError):
            unread = f"snapshot {row['name']} may use it; its manifest cannot be read"
    return used, unread


def _directories(layout: dict[str, Any]) -> tuple[str, ...]:
    elements = (*layout["vertices"], *layout["edges"])
    parts = [element.get(key) for element in elements for key in _PARTS]
    parts += [path for element in layout["vertices"] for path in element.get("history", ())]
    return tuple(dict.fromkeys(str(part) for part in parts if part is not None))

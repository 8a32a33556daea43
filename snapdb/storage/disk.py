"""The few things snapdb does to a disk: write and sync, publish a directory whole, remove, hash."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from snapdb.errors import CorruptError, DatabaseError

__all__ = [
    "MANIFEST",
    "directory_bytes",
    "discard",
    "fresh_name",
    "hash_file",
    "map_array",
    "publishing",
    "read_manifest",
    "settle",
]

MANIFEST = "manifest.json"


def fresh_name() -> str:
    """A name that nothing has had before."""
    return uuid.uuid4().hex


def hash_file(path: Path) -> tuple[int, str]:
    """A file's size in bytes and its sha256, in hexadecimal."""
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
        return file.tell(), digest.hexdigest()


def settle(path: Path) -> None:
    """Force a file, or a directory's list of names, to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def discard(path: Path) -> None:
    """Remove a file or directory that nothing points at; one that cannot be removed stays as an orphan."""
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


@contextmanager
def publishing(final: Path, facts: dict[str, Any]) -> Iterator[Path]:
    """A temporary directory to fill; when the block ends it stands at `final`, whole and synced, with a manifest.

    The manifest holds `facts`, which the block may still add to, and every file's size and sha256. After an error
    nothing stands at `final`.
    """
    staging = final.with_name(f".{final.name}.tmp")
    try:
        staging.mkdir(parents=True)
        yield staging
        files = {}
        for path in sorted(p for p in staging.iterdir()):
            size, sha256 = hash_file(path)
            files[path.name] = {"bytes": size, "sha256": sha256}
            settle(path)
        manifest = staging / MANIFEST
        manifest.write_text(json.dumps({**facts, "files": files}, indent=1))
        settle(manifest)
        settle(staging)
        staging.rename(final)
        settle(final.parent)
    except OSError as error:
        discard(staging)
        raise DatabaseError(f"cannot write {final}: {error.strerror or error}; nothing was changed") from error
    except BaseException:
        discard(staging)
        raise


def read_manifest(directory: Path) -> dict[str, Any]:
    """The manifest of a published directory, after checking that its files have the sizes it says.

    Raises:
        CorruptError: a file is missing or has another size.
    """
    try:
        manifest: dict[str, Any] = json.loads((directory / MANIFEST).read_text())
    except (OSError, ValueError) as error:
        raise CorruptError(f"{directory / MANIFEST} is missing or damaged; restore it from a backup") from error
    for name, entry in manifest["files"].items():
        path = directory / name
        found = path.stat().st_size if path.exists() else None
        if found != entry["bytes"]:
            state = "is missing" if found is None else f"has {found} bytes instead of {entry['bytes']}"
            raise CorruptError(f"{path} {state}; restore it from a backup or create the snapshot again")
    return manifest


def map_array(path: Path) -> npt.NDArray[Any]:
    """The array of a .npy file, memory-mapped read-only.

    Raises:
        CorruptError: its header cannot be read.
    """
    try:
        array: npt.NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise CorruptError(f"{path} is missing or damaged; restore it from a backup") from error
    return array


def directory_bytes(directory: Path) -> int:
    """The bytes of the files in a published directory."""
    return sum(path.stat().st_size for path in directory.iterdir())

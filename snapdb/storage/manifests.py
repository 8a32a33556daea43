"""Published directories: immutable files, and a manifest of their sizes and hashes, which may be damaged."""

from __future__ import annotations

import errno
import hashlib
import json
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from snapdb.errors import CorruptError, DatabaseError
from snapdb.storage.disk import Disk, hash_file, unwritten
from snapdb.storage.memory_maps import prefer_huge_pages

MANIFEST = "manifest.json"

_THREADS = 2

_REFUSED = (errno.EACCES, errno.EPERM, errno.ENOMEM, errno.EMFILE, errno.ENFILE)
"""Errors of reading an undamaged file."""

_PARTS = ("topology", "patch", "features", "feature_patch")
"""The keys of an element's layout that name a shared directory; `history` names several."""

_MISREAD = (ValueError, KeyError, TypeError, AttributeError, RecursionError)


@contextmanager
def publishing(disk: Disk, final: Path, facts: dict[str, Any]) -> Iterator[Path]:
    """A temporary directory to fill, which is published at `final`, atomically and synced, when the block ends.

    The manifest has `facts`, which the block may add to, and every file's size and sha256. After an error nothing is at
    `final`.
    """
    staging = final.with_name(f".{final.name}.tmp")
    try:
        disk.make(staging)
        yield staging
        files = _settled(disk, sorted(staging.iterdir()))
        manifest = staging / MANIFEST
        content = {**facts, "files": files}
        manifest.write_text(json.dumps({**content, "seal": seal(content)}, indent=1))
        disk.settle(manifest)
        disk.settle(staging)
        disk.rename(staging, final)
    except OSError as error:
        disk.remove(staging)
        raise unwritten(final, error.strerror or str(error)) from error
    except BaseException:
        disk.remove(staging)
        raise


def _settled(disk: Disk, paths: Sequence[Path]) -> dict[str, dict[str, Any]]:
    """Each file's size and sha256, computed by threads while one file after another is synced."""
    with ThreadPoolExecutor(_THREADS) as pool:
        hashes = [pool.submit(hash_file, path) for path in paths]
        for path in paths:
            disk.settle(path)
        facts = [future.result() for future in hashes]
    return {path.name: {"bytes": size, "sha256": sha256} for path, (size, sha256) in zip(paths, facts, strict=True)}


def seal(content: dict[str, Any]) -> str:
    """The sha256 of a manifest's content, which is its entry `seal`."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def unsealed(manifest: dict[str, Any]) -> dict[str, Any]:
    """A manifest's content, without the seal.

    Raises:
        ValueError: the seal does not match; a manifest of format 1 has none.
    """
    content = {key: value for key, value in manifest.items() if key != "seal"}
    if manifest.get("seal", seal(content)) != seal(content):
        raise ValueError("it is not what was published")
    return content


@dataclass(frozen=True)
class PublishedDir:
    """A published directory whose files are checked one by one when they are opened; others may be missing."""

    path: Path

    @cached_property
    def manifest(self) -> dict[str, Any]:
        """The manifest; none of the files is opened.

        Raises:
            CorruptError: it cannot be read, or names a file elsewhere.
        """
        path = self.path / MANIFEST
        try:
            manifest: dict[str, Any] = unsealed(json.loads(path.read_text()))
            names = [str(name) for name, entry in manifest["files"].items() if int(entry["bytes"]) >= 0]
        except (OSError, *_MISREAD) as error:
            raise _unread(path, error) from error
        for name in names:
            if (self.path / name).parent != self.path:
                raise CorruptError(f"{path} is damaged: it names {name!r}, a file elsewhere", code="damaged-snapshot")
        return manifest

    def has(self, name: str) -> bool:
        """Whether the manifest lists a file; the file itself may be missing."""
        return name in self.manifest["files"]

    def checked(self, name: str) -> Path:
        """The path of a file, after a check that it has the listed size.

        Raises:
            CorruptError: the file is missing, has another size, or is not listed.
        """
        path = self.path / name
        if not self.has(name):
            raise CorruptError(
                f"{self.path / MANIFEST} is damaged: {name} is not listed; create the snapshot again",
                code="damaged-snapshot",
            )
        size = int(self.manifest["files"][name]["bytes"])
        actual = path.stat().st_size if path.exists() else None
        if actual != size:
            state = "is missing" if actual is None else f"has {actual} bytes instead of {size}"
            raise CorruptError(
                f"{path} {state}; restore it from a backup or create the snapshot again", code="damaged-snapshot"
            )
        return path

    def array(self, name: str) -> npt.NDArray[Any]:
        """The array of a file, memory-mapped read-only.

        Raises:
            CorruptError: the file is missing, has another size than listed, or its header is damaged.
        """
        return map_array(self.checked(name))


def read_manifest(directory: Path) -> dict[str, Any]:
    """The manifest of a published directory, after a check that its files have the listed sizes.

    Raises:
        CorruptError: it cannot be read, or a file is missing or has another size.
    """
    published = PublishedDir(directory)
    for name in published.manifest["files"]:
        published.checked(name)
    return published.manifest


def map_array(path: Path) -> npt.NDArray[Any]:
    """The array of a .npy file, memory-mapped read-only.

    Raises:
        CorruptError: its header cannot be read.
        DatabaseError: the process may not read it, or is out of memory or file descriptors.
    """
    try:
        array: npt.NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
    except Exception as error:  # numpy reads the header as Python, which may raise anything at damaged bytes
        raise _unread(path, error) from error
    prefer_huge_pages(array)
    return array


def _unread(path: Path, error: Exception) -> DatabaseError:
    """The error for a file that cannot be read, which need not be damaged."""
    if isinstance(error, OSError) and error.errno in _REFUSED:
        return DatabaseError(
            f"cannot read {path}: {error.strerror}; look at its permissions, and at the limits of this process "
            "(ulimit -a)",
            code="cannot-read",
        )
    return CorruptError(f"{path} is missing or damaged; restore it from a backup", code="damaged-file")


def directory_bytes(directory: Path) -> int:
    """The bytes of the files in a published directory."""
    return sum(path.stat().st_size for path in directory.iterdir())


class _ParsedManifest(NamedTuple):
    """A manifest's files, and the shared directories that the directory uses."""

    files: dict[str, tuple[int, str]]
    """The bytes and sha256 of each file by name."""
    directories: tuple[str, ...]
    """The shared directories that a snapshot uses, relative to the database directory; empty for a shared directory."""
    digest: str | None
    """The digest of a shared directory."""


def parse_manifest(directory: Path) -> _ParsedManifest:
    """A directory's manifest; its files are not read.

    Raises:
        FileNotFoundError: it does not exist.
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
    return _ParsedManifest(files, directories, manifest.get("digest"))


def _directories(layout: dict[str, Any]) -> tuple[str, ...]:
    elements = (*layout["vertices"], *layout["edges"])
    parts = [element.get(key) for element in elements for key in _PARTS]
    parts += [path for element in layout["vertices"] for path in element.get("history", ())]
    return tuple(dict.fromkeys(str(part) for part in parts if part is not None))

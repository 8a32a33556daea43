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
"""Why a file that is whole cannot be read."""

_PARTS = ("topology", "patch", "features", "feature_patch")
"""What in an element's layout names a shared directory; `history` names several."""

_MISREAD = (ValueError, KeyError, TypeError, AttributeError, RecursionError)


@contextmanager
def publishing(disk: Disk, final: Path, facts: dict[str, Any]) -> Iterator[Path]:
    """A temporary directory to fill; when the block ends it stands at `final`, whole and synced, with a manifest.

    The manifest holds `facts`, which the block may still add to, and every file's size and sha256. After an error
    nothing stands at `final`.
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
    """Each file's size and sha256, worked out by threads while one after another is forced to the disk."""
    with ThreadPoolExecutor(_THREADS) as pool:
        found = [pool.submit(hash_file, path) for path in paths]
        for path in paths:
            disk.settle(path)
        facts = [future.result() for future in found]
    return {path.name: {"bytes": size, "sha256": sha256} for path, (size, sha256) in zip(paths, facts, strict=True)}


def seal(content: dict[str, Any]) -> str:
    """The sha256 of a manifest's content, which stands in it as `seal`."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def unsealed(manifest: dict[str, Any]) -> dict[str, Any]:
    """A manifest's content.

    Raises:
        ValueError: it is not what was sealed. A manifest of format 1 has no seal.
    """
    content = {key: value for key, value in manifest.items() if key != "seal"}
    if manifest.get("seal", seal(content)) != seal(content):
        raise ValueError("it is not what was published")
    return content


@dataclass(frozen=True)
class PublishedDir:
    """A published directory whose files are checked one by one, each when it is opened: no others need be there."""

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
        """Whether the manifest lists a file, which may be missing all the same."""
        return name in self.manifest["files"]

    def checked(self, name: str) -> Path:
        """The path of a file that has the size that the manifest lists.

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
        found = path.stat().st_size if path.exists() else None
        if found != size:
            state = "is missing" if found is None else f"has {found} bytes instead of {size}"
            raise CorruptError(
                f"{path} {state}; restore it from a backup or create the snapshot again", code="damaged-snapshot"
            )
        return path

    def array(self, name: str) -> npt.NDArray[Any]:
        """The array of a file, memory-mapped read-only.

        Raises:
            CorruptError: the file is missing, has another size than the manifest lists, or its header is damaged.
        """
        return map_array(self.checked(name))


def read_manifest(directory: Path) -> dict[str, Any]:
    """The manifest of a published directory, after checking that its files have the sizes it says.

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
        DatabaseError: the process may not read it, or has no memory or file numbers left.
    """
    try:
        array: npt.NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
    except Exception as error:  # numpy reads the header as Python, which may raise anything at damaged bytes
        raise _unread(path, error) from error
    prefer_huge_pages(array)
    return array


def _unread(path: Path, error: Exception) -> DatabaseError:
    """What is raised about a file that cannot be read: not every such file is damaged."""
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


def _directories(layout: dict[str, Any]) -> tuple[str, ...]:
    elements = (*layout["vertices"], *layout["edges"])
    parts = [element.get(key) for element in elements for key in _PARTS]
    parts += [path for element in layout["vertices"] for path in element.get("history", ())]
    return tuple(dict.fromkeys(str(part) for part in parts if part is not None))

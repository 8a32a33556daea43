"""Directories of immutable files with a manifest of sizes and hashes, either published in the database or exported."""

import errno
import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath
from types import TracebackType
from typing import Any, NamedTuple, Self

import numpy as np

from snapdb.arrays import Array
from snapdb.errors import CorruptError, DatabaseError, FormatError, InputError
from snapdb.release import __version__
from snapdb.remote import provide
from snapdb.storage.array_files import drop_cached_pages, prefer_huge_pages
from snapdb.storage.disk import Disk, hash_file, hidden_beside, unwritten

MANIFEST = "manifest.json"

Metadata = dict[str, Any]
"""The content of a manifest except its file list, as JSON values by name."""

_THREADS = 2
"""The number of threads that hash files."""

_REFUSED = (errno.EACCES, errno.EPERM, errno.ENOMEM, errno.EMFILE, errno.ENFILE)
"""The errors that can occur when an undamaged file is read."""

_PARTS = ("topology", "patch", "features", "feature_patch")
"""The keys of an element's layout that name a shared directory. `history` names several."""

_MISREAD = (ValueError, KeyError, TypeError, AttributeError, RecursionError)
"""The exceptions that can occur when a damaged manifest is read."""


@contextmanager
def publishing(disk: Disk, final: Path, facts: Metadata) -> Iterator[Path]:
    """Yield a temporary directory to fill, then sync it and publish it atomically at `final` when the block ends.

    The manifest contains `facts`, which the block can extend, and the size and SHA-256 of every file. After an error,
    `final` does not exist.
    """
    staging = final.with_name(f".{final.name}.tmp")
    try:
        disk.make(staging)
        yield staging
        # The sync order matters: files, then the manifest, then their names, then the rename. A crash leaves a hidden
        # directory or a complete one, but never one with a truncated file.
        files = _settled(disk, sorted(staging.iterdir()))
        manifest = staging / MANIFEST
        content = {**facts, "files": files}
        manifest.write_text(json.dumps({**content, "seal": _seal(content)}, indent=1))
        disk.settle(manifest)
        disk.settle(staging)
        disk.rename(staging, final)
        for name in files:  # after writing, the page cache contains the files in small pages
            drop_cached_pages(final / name)
    except OSError as error:
        disk.remove(staging)
        raise unwritten(final, error.strerror or str(error)) from error
    except BaseException:
        disk.remove(staging)
        raise


def _settled(disk: Disk, paths: Sequence[Path]) -> dict[str, dict[str, Any]]:
    """Return the size and SHA-256 of each file. Threads hash the files while they are synced one after another."""
    with ThreadPoolExecutor(_THREADS) as pool:
        hashes = [pool.submit(hash_file, path) for path in paths]
        for path in paths:
            disk.settle(path)
        facts = [future.result() for future in hashes]
    return {path.name: {"bytes": size, "sha256": sha256} for path, (size, sha256) in zip(paths, facts, strict=True)}


def _seal(content: Metadata) -> str:
    """Return the SHA-256 of a manifest's content, which is its `seal` entry."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _unsealed(manifest: Metadata) -> Metadata:
    """Return a manifest's content, without the seal.

    Raises:
        ValueError: The seal does not match. A format 1 manifest has no seal.
    """
    content = {key: value for key, value in manifest.items() if key != "seal"}
    if manifest.get("seal", _seal(content)) != _seal(content):
        raise ValueError("it differs from what was published")
    return content


@dataclass(frozen=True)
class PublishedDir:
    """A published directory whose files are checked individually when they are opened. Other files may be missing."""

    path: Path

    @cached_property
    def manifest(self) -> Metadata:
        """The manifest. None of the listed files is opened.

        Raises:
            CorruptError: The manifest cannot be read, or names a file outside the directory.
        """
        path = self.path / MANIFEST
        provide(path)
        try:
            manifest: Metadata = _unsealed(json.loads(path.read_text()))
            names = [str(name) for name, entry in manifest["files"].items() if int(entry["bytes"]) >= 0]
        except (OSError, *_MISREAD) as error:
            raise _unread(path, error) from error
        for name in names:
            if (self.path / name).parent != self.path:
                raise CorruptError(
                    f"{path} is damaged: it refers to {name!r}, a file outside its directory", code="damaged-snapshot"
                )
        return manifest

    def has(self, name: str) -> bool:
        """Return whether the manifest lists a file. The file itself may be missing."""
        return name in self.manifest["files"]

    def checked(self, name: str) -> Path:
        """Return the path of a file, after checking that it has the listed size.

        Raises:
            CorruptError: The file is missing, has another size, or is not listed.
        """
        path = self.path / name
        if not self.has(name):
            raise CorruptError(
                f"{self.path / MANIFEST} is damaged: {name} is not listed; create the snapshot again",
                code="damaged-snapshot",
            )
        provide(path)
        # Only the size is checked: hashing gigabytes would make opening a snapshot slow. CHECK DATABASE compares the
        # hashes.
        size = int(self.manifest["files"][name]["bytes"])
        actual = path.stat().st_size if path.exists() else None
        if actual != size:
            state = "is missing" if actual is None else f"has {actual} bytes instead of {size}"
            raise CorruptError(
                f"{path} {state}; restore it from a backup or create the snapshot again", code="damaged-snapshot"
            )
        return path

    def array(self, name: str) -> Array:
        """Return the array in a file, memory-mapped read-only.

        Raises:
            CorruptError: The file is missing, has another size than listed, or its header is damaged.
        """
        return map_array(self.checked(name))


def read_manifest(directory: Path) -> Metadata:
    """Read a published directory's manifest, and check that its files have the listed sizes.

    Raises:
        CorruptError: The manifest cannot be read, or a file is missing or has another size.
    """
    published = PublishedDir(directory)
    for name in published.manifest["files"]:
        published.checked(name)
    return published.manifest


def map_array(path: Path) -> Array:
    """Return the array in a .npy file, memory-mapped read-only.

    Raises:
        CorruptError: The header of the file cannot be read.
        DatabaseError: The process is not allowed to read the file, or it is out of memory or file descriptors.
    """
    provide(path)
    try:
        array: Array = np.load(path, mmap_mode="r", allow_pickle=False)
    # numpy evaluates the header as a Python literal, which can raise any exception for damaged bytes.
    except Exception as error:
        raise _unread(path, error) from error
    prefer_huge_pages(array)
    return array


def _unread(path: Path, error: Exception) -> DatabaseError:
    """Return the error for a file that cannot be read but is not necessarily damaged."""
    if isinstance(error, OSError) and error.errno in _REFUSED:
        return DatabaseError(
            f"cannot read {path}: {error.strerror}; check its permissions, and the limits of this process (ulimit -a)",
            code="cannot-read",
        )
    return CorruptError(f"{path} is missing or damaged; restore it from a backup", code="damaged-file")


def directory_bytes(directory: Path) -> int:
    """Return the total size in bytes of the files in a published directory."""
    return sum(path.stat().st_size for path in directory.iterdir())


class _ParsedManifest(NamedTuple):
    """The files in a manifest, and the shared directories that the directory uses."""

    files: dict[str, tuple[int, str]]
    """File name → (bytes, SHA-256)."""
    directories: tuple[str, ...]
    """The shared directories that a snapshot uses, relative to the database directory. Empty in a shared directory's
    own manifest."""
    digest: str | None
    """The digest of a shared directory, or None for a snapshot's directory."""


def parse_manifest(directory: Path) -> _ParsedManifest:
    """Read and parse a directory's manifest. Does not read the other files.

    Raises:
        FileNotFoundError: The manifest does not exist.
        CorruptError: The file cannot be read, or is not a manifest.
    """
    path = directory / MANIFEST
    provide(path)
    try:
        manifest: Metadata = _unsealed(json.loads(path.read_bytes()))
        files = {str(name): (int(e["bytes"]), str(e["sha256"])) for name, e in manifest["files"].items()}
        directories = _directories(manifest.get("layout", {"vertices": [], "edges": []}))
        if strange := [name for name in files if (directory / name).parent != directory]:
            raise ValueError(f"it refers to {strange[0]!r}, a file outside its directory")
    except FileNotFoundError:
        raise
    except (OSError, *_MISREAD) as error:
        raise CorruptError(f"cannot read {path}: {error}; restore it from a backup", code="damaged-snapshot") from error
    return _ParsedManifest(files, directories, manifest.get("digest"))


def _directories(layout: dict[str, Any]) -> tuple[str, ...]:
    """Return the distinct shared directories that a snapshot's layout names."""
    elements = (*layout["vertices"], *layout["edges"])
    parts = [element.get(key) for element in elements for key in _PARTS]
    parts += [path for element in layout["vertices"] for path in element.get("history", ())]
    return tuple(dict.fromkeys(str(part) for part in parts if part is not None))


_FORMAT = 1
"""The format of the manifest and the files. Higher formats are not supported."""
_AGAIN = "export it again"


class FolderWriter:
    """Fills a hidden folder in the target's directory and renames it to the target once it is complete.

    with FolderWriter(target, disk, overwrite=False) as folder:
        save(folder.file("epoch-0/batch-000000.npz"))
        folder.wrote("epoch-0/batch-000000.npz", batch=0)
        folder.finish({"kind": "batches", "lineage": {}})

    If the block ends without `finish`, because of an error or Ctrl-C, nothing is left behind. A disk error raises
    InputError. Threads can share a writer if they finish before the block ends.
    """

    def __init__(self, target: Path, disk: Disk, *, overwrite: bool) -> None:
        self.target = Path(os.path.realpath(target))
        self._path, self._disk, self._overwrite = target, disk, overwrite
        self._staging = hidden_beside(self.target)
        self._files: dict[str, dict[str, Any]] = {}

    def __enter__(self) -> Self:
        self.check()
        try:
            self._staging.mkdir()
        except OSError as error:
            raise self._refused(error) from error
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if self._staging.exists():  # `finish` was not reached, or failed
            self._disk.remove(self._staging)
        if isinstance(error, OSError):
            raise self._refused(error) from error

    def check(self) -> None:
        """Check, without writing, that the target can be created or replaced.

        Raises:
            InputError: The target exists and is not an export, or cannot be read.
        """
        try:
            self._check_target()
        except OSError as error:
            raise self._refused(error) from error

    def file(self, name: str) -> Path:
        """Return the path to write a file to, given its path in the folder. Its parent directories are created."""
        path = self._staging / name
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def wrote(self, name: str, **facts: object) -> int:
        """Sync a written file and list it in the manifest with the given facts. Returns its size in bytes."""
        path = self._staging / name
        size, sha256 = hash_file(path)
        self._disk.settle(path)
        self._files[name] = {"path": name, "bytes": size, "sha256": sha256, **facts}
        return size

    def finish(self, manifest: Mapping[str, object]) -> None:
        """Publish the folder at the target, with a manifest that contains `manifest` and the list of files."""
        files = [self._files[name] for name in sorted(self._files)]
        content = {"format": _FORMAT, **manifest, "files": files, "snapdb": __version__}
        path = self._staging / MANIFEST
        path.write_text(json.dumps({**content, "seal": _seal(content)}, indent=1))
        self._disk.settle(path)
        for folder, _, _ in os.walk(self._staging):
            self._disk.settle(Path(folder))
        self._check_target()
        self._publish()

    def _publish(self) -> None:
        """Rename the hidden folder to the target. A folder that it replaces is restored after an error."""
        if not (self.target.is_dir() and any(self.target.iterdir())):
            self._disk.rename(self._staging, self.target)
            return
        # A rename cannot replace a non-empty folder, so the old folder is moved aside first.
        old = hidden_beside(self.target)
        try:
            self._disk.rename(self.target, old)
            self._disk.rename(self._staging, self.target)
        except BaseException:
            if self.target.exists():  # another export was published first
                self._disk.remove(old)
            else:
                self._disk.rename(old, self.target)
            raise
        self._disk.remove(old)

    def _check_target(self) -> None:
        """Check that the target does not exist, is empty or, with OVERWRITE, contains an older export."""
        if not os.path.lexists(self.target):
            return
        if not self.target.is_dir():
            raise InputError(
                f"{self._path} is a file; write the path of a folder that does not exist", code="folder-exists"
            )
        if not any(self.target.iterdir()):
            return
        if not self._overwrite:
            raise InputError(
                f"{self._path} already exists and is not empty; choose another folder, or add OVERWRITE to replace "
                "an export",
                code="folder-exists",
            )
        try:
            exported = read_folder(self.target).files
        except FormatError:  # an export written by a newer snapdb
            return
        except (InputError, CorruptError) as error:
            raise InputError(
                f"{self._path} was not exported by snapdb, so OVERWRITE does not replace it; choose another folder",
                code="folder-exists",
            ) from error
        if others := sorted(_names(self.target) - exported.keys() - {MANIFEST}):
            raise InputError(
                f"{self._path} also contains {others[0]}, which no export wrote, so OVERWRITE does not replace it; "
                "move that "
                "away, or choose another folder",
                code="folder-exists",
            )

    def _refused(self, error: OSError) -> InputError:
        """Return the error to raise if a folder cannot be written."""
        reason = error.strerror or error
        if not self.target.parent.is_dir():
            reason = "its parent folder does not exist"
        return InputError(f"cannot write {self._path}: {reason}; nothing was left behind", code="unwritable-file")


class Folder(NamedTuple):
    """An exported folder, described by its manifest."""

    path: Path
    """The path of the folder."""
    manifest: Mapping[str, object]
    """The manifest from `finish`, with `format`, `files` and `snapdb`."""
    files: Mapping[str, Mapping[str, object]]
    """Path in the folder → `path`, `bytes`, `sha256` and the facts from `wrote`."""

    def checked(self, name: str, *, digest: bool = True) -> bytes:
        """Read a file and check its size and, unless `digest` is False, its SHA-256.

        Raises:
            CorruptError: The file is missing, cannot be read, or differs from what was written.
        """
        path, facts = self.path / name, self.files[name]
        if not os.path.isfile(path):  # reading a pipe or a device might never end
            raise CorruptError(f"{path} is missing; {_AGAIN}", code="damaged-file")
        try:
            size = path.stat().st_size
            content = path.read_bytes() if size == facts["bytes"] else b""
        except OSError as error:
            raise CorruptError(f"cannot read {path}: {error.strerror}; {_AGAIN}", code="damaged-file") from error
        if size != facts["bytes"]:
            state = f"has {size} bytes instead of {facts['bytes']}"
            raise CorruptError(f"{path} {state}; {_AGAIN}", code="damaged-file")
        if digest and hashlib.sha256(content).hexdigest() != facts["sha256"]:
            raise CorruptError(
                f"{path} differs from what was written: its sha256 does not match; {_AGAIN}", code="damaged-file"
            )
        return content


def file_name(name: str) -> str:
    """Return a file name for a name in the database.

    All characters except letters, digits, spaces, -, _ and . are escaped. A leading dot is also escaped.

    >>> file_name("week 3"), file_name("in/out"), file_name("..")
    ('week 3', 'in%2Fout', '%2E.')
    """
    return re.sub(r"[^\w .-]|^\.", lambda character: f"%{ord(character[0]):02X}", name)


def read_folder(path: str | os.PathLike[str], kind: str | None = None) -> Folder:
    """Read the manifest of an exported folder. Does not read the other files.

    Args:
        path: The folder's path.
        kind: The required kind, "batches" or "snapshot", or None for either.

    Raises:
        InputError: The folder does not exist or has another kind.
        FormatError: The folder was written by a newer snapdb.
        CorruptError: Its manifest is damaged.
    """
    folder = Path(path)
    manifest = _manifest(folder)
    try:
        if (format_ := int(manifest["format"])) > _FORMAT:
            raise FormatError(
                f"{folder} is an export of format {format_}, by snapdb {manifest.get('snapdb')}, but snapdb "
                f"{__version__} supports formats up to {_FORMAT}; install that version",
                code="newer-format",
            )
        files = {str(facts["path"]): _facts(facts) for facts in _unsealed(manifest)["files"]}
        actual = str(manifest["kind"])
    except (ArithmeticError, AttributeError, KeyError, RecursionError, TypeError, ValueError) as error:
        raise CorruptError(f"{folder / MANIFEST} is damaged: {error}; {_AGAIN}", code="damaged-file") from error
    if kind not in (None, actual):
        raise InputError(f"{folder} is an export of kind {actual!r}; choose one of kind {kind!r}", code="not-an-export")
    return Folder(folder, manifest, files)


def _manifest(folder: Path) -> dict[str, Any]:
    """Read a folder's manifest, which must belong to an export."""
    if not folder.is_dir():
        state = "is a file" if folder.exists() else "does not exist"
        raise InputError(f"{folder} {state}; choose a folder that COPY … TO or snapdb export wrote", code="no-file")
    path = folder / MANIFEST
    try:
        manifest = json.loads(path.read_bytes())
    except FileNotFoundError as error:
        raise InputError(
            f"{folder} has no {MANIFEST}; choose a folder that COPY … TO or snapdb export wrote", code="not-an-export"
        ) from error
    except OSError as error:
        raise CorruptError(f"cannot read {path}: {error.strerror}", code="damaged-file") from error
    except (ValueError, RecursionError) as error:
        raise CorruptError(f"{path} is damaged: {error}; {_AGAIN}", code="damaged-file") from error
    if not isinstance(manifest, dict) or not {"format", "kind", "files"} <= manifest.keys():
        raise InputError(f"{path} is not the manifest of an export of snapdb", code="not-an-export")
    return manifest


def _facts(facts: Metadata) -> dict[str, Any]:
    """Return a file's entry in the manifest, after checking that the path is in the folder."""
    name = PurePosixPath(facts["path"])
    if name.is_absolute() or ".." in name.parts or not name.parts:
        raise ValueError(f"it refers to {facts['path']!r}, a file outside its directory")
    return {**facts, "bytes": int(facts["bytes"]), "sha256": str(facts["sha256"])}


def _names(folder: Path) -> set[str]:
    """Return the paths of all files and links in a folder, at any depth, relative to the folder."""
    names: set[str] = set()
    for path, folders, files in os.walk(folder):
        inside = Path(path).relative_to(folder)
        links = [name for name in folders if os.path.islink(os.path.join(path, name))]
        names.update((inside / name).as_posix() for name in (*files, *links))
    return names

"""A folder of exported files: written beside its place, listed in a manifest, and there whole or not at all."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from types import TracebackType
from typing import Any, Self

from snapdb.errors import CorruptError, FormatError, InputError
from snapdb.release import __version__
from snapdb.storage.disk import Disk, hash_file, hidden_beside
from snapdb.storage.manifests import MANIFEST, seal, unsealed

_FORMAT = 1
"""Of the manifest and what it lists; a reader refuses a higher one."""
_AGAIN = "export it again"


class FolderWriter:
    """Fills a hidden folder beside the target, which takes the target's name once it is whole.

    with FolderWriter(target, disk, overwrite=False) as folder:
        save(folder.file("epoch-0/batch-000000.npz"))
        folder.wrote("epoch-0/batch-000000.npz", batch=0)
        folder.finish({"kind": "batches", "lineage": {}})

    A block that ends without `finish`, by an error or Ctrl-C, leaves nothing behind, and a disk that refuses is an
    InputError. Threads may share a writer, as long as they end before the block does.
    """

    def __init__(self, target: Path, disk: Disk, *, overwrite: bool) -> None:
        self.target = Path(os.path.realpath(target))
        self._asked, self._disk, self._overwrite = target, disk, overwrite
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
        if self._staging.exists():  # `finish` did not move it
            self._disk.remove(self._staging)
        if isinstance(error, OSError):
            raise self._refused(error) from error

    def check(self) -> None:
        """Nothing where the folder may be put as far as is seen now; nothing is written.

        Raises:
            InputError: something else is there, or the disk refuses a look at it.
        """
        try:
            self._check_target()
        except OSError as error:
            raise self._refused(error) from error

    def file(self, name: str) -> Path:
        """Where to write a file of the folder, given as its path in it; its folders are made."""
        path = self._staging / name
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def wrote(self, name: str, **facts: Any) -> int:
        """The bytes of a file that is written, which now is on the disk and in the manifest, with facts about it."""
        path = self._staging / name
        size, sha256 = hash_file(path)
        self._disk.settle(path)
        self._files[name] = {"path": name, "bytes": size, "sha256": sha256, **facts}
        return size

    def finish(self, manifest: Mapping[str, Any]) -> None:
        """The folder stands at its place, with a manifest of what is given and of its files, by their paths."""
        files = [self._files[name] for name in sorted(self._files)]
        content = {"format": _FORMAT, **manifest, "files": files, "snapdb": __version__}
        path = self._staging / MANIFEST
        path.write_text(json.dumps({**content, "seal": seal(content)}, indent=1))
        self._disk.settle(path)
        for folder, _, _ in os.walk(self._staging):
            self._disk.settle(Path(folder))
        self._check_target()
        self._publish()

    def _publish(self) -> None:
        """The hidden folder takes the target's place; what was there comes back if that fails."""
        if not (self.target.is_dir() and any(self.target.iterdir())):
            self._disk.rename(self._staging, self.target)
            return
        old = hidden_beside(self.target)
        try:
            self._disk.rename(self.target, old)
            self._disk.rename(self._staging, self.target)
        except BaseException:
            if self.target.exists():  # another export was quicker
                self._disk.remove(old)
            else:
                self._disk.rename(old, self.target)
            raise
        self._disk.remove(old)

    def _check_target(self) -> None:
        """Nothing where a folder may be put: where there is none, an empty one, or with OVERWRITE an older export."""
        if not os.path.lexists(self.target):
            return
        if not self.target.is_dir():
            raise InputError(f"{self._asked} is a file; name a folder that is not there yet", code="folder-exists")
        if not any(self.target.iterdir()):
            return
        if not self._overwrite:
            raise InputError(
                f"{self._asked} is there and not empty; name another folder, or add OVERWRITE to replace an export",
                code="folder-exists",
            )
        try:
            exported = read_folder(self.target).files
        except FormatError:  # of a newer snapdb, but an export
            return
        except (InputError, CorruptError) as error:
            raise InputError(
                f"{self._asked} is no folder that snapdb exported, so OVERWRITE leaves it alone; name another one",
                code="folder-exists",
            ) from error
        if others := sorted(_names(self.target) - exported.keys() - {MANIFEST}):
            raise InputError(
                f"{self._asked} also holds {others[0]}, which no export wrote, so OVERWRITE leaves it alone; move that "
                "away, or name another folder",
                code="folder-exists",
            )

    def _refused(self, error: OSError) -> InputError:
        reason = error.strerror or error
        if not self.target.parent.is_dir():
            reason = "the folder that it should be in is not there"
        return InputError(f"cannot write {self._asked}: {reason}; nothing was left behind", code="unwritable-file")


@dataclass(frozen=True, slots=True)
class Folder:
    """A folder that was exported, as its manifest tells."""

    path: Path
    manifest: Mapping[str, Any]
    """What `finish` was given, with `format`, `files` and `snapdb`."""
    files: Mapping[str, Mapping[str, Any]]
    """The files by their paths in the folder: `path`, `bytes`, `sha256` and what `wrote` was given."""

    def checked(self, name: str, *, digest: bool = True) -> bytes:
        """A file's content, after a look at its size and, unless `digest` is False, at its sha256.

        Raises:
            CorruptError: it is missing, cannot be read, or is not what was written.
        """
        path, facts = self.path / name, self.files[name]
        if not os.path.isfile(path):  # a pipe or a device might never end
            raise CorruptError(f"{path} is missing; {_AGAIN}", code="damaged-file")
        try:
            size = path.stat().st_size
            content = path.read_bytes() if size == facts["bytes"] else b""
        except OSError as error:
            raise CorruptError(f"{path} cannot be read: {error.strerror}; {_AGAIN}", code="damaged-file") from error
        if size != facts["bytes"]:
            found = f"has {size} bytes instead of {facts['bytes']}"
            raise CorruptError(f"{path} {found}; {_AGAIN}", code="damaged-file")
        if digest and hashlib.sha256(content).hexdigest() != facts["sha256"]:
            raise CorruptError(f"{path} is not what was written, by its sha256; {_AGAIN}", code="damaged-file")
        return content


def file_name(name: str) -> str:
    """A name of the database as that of a file: only letters, digits, spaces, -, _ and . stand as they are.

    >>> file_name("week 3"), file_name("in/out"), file_name("..")
    ('week 3', 'in%2Fout', '%2E.')
    """
    return re.sub(r"[^\w .-]|^\.", lambda found: f"%{ord(found[0]):02X}", name)


def read_folder(path: str | os.PathLike[str], kind: str | None = None) -> Folder:
    """The folder that was exported to a path; its files are not looked at.

    Args:
        kind: What it must hold: "batches" or "snapshot"; None: either.

    Raises:
        InputError: there is no such folder, or it holds something else.
        FormatError: a newer snapdb wrote it.
        CorruptError: its manifest is damaged.
    """
    folder = Path(path)
    manifest = _manifest(folder)
    try:
        if (format_ := int(manifest["format"])) > _FORMAT:
            raise FormatError(
                f"{folder} is an export of format {format_}, by snapdb {manifest.get('snapdb')}; this is snapdb "
                f"{__version__}, which reads up to {_FORMAT}: install that one",
                code="newer-format",
            )
        files = {str(facts["path"]): _facts(facts) for facts in unsealed(manifest)["files"]}
        found = str(manifest["kind"])
    except (ArithmeticError, AttributeError, KeyError, RecursionError, TypeError, ValueError) as error:
        raise CorruptError(f"{folder / MANIFEST} is damaged: {error}; {_AGAIN}", code="damaged-file") from error
    if kind not in (None, found):
        raise InputError(f"{folder} is an export of kind {found!r}; name one of kind {kind!r}", code="not-an-export")
    return Folder(folder, manifest, files)


def _manifest(folder: Path) -> dict[str, Any]:
    """What stands in a folder's manifest, which says of itself that it is an export's."""
    if not folder.is_dir():
        said = "is a file" if folder.exists() else "is not there"
        raise InputError(f"{folder} {said}; name a folder that COPY … TO or snapdb export wrote", code="no-file")
    path = folder / MANIFEST
    try:
        manifest = json.loads(path.read_bytes())
    except FileNotFoundError as error:
        raise InputError(
            f"{folder} has no {MANIFEST}; name a folder that COPY … TO or snapdb export wrote", code="not-an-export"
        ) from error
    except OSError as error:
        raise CorruptError(f"{path} cannot be read: {error.strerror}", code="damaged-file") from error
    except (ValueError, RecursionError) as error:
        raise CorruptError(f"{path} is damaged: {error}; {_AGAIN}", code="damaged-file") from error
    if not isinstance(manifest, dict) or not {"format", "kind", "files"} <= manifest.keys():
        raise InputError(f"{path} is no manifest of an export of snapdb's", code="not-an-export")
    return manifest


def _facts(facts: dict[str, Any]) -> dict[str, Any]:
    """What the manifest says of a file, if that is one of the folder."""
    name = PurePosixPath(facts["path"])
    if name.is_absolute() or ".." in name.parts or not name.parts:
        raise ValueError(f"it names {facts['path']!r}, a file elsewhere")
    return {**facts, "bytes": int(facts["bytes"]), "sha256": str(facts["sha256"])}


def _names(folder: Path) -> set[str]:
    """The paths in a folder of all that it holds, but for folders."""
    found: set[str] = set()
    for path, folders, files in os.walk(folder):
        inside = Path(path).relative_to(folder)
        found.update((inside / name).as_posix() for name in files)
        found.update((inside / name).as_posix() for name in folders if os.path.islink(os.path.join(path, name)))
    return found

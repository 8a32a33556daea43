"""Files outside the database: the folders that may be read and written, and files by path or glob."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from snapdb.errors import InputError
from snapdb.sql_engine.sources import text_literal

_LINKS = 40
"""So many links one path may have, as Linux has it."""

_OWN = ("tables", "ids", "snapshots", "topology", "features")
"""The folders of a database in which DuckDB may read and write. Not beside them: to open the catalog as a file, and to
close it, would drop the locks that SQLite holds on it."""


class _Bound(NamedTuple):
    """Among the parts of a path: those before it, of a link's target, have to end in this folder."""

    folder: str
    """The one that the link is in, with a slash at its end."""


class Folders(NamedTuple):
    """Some folders, and all that lies in them, and some files by themselves."""

    paths: tuple[str, ...]
    """Of folders: absolute, with links followed; each ends with a slash, so that in/ holds nothing of in-secret/."""
    files: tuple[str, ...] = ()
    """Absolute, with links followed."""

    @classmethod
    def of(cls, own: Path, named: Sequence[str | Path]) -> Folders:
        """A database's data, and what was named: paths that end with a slash or at a folder, or those of files.

        A file that is a link which leads out of its folder is not among them.

        Raises:
            ValueError: a path is not absolute.
            InputError: it is that of the folder of all files.
        """
        if isinstance(named, str) or any(not os.path.isabs(path) for path in named):
            raise ValueError(f"folders are absolute paths, found {named!r}")
        folders, files = [own / name for name in _OWN], list[str]()
        for path in map(str, named):
            if path.endswith("/") or os.path.isdir(path):
                folders.append(Path(path))
            elif (real := os.path.realpath(path)).startswith(_within(os.path.dirname(path))):
                files.append(real)
        paths = tuple(dict.fromkeys(map(_within, folders)))
        if "/" in paths:
            raise InputError(
                '"/" is the folder of all files, which restricts nothing; name folders in it', code="folder-not-allowed"
            )
        return cls(paths, tuple(dict.fromkeys(files)))

    def check(self, path: str | Path) -> None:
        """Raises InputError when a path, links followed, is none of the files and lies in none of the folders."""
        real = os.path.realpath(path)
        if real not in self.files and not real.startswith(self.paths):
            raise InputError(outside(str(path)), code="folder-not-allowed")

    @property
    def settings(self) -> tuple[str, ...]:
        """What makes DuckDB keep to them: it follows links as `check` does, and never again allows more."""
        # Readers take a folder's name for all files in it.
        names = (*self.files, *(path.rstrip("/") for path in self.paths))
        return (
            f"SET GLOBAL allowed_directories = [{', '.join(map(text_literal, self.paths))}]",
            f"SET GLOBAL allowed_paths = [{', '.join(map(text_literal, names))}]",
            "SET GLOBAL enable_external_access = false",
        )


def resolved(path: str) -> str | None:
    """The absolute path without links; None: one of them leads out of the directory that it is in, or they never end.

    A user with write access to a directory on the path could otherwise redirect a reader to any other place.
    A slash at the end stays, and so does what does not exist.
    """
    place, links = "/", 0
    parts: list[str | _Bound] = [*reversed(path.split("/"))]
    while parts:
        part = parts.pop()
        if isinstance(part, _Bound):
            if not os.path.join(place, "").startswith(part.folder):
                return None
        elif part == "..":
            place = os.path.dirname(place)
        elif part not in ("", "."):
            try:
                target = os.readlink(os.path.join(place, part))
            except OSError:  # it is no link, or does not exist
                place = os.path.join(place, part)
                continue
            if (links := links + 1) > _LINKS:
                return None
            parts += [_Bound(os.path.join(place, "")), *reversed(target.split("/"))]
            place = "/" if target.startswith("/") else place
    return os.path.join(place, "") if path.endswith("/") else place


def absolute_paths(paths: Sequence[str | Path] | None) -> list[str] | None:
    """Paths that count from the directory of the process as absolute ones, a slash at the end kept; None: None."""
    if isinstance(paths, str):
        raise TypeError(f"folders is a list of paths, found {paths!r}")
    return None if paths is None else [os.path.join(os.getcwd(), os.path.expanduser(path)) for path in paths]


def _within(folder: str | Path) -> str:
    """What the paths of all that lies in a folder begin with, links followed."""
    return os.path.join(os.path.realpath(folder), "")


def outside(path: str) -> str:
    """What is said of a path in none of the folders."""
    return (
        f'"{path}" is in no folder that may be read or written here: a connection may be restricted to some (folders=, '
        "--folder), and a task's run to the files and folders that its body names; name the path there, without links "
        "that lead out of the directory that they are in"
    )


# The names of files in SQL, in which nothing is a glob.


def is_hidden(name: str, path: str) -> bool:
    """Whether a file behind a glob, or a folder that the glob chose, begins with a dot, and the glob has none there.

    Such are files that are being written or put aside, by snapdb and others; shells pass over them too.

    >>> [is_hidden(name, "./.in/*") for name in (".in/a.csv", ".in/.a.csv.x7", ".in/.b/a.csv")]
    [False, True, True]
    >>> is_hidden(".in/.a.csv", ".in/.*.csv"), is_hidden(".a.csv", ".a.csv")
    (False, False)
    """
    plain, *marked = re.split(r"[*?[]", path, maxsplit=1)
    folder, _, begun = plain.rpartition("/")
    if not marked or f"/{begun}".endswith("/.") or "/." in path[len(plain) :]:
        return False
    folder = f"{folder}/" if "/" in plain else "."
    within = os.path.relpath(name, os.path.expanduser(re.sub(r"^file:(//(localhost)?)?", "", folder)))
    return any(part.startswith(".") and part != ".." for part in within.split("/"))


def file_literal(name: str) -> str:
    """A file's name as SQL that means this file, though there are brackets or asterisks in it.

    >>> file_literal("it's.csv"), file_literal("a[1]*.csv")
    ("'it''s.csv'", "'a[[]1][*].csv'")
    """
    return text_literal(re.sub(r"[*?[]", r"[\g<0>]", name))


def files_literal(names: Sequence[str]) -> str:
    """Files' names as SQL for a reader of several.

    >>> files_literal(["a.csv", "b.csv"])
    "['a.csv', 'b.csv']"
    """
    return f"[{', '.join(map(file_literal, names))}]"

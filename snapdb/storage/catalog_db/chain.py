"""The hash chain of the versions, and the log beside the catalog that records what was published."""

from __future__ import annotations

import hashlib
import json
import os
import re
import sqlite3
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from snapdb.errors import CorruptError

VERSION_LOG = "versions.log"
_LINE = re.compile(rb"^(\d{1,18}) ([0-9a-f]{64})$", re.MULTILINE)
_TAIL = 512
"""Bytes at the end of the log that have its last complete line."""


def facts_text(facts: dict[str, Any]) -> str:
    """A commit record as the text that is stored and hashed.

    >>> facts_text({"version": 1, "message": None})
    '{"version":1,"message":null}'
    """
    return json.dumps(facts, separators=(",", ":"), ensure_ascii=False)


def link(parent: str, text: str) -> str:
    """The hash of a link: of the previous link's hash and the link's own text.

    >>> link("", "{}")[:8]
    'a062dd49'
    """
    return hashlib.sha256(f"{parent}\n{text}".encode("utf-8", "surrogatepass")).hexdigest()


# `versions.log`: a record of the published versions outside the catalog


def log_text(versions: Iterable[tuple[int, str]]) -> str:
    """The lines of the log for versions and their hashes, oldest first.

    >>> log_text([(1, "a" * 64)])[:4]
    '1 aa'
    """
    return "".join(f"{version} {hash_}\n" for version, hash_ in versions)


def append_version(directory: Path, version: int, hash_: str) -> None:
    """Append a published version; an error leaves a gap, which does no harm."""
    try:
        descriptor = os.open(directory / VERSION_LOG, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o666)
    except OSError:
        return
    try:
        torn = (size := os.fstat(descriptor).st_size) and os.pread(descriptor, 1, size - 1) != b"\n"
        os.write(descriptor, (b"\n" if torn else b"") + log_text([(version, hash_)]).encode())
    except OSError:
        return
    finally:
        os.close(descriptor)


def check_not_forked(directory: Path, connection: sqlite3.Connection) -> None:
    """Check that the catalog has the newest version of the log.

    Raises:
        CorruptError: it does not: another version would get the same number.
    """
    newest = _newest(directory / VERSION_LOG)
    if newest is not None and not _is_published(connection, newest):
        version, _ = newest
        raise CorruptError(
            f"version {version} was published and is not in the catalog: the history has forked, and nothing more is "
            f"written; restore the database from a backup, or remove {directory / VERSION_LOG} to go on without it",
            code="forked-history",
        )


def logged_versions(directory: Path) -> list[tuple[int, str]]:
    """The versions of the log and their hashes, in the order of publication."""
    try:
        return list(_entries((directory / VERSION_LOG).read_bytes()))
    except OSError:
        return []


def _newest(path: Path) -> tuple[int, str] | None:
    try:
        with open(path, "rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - _TAIL))
            return next(reversed(list(_entries(file.read()))), None)
    except OSError:
        return None


def _entries(text: bytes) -> Iterator[tuple[int, str]]:
    """The complete lines; a crash may leave part of one, or zeros."""
    yield from ((int(version), hash_.decode()) for version, hash_ in _LINE.findall(text))


def _is_published(connection: sqlite3.Connection, entry: tuple[int, str]) -> bool:
    version, hash_ = entry
    row = connection.execute("SELECT hash FROM versions WHERE version = ?", (version,)).fetchone()
    return row is not None and row[0] == hash_

"""Directories that follow from tables alone (topologies, features): built once, found again by digest, shared."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

from snapdb.storage.disk import directory_bytes, fresh_name, publishing, read_manifest
from snapdb.storage.home import Home
from snapdb.storage.ledger import Ledger

__all__ = ["digest_of", "find_or_build"]


def digest_of(*facts: Any) -> str:
    """A name for what follows from the facts, which must be plain values for JSON.

    >>> digest_of("topology", 3) == digest_of("topology", 3) != digest_of("topology", 4)
    True
    """
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()


def find_or_build(
    home: Home,
    ledger: Ledger,
    kind: Literal["topology", "features"],
    digest: str,
    folder: str,
    build: Callable[[Path], dict[str, Any]],
) -> Path:
    """The directory of that digest, which `build` fills when it is not there yet.

    Args:
        folder: Where to make it, relative to the database directory.
        build: Writes files into the directory given and returns the facts for its manifest.
    """
    if found := _find(home, ledger, digest):
        read_manifest(found)
        return found
    final = home.path / folder / fresh_name()
    facts: dict[str, Any] = {"kind": kind, "digest": digest}
    with publishing(home.disk, final, facts) as staging:
        facts |= build(staging)
    try:
        added = _record(home, ledger, kind, digest, final)
    except BaseException:
        home.disk.remove(final)
        raise
    if not added:  # another process built the same meanwhile; theirs stands
        home.disk.remove(final)
        theirs = _find(home, ledger, digest)
        assert theirs is not None
        return theirs
    return final


def _record(home: Home, ledger: Ledger, kind: str, digest: str, directory: Path) -> bool:
    """Write the row of a directory, unless another of this digest is there by now; whether it was written."""
    with ledger.writing() as connection:
        added = connection.execute(
            "INSERT INTO artefacts VALUES (?, ?, ?, ?) ON CONFLICT (digest) DO NOTHING",
            (digest, kind, str(directory.relative_to(home.path)), directory_bytes(directory)),
        ).rowcount
    return bool(added)


def _find(home: Home, ledger: Ledger, digest: str) -> Path | None:
    rows = ledger.rows("SELECT path FROM artefacts WHERE digest = ?", (digest,))
    return home.inside(rows[0]["path"]) if rows else None

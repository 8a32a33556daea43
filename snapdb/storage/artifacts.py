"""Directories that follow from tables alone (topologies, features): built once, found again by digest, shared.

One may be a patch: what differs from another, whole one of its family.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from snapdb.storage.catalog_db.connection import Ledger
from snapdb.storage.catalog_db.db_dir import Home
from snapdb.storage.disk import fresh_name
from snapdb.storage.manifests import directory_bytes, publishing, read_manifest


@dataclass(frozen=True, slots=True)
class ArtifactSpec:
    """What a shared directory is, before it is found or built."""

    kind: Literal["topology", "features"]
    digest: str
    """Of everything that its content follows from."""
    folder: str
    """Where to make it, relative to the database directory."""
    family: str
    """A digest of what all have in common that differ only by the version of their tables."""
    version: int
    """Of the tables."""

    def anew(self) -> ArtifactSpec:
        """The same, whatever is there already."""
        return replace(self, digest=digest_of(self.digest, fresh_name()))


@dataclass(frozen=True, slots=True)
class CachedArtifact:
    """A shared directory that is there."""

    path: Path
    version: int
    base: Path | None
    """What it is a patch of; None: it is whole."""
    facts: dict[str, Any]
    """Its manifest."""


def digest_of(*facts: Any) -> str:
    """A name for what follows from the facts, which must be plain values for JSON.

    >>> digest_of("topology", 3) == digest_of("topology", 3) != digest_of("topology", 4)
    True
    """
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()


def find_artifact(home: Home, ledger: Ledger, digest: str) -> CachedArtifact | None:
    """The directory of that digest, whole or a patch."""
    rows = ledger.rows("SELECT path, version, base FROM artefacts WHERE digest = ?", (digest,))
    return _found(home, rows[0]) if rows else None


def locate_artifact(home: Home, ledger: Ledger, digest: str) -> Path | None:
    """The path of the directory of that digest; none of its files is looked at."""
    rows = ledger.rows("SELECT path FROM artefacts WHERE digest = ?", (digest,))
    return home.inside(rows[0]["path"]) if rows else None


def nearest_artifact(home: Home, ledger: Ledger, wanted: ArtifactSpec, *, whole: bool = True) -> CachedArtifact | None:
    """The directory of the family whose version is nearest to the one that is wanted; not `whole`: also a patch."""
    rows = ledger.rows(
        f"SELECT path, version, base FROM artefacts WHERE family = ? {'AND base IS NULL' if whole else ''} "
        "ORDER BY abs(version - ?), version DESC, base IS NOT NULL LIMIT 1",
        (wanted.family, wanted.version),
    )
    return _found(home, rows[0]) if rows else None


def find_or_build(
    home: Home,
    ledger: Ledger,
    wanted: ArtifactSpec,
    build: Callable[[Path], dict[str, Any]],
    base: Path | None = None,
) -> CachedArtifact:
    """The directory of that digest, which `build` fills when it is not there yet.

    Args:
        build: Writes files into the directory given and returns the facts for its manifest.
        base: What the new directory is a patch of.
    """
    if found := find_artifact(home, ledger, wanted.digest):
        return found
    final = home.path / wanted.folder / fresh_name()
    facts: dict[str, Any] = {"kind": wanted.kind, "digest": wanted.digest}
    with publishing(home.disk, final, facts) as staging:
        facts |= build(staging)
    try:
        added = _record(home, ledger, wanted, final, base)
    except BaseException:
        home.disk.remove(final)
        raise
    if not added:  # another process built the same meanwhile; theirs stands
        home.disk.remove(final)
    made = find_artifact(home, ledger, wanted.digest)
    assert made is not None
    return made


def _found(home: Home, row: Any) -> CachedArtifact:
    path = home.inside(row["path"])
    base = None if row["base"] is None else home.inside(row["base"])
    return CachedArtifact(path, row["version"] or 0, base, read_manifest(path))


def _record(home: Home, ledger: Ledger, wanted: ArtifactSpec, directory: Path, base: Path | None) -> bool:
    """Write the row of a directory, unless another of this digest is there by now; whether it was written."""
    row = (
        wanted.digest,
        wanted.kind,
        str(directory.relative_to(home.path)),
        directory_bytes(directory),
        wanted.family,
        wanted.version,
        None if base is None else str(base.relative_to(home.path)),
    )
    with ledger.writing() as connection:
        added = connection.execute(
            "INSERT INTO artefacts (digest, kind, path, bytes, family, version, base) VALUES (?, ?, ?, ?, ?, ?, ?) "
            "ON CONFLICT (digest) DO NOTHING",
            row,
        ).rowcount
    return bool(added)

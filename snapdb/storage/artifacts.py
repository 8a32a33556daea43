"""Cached artifacts: shared directories (topologies, features) that are built only from tables and looked up by digest.

An artifact can be a patch of another artifact in its family. The patched artifact is never a patch itself.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, NamedTuple

from snapdb.storage.catalog_db.connection import CatalogDb
from snapdb.storage.catalog_db.db_dir import DatabaseDir
from snapdb.storage.disk import fresh_name
from snapdb.storage.manifests import Metadata, directory_bytes, publishing, read_manifest


class ArtifactSpec(NamedTuple):
    """The identity of an artifact, which need not exist yet."""

    kind: Literal["topology", "features"]
    digest: str
    """The digest of everything that determines the artifact's content."""
    folder: str
    """The folder in which the artifact is built, relative to the database directory."""
    family: str
    """The digest shared by artifacts that differ only in the version of their tables."""
    version: int
    """The version of the tables."""

    def anew(self) -> ArtifactSpec:
        """Return the same content under a new digest, so that it is rebuilt."""
        return self._replace(digest=digest_of(self.digest, fresh_name()))


class CachedArtifact(NamedTuple):
    """An artifact that exists."""

    path: Path
    """The artifact's directory."""
    version: int
    """The version of the tables from which it was built."""
    base: Path | None
    """The directory of the artifact that this one patches, or None if this one is not a patch."""
    facts: Metadata
    """The content of the artifact's manifest."""


def digest_of(*facts: object) -> str:
    """Return a digest of JSON values.

    >>> digest_of("topology", 3) == digest_of("topology", 3) != digest_of("topology", 4)
    True
    """
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()


def find_artifact(catalog_db: CatalogDb, digest: str) -> CachedArtifact | None:
    """Return the artifact with the given digest (possibly a patch), or None if it does not exist."""
    rows = catalog_db.rows("SELECT path, version, base FROM artefacts WHERE digest = ?", (digest,))
    return _artifact(catalog_db.db_dir, rows[0]) if rows else None


def locate_artifact(catalog_db: CatalogDb, digest: str) -> Path | None:
    """Return the path of the artifact with the given digest, or None if it does not exist.

    Does not read the artifact's files.
    """
    rows = catalog_db.rows("SELECT path FROM artefacts WHERE digest = ?", (digest,))
    return catalog_db.db_dir.inside(rows[0]["path"]) if rows else None


def nearest_artifact(catalog_db: CatalogDb, wanted: ArtifactSpec, *, whole: bool = True) -> CachedArtifact | None:
    """Return the family's artifact with the version closest to the requested one. `whole` excludes patches."""
    rows = catalog_db.rows(
        f"SELECT path, version, base FROM artefacts WHERE family = ? {'AND base IS NULL' if whole else ''} "
        "ORDER BY abs(version - ?), version DESC, base IS NOT NULL LIMIT 1",
        (wanted.family, wanted.version),
    )
    return _artifact(catalog_db.db_dir, rows[0]) if rows else None


def find_or_build(
    catalog_db: CatalogDb, wanted: ArtifactSpec, build: Callable[[Path], Metadata], base: Path | None = None
) -> CachedArtifact:
    """Find the requested artifact, or build it if it does not exist.

    Args:
        catalog_db: The catalog.
        wanted: The identity of the artifact.
        build: A function that writes files to the given directory and returns their metadata for the manifest.
        base: The directory that a newly built artifact patches, if it is a patch.
    """
    db_dir = catalog_db.db_dir
    if artifact := find_artifact(catalog_db, wanted.digest):
        return artifact
    # The build holds no lock, because a lock would block other processes for minutes. If two processes build the same
    # artifact, only one copy is kept.
    final = db_dir.path / wanted.folder / fresh_name()
    facts: Metadata = {"kind": wanted.kind, "digest": wanted.digest}
    with publishing(db_dir.disk, final, facts) as staging:
        facts |= build(staging)
    try:
        added = _record(catalog_db, wanted, final, base)
    except BaseException:
        db_dir.disk.remove(final)
        raise
    if not added:  # another process built the same artifact first
        db_dir.disk.remove(final)
    artifact = find_artifact(catalog_db, wanted.digest)
    assert artifact is not None
    return artifact


def _artifact(db_dir: DatabaseDir, row: Any) -> CachedArtifact:
    """Return the artifact in a catalog row."""
    path = db_dir.inside(row["path"])
    base = None if row["base"] is None else db_dir.inside(row["base"])
    return CachedArtifact(path, row["version"] or 0, base, read_manifest(path))


def _record(catalog_db: CatalogDb, wanted: ArtifactSpec, directory: Path, base: Path | None) -> bool:
    """Insert an artifact's row unless its digest already has one. Returns whether the row was inserted."""
    row = (
        wanted.digest,
        wanted.kind,
        str(directory.relative_to(catalog_db.db_dir.path)),
        directory_bytes(directory),
        wanted.family,
        wanted.version,
        None if base is None else str(base.relative_to(catalog_db.db_dir.path)),
    )
    with catalog_db.writing() as connection:
        added = connection.execute(
            "INSERT INTO artefacts (digest, kind, path, bytes, family, version, base) VALUES (?, ?, ?, ?, ?, ?, ?) "
            "ON CONFLICT (digest) DO NOTHING",
            row,
        ).rowcount
    return bool(added)

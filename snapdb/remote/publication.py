"""The format of a publication: one small object that changes, and immutable objects.

HEAD.json                 the current generation. It is written last, by a conditional write.
generations/<n>.json      the heads of the generations that are kept
catalogs/<sha256>.sqlite  a catalog: SQLite's backup of it
listings/<sha256>.json    the size and SHA-256 of every file of a generation
tables/… ids/… topology/… features/… snapshots/…    the database's files under their own names, which are never reused
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from hashlib import sha256
from typing import Any, NamedTuple

from snapdb.errors import CorruptError, FormatError, InputError
from snapdb.remote.stores import ObjectStore, Stored
from snapdb.remote.urls import shown

FORMAT = 1
"""The format of publications. Higher formats are not supported."""
HEAD = "HEAD.json"
_MISREAD = (ValueError, KeyError, TypeError, AttributeError, RecursionError)
"""The exceptions that can occur when a damaged object is read."""


@dataclass(frozen=True, slots=True)
class Head:
    """A generation of a publication."""

    generation: int
    published: str
    """The time of the publication in ISO 8601, UTC."""
    database: str
    """The random id of the database that publishes."""
    version: int
    """The newest version of its tables."""
    catalog: str
    """The SHA-256 of the catalog."""
    listing: str
    """The SHA-256 of the listing."""

    @property
    def catalog_key(self) -> str:
        return f"catalogs/{self.catalog}.sqlite"

    @property
    def listing_key(self) -> str:
        return f"listings/{self.listing}.json"

    @property
    def key(self) -> str:
        """The key of the object that keeps this head after the next publication."""
        return f"generations/{self.generation}.json"

    def encoded(self) -> bytes:
        return json.dumps({"format": FORMAT, **asdict(self)}, indent=1).encode()


class Listed(NamedTuple):
    """A file of a generation."""

    bytes: int
    sha256: str
    columns: Mapping[str, str] | None = None
    """For a Parquet file of a table: column → the SHA-256 of its chunks in the order of the row groups, or None."""
    rest: str | None = None
    """For a Parquet file of a table: the SHA-256 of all bytes outside the columns' chunks, in order."""


Listing = dict[str, Listed]
"""Path relative to the database directory → the file."""


def encode_listing(listing: Listing) -> bytes:
    """Return a listing as JSON."""
    return json.dumps({path: [v for v in file if v is not None] for path, file in sorted(listing.items())}).encode()


def decode_head(content: bytes, url: str) -> Head:
    """Return the head in an object.

    Raises:
        FormatError: A newer snapdb wrote it.
        CorruptError: It cannot be read.
    """
    try:
        fields: dict[str, Any] = json.loads(content)
        format_ = int(fields.pop("format"))
    except _MISREAD as error:
        raise _damaged(url, HEAD) from error
    if format_ > FORMAT:
        raise FormatError(
            f"{shown(url)} has format {format_}, but this snapdb supports formats up to {FORMAT}; install a newer "
            "snapdb",
            code="newer-format",
        )
    try:
        head = Head(**{name: kind(fields[name]) for name, kind in _KINDS.items()})
        datetime.fromisoformat(head.published)
    except _MISREAD as error:
        raise _damaged(url, HEAD) from error
    return head


_KINDS: dict[str, Any] = {
    "generation": int,
    "published": str,
    "database": str,
    "version": int,
    "catalog": str,
    "listing": str,
}


def read_head(store: ObjectStore) -> Head:
    """Return the current head of a publication.

    Raises:
        InputError: There is no publication at the URL.
    """
    if (stored := store.get(HEAD)) is None:
        raise InputError(
            f"no database is published at {shown(store.url)}; check the URL, or publish one: PUBLISH TO '…'",
            code="no-publication",
        )
    return decode_head(stored.content, store.url)


def read_listing(store: ObjectStore, head: Head) -> Listing:
    """Return the files of a generation.

    Raises:
        CorruptError: The listing is missing or damaged.
    """
    content = verified(store, head.listing_key, head.listing, head.generation)
    try:
        return {str(path): _listed(file) for path, file in json.loads(content).items()}
    except _MISREAD as error:
        raise _damaged(store.url, head.listing_key) from error


def _listed(file: list[Any]) -> Listed:
    if len(file) == 2:
        return Listed(int(file[0]), str(file[1]))
    size, digest, columns, rest = file
    return Listed(int(size), str(digest), {str(name): str(value) for name, value in columns.items()}, str(rest))


def verified(store: ObjectStore, key: str, digest: str, generation: int) -> bytes:
    """Return an object after checking its SHA-256.

    Raises:
        CorruptError: The object is missing or has another digest.
    """
    stored: Stored | None = store.get(key)
    if stored is None:
        raise gone(store.url, key, generation)
    if sha256(stored.content).hexdigest() != digest:
        raise _damaged(store.url, key)
    return stored.content


def gone(url: str, key: str, generation: int) -> CorruptError:
    """Return the error for an object of a generation that no longer exists."""
    return CorruptError(
        f"{shown(url)}/{key} does not exist: generation {generation} was probably removed by VACUUM; call renew(), or "
        "connect again",
        code="object-gone",
    )


def _damaged(url: str, key: str) -> CorruptError:
    return CorruptError(
        f"{shown(url)}/{key} is damaged: it differs from what was published; publish the database again",
        code="damaged-object",
    )


def damaged_object(url: str, key: str) -> CorruptError:
    """Return the error for an object whose content differs from what was published."""
    return _damaged(url, key)

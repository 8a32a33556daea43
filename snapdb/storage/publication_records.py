"""The publications of a database: its random id, and its last generation at each URL, in a file of its directory."""

from __future__ import annotations

import json
import uuid
from dataclasses import asdict, dataclass
from typing import Any

from snapdb.errors import CorruptError
from snapdb.storage.catalog_db.db_dir import DatabaseDir
from snapdb.storage.disk import unwritten

_RECORD = "publications.json"


@dataclass(frozen=True, slots=True)
class PublicationRecord:
    """The last publication of a database at a URL."""

    generation: int
    version: int
    published: str
    """The time in ISO 8601, UTC."""
    files: int
    bytes: int
    listing: str
    """The SHA-256 of the listing, by which an interrupted publication recognizes its own head."""


class PublicationRecords:
    """The random id of a database, and its last publication at each URL, in a file of its directory."""

    def __init__(self, db_dir: DatabaseDir, database: str, records: dict[str, PublicationRecord]) -> None:
        self._db_dir, self.database, self.by_url = db_dir, database, records

    @classmethod
    def read(cls, db_dir: DatabaseDir) -> PublicationRecords:
        """Return the records of a database. Without a file, the database has not been published.

        Raises:
            CorruptError: The file cannot be read.
        """
        path = db_dir.path / _RECORD
        try:
            content: dict[str, Any] = json.loads(path.read_bytes())
            records = {url: PublicationRecord(**record) for url, record in content["publications"].items()}
            return cls(db_dir, str(content["database"]), records)
        except FileNotFoundError:
            return cls(db_dir, uuid.uuid4().hex, {})
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise CorruptError(f"{path} is damaged; restore it from a backup", code="damaged-file") from error

    def intend(self, url: str, record: PublicationRecord) -> None:
        """Record a publication before its head is written."""
        self.by_url[url] = record
        content = {"database": self.database, "publications": {u: asdict(r) for u, r in self.by_url.items()}}
        path = self._db_dir.path / _RECORD
        staging = path.with_name(f".{path.name}.tmp")
        try:
            staging.write_text(json.dumps(content, indent=1))
            self._db_dir.disk.settle(staging)
            self._db_dir.disk.rename(staging, path)
        except OSError as error:
            raise unwritten(path, error.strerror or str(error)) from error

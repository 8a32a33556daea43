"""Versions and the tags that name them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from snapdb.errors import BindError
from snapdb.storage.ledger import Ledger
from snapdb.types import Tag, Version
from snapdb.types.text import did_you_mean

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def version_at(ledger: Ledger, time: int) -> int:
    """The last version committed at or before `time` (microseconds since 1970 UTC).

    Raises:
        BindError: there was none yet.
    """
    found = ledger.rows("SELECT version FROM versions WHERE time <= ? ORDER BY version DESC LIMIT 1", (time,))
    if not found:
        first = ledger.rows("SELECT time FROM versions ORDER BY version LIMIT 1")
        said = f"; the first was at {_iso(first[0]['time'])}" if first else ""
        raise BindError(f"there was no version yet at {_iso(time)}{said}", code="unknown-version")
    return int(found[0]["version"])


def version_of_tag(ledger: Ledger, name: str) -> int:
    """The version that a tag names.

    Raises:
        BindError: there is no such tag; it suggests the nearest.
    """
    known = {tag.name.lower(): tag for tag in tags(ledger)}
    if (tag := known.get(name.lower())) is not None:
        return tag.version
    names = [tag.name for tag in known.values()]
    near = did_you_mean(name, names) or (f"; there are: {', '.join(names[:8])}" if names else "; there is none yet")
    raise BindError(f'no tag "{name}"{near}', code="unknown-tag")


def tags(ledger: Ledger) -> list[Tag]:
    """Every tag, by version, then by name."""
    query = "SELECT t.name, t.version, v.time FROM tags t JOIN versions v USING (version) ORDER BY t.version, t.folded"
    return [Tag(row["name"], row["version"], row["time"]) for row in ledger.rows(query)]


def versions(ledger: Ledger) -> list[Version]:
    """Every version, oldest first, one entry a table it changed."""
    query = """
        SELECT v.version, v.time, v.message, v.author, t.name, sum(c.rows_added) added, sum(c.rows_removed) removed,
               (SELECT group_concat(g.name, ', ') FROM (SELECT * FROM tags ORDER BY folded) g
                WHERE g.version = v.version) tag
        FROM versions v LEFT JOIN changes c USING (version) LEFT JOIN tables t ON t.id = c.table_id
        GROUP BY v.version, t.folded ORDER BY v.version, t.folded
    """
    return [
        Version(
            r["version"], r["time"], r["message"], r["tag"], r["author"], r["name"], r["added"] or 0, r["removed"] or 0
        )
        for r in ledger.rows(query)
    ]


def _iso(time: int) -> str:
    try:
        return (_EPOCH + timedelta(microseconds=time)).isoformat(sep=" ")
    except OverflowError:
        return str(time)

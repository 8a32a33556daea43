"""What nothing points at any more, and why each piece goes or stays."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from sqlite3 import Connection, Row
from typing import Literal, NamedTuple

from snapdb.storage.catalog_db.connection import Ledger
from snapdb.storage.catalog_db.db_dir import Home
from snapdb.storage.catalog_db.locks import remove_file_unless_held
from snapdb.storage.catalog_db.pending_deletes import DIRECTORIES, release, remove_released
from snapdb.storage.disk import MANIFEST
from snapdb.storage.manifests import stood_on
from snapdb.storage.orphans import orphans, pointed_at, size_of

_SHARED = ("topology/", "features/")


class Litter(NamedTuple):
    """A file or directory that nothing points at."""

    path: str
    """Relative to the database directory."""
    bytes: int
    kind: Literal["garbage", "artefact", "orphan"]
    why: str
    """Why it is litter."""
    kept: str | None
    """Why it stays all the same; None: it can go once nobody reads it."""


def find_litter(home: Home, ledger: Ledger, moment: int, grace: int, replaced: Iterable[str] = ()) -> list[Litter]:
    """Everything that nothing points at.

    Args:
        moment: Now.
        grace: Microseconds for which it stays.
        replaced: Paths to take for garbage since `moment`.
    """
    present = orphans(home, set(), moment - grace)
    with ledger.reading() as connection:
        named = pointed_at(connection)
        garbage = {row["path"]: row["since"] for row in connection.execute("SELECT path, since FROM garbage")}
        snapshots, shared = _standing(connection)
    used, unread = _used(home, snapshots, shared)
    garbage = {path: since for path, since in garbage.items() if path not in named} | dict.fromkeys(replaced, moment)
    idle = [path for path in sorted(shared.keys() - used) if _is_aged(home, path, moment - grace)]
    loose = [o for o in present if o.path not in named | used | garbage.keys()]
    found = [
        _garbage(home, path, moment - since, grace)
        for path, since in sorted(garbage.items())
        if not path.startswith(DIRECTORIES) or home.inside(path).exists()
    ]
    found += [Litter(path, size_of(home.inside(path)), "artefact", "no snapshot uses it", unread) for path in idle]
    found += [
        Litter(o.path, o.bytes, "orphan", "nothing points at it", unread if o.path.startswith(_SHARED) else None)
        for o in loose
    ]
    return found


def remove(home: Home, ledger: Ledger, litter: Litter) -> bool:
    """Remove it and what the catalog says of it, while nobody else reads tables; False when a reader holds it."""
    path = home.inside(litter.path)
    if litter.kind == "artefact":
        _drop_rows(ledger, [litter.path])
    if litter.path.startswith("ids/") and path.is_file():
        gone = remove_file_unless_held(home, path)
    else:
        gone = remove_released(home, litter.path)
    if gone and litter.kind == "garbage":
        with ledger.writing() as connection:
            connection.execute("DELETE FROM garbage WHERE path = ?", (litter.path,))
    return gone


def remove_idle(home: Home, ledger: Ledger, before: int) -> list[str]:
    """Remove shared directories that no snapshot uses, while nobody else reads tables; which of them went.

    Args:
        before: Those that are younger stay: microseconds since 1970 UTC.
    """
    with ledger.reading() as connection:
        snapshots, shared = _standing(connection)
    used, unread = _used(home, snapshots, shared)
    idle = [path for path in sorted(shared.keys() - used) if _is_aged(home, path, before)]
    if unread is not None or not idle:
        return []
    _drop_rows(ledger, idle)
    return [path for path in idle if remove_released(home, path)]


def _standing(connection: Connection) -> tuple[list[Row], dict[str, str | None]]:
    """Snapshots with their paths, and shared directories by path, each with its family."""
    snapshots = connection.execute("SELECT name, path FROM snapshots ORDER BY id").fetchall()
    shared = {row["path"]: row["family"] for row in connection.execute("SELECT path, family FROM artefacts")}
    return snapshots, shared


def _used(home: Home, snapshots: Iterable[Row], shared: Mapping[str, str | None]) -> tuple[set[str], str | None]:
    """The shared directories that snapshots use, and why there may be more."""
    used, unread = stood_on(home, snapshots)
    return used | {path for path, family in shared.items() if str(family).removeprefix("outgoing:") in used}, unread


def _drop_rows(ledger: Ledger, paths: Sequence[str]) -> None:
    """Take shared directories out of the catalog before they go: a crash leaves no row without its directory."""
    with ledger.writing() as connection:
        connection.executemany("DELETE FROM artefacts WHERE path = ?", [(path,) for path in paths])
        release(connection, paths)


def _garbage(home: Home, path: str, age: int, grace: int) -> Litter:
    if path.startswith(DIRECTORIES):  # readers hold them one by one, so that they need not wait
        return Litter(path, size_of(home.inside(path)), "garbage", "nothing points at it", None)
    kept = None if age >= grace else f"replaced less than {_spoken(grace)} ago"
    return Litter(path, size_of(home.inside(path)), "garbage", "a merged file is in its place", kept)


def _is_aged(home: Home, path: str, before: int) -> bool:
    manifest = home.inside(path) / MANIFEST
    return not manifest.exists() or manifest.stat().st_mtime_ns // 1000 <= before


def _spoken(grace: int) -> str:
    """A span of time for a person.

    >>> _spoken(3_600_000_000)
    '1:00:00'
    """
    return str(timedelta(microseconds=grace))

"""What nothing points at any more, and why each piece goes or stays."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import Literal, NamedTuple

from snapdb.storage.disk import MANIFEST
from snapdb.storage.home import Home
from snapdb.storage.ledger import Ledger
from snapdb.storage.locks import remove_file_unless_held, remove_unless_held
from snapdb.storage.manifests import stood_on
from snapdb.storage.orphans import orphans, pointed_at, size_of

__all__ = ["Litter", "find_litter", "remove"]


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
        snapshots = connection.execute("SELECT name, path FROM snapshots ORDER BY id").fetchall()
        shared = {row["path"]: row["family"] for row in connection.execute("SELECT path, family FROM artefacts")}
    used, unread = stood_on(home, snapshots)
    used |= {path for path, family in shared.items() if str(family).removeprefix("outgoing:") in used}
    garbage = {path: since for path, since in garbage.items() if path not in named} | dict.fromkeys(replaced, moment)
    idle = [path for path in sorted(shared.keys() - used) if _is_aged(home, path, moment - grace)]
    loose = [o for o in present if o.path not in named | used | garbage.keys()]
    found = [_garbage(home, path, moment - since, grace) for path, since in sorted(garbage.items())]
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
        # The row goes first: a crash in between leaves an orphan, and never a row without its directory.
        _forget(ledger, "artefacts", litter.path)
    if (path / MANIFEST).exists():
        gone = remove_unless_held(home, path)
    elif litter.path.startswith("ids/") and path.is_file():
        gone = remove_file_unless_held(home, path)
    else:
        home.disk.remove(path)
        gone = True
    if gone and litter.kind == "garbage":
        _forget(ledger, "garbage", litter.path)
    return gone


def _garbage(home: Home, path: str, age: int, grace: int) -> Litter:
    kept = None if age >= grace else f"replaced less than {_spoken(grace)} ago"
    return Litter(path, size_of(home.inside(path)), "garbage", "a merged file is in its place", kept)


def _is_aged(home: Home, path: str, before: int) -> bool:
    manifest = home.inside(path) / MANIFEST
    return not manifest.exists() or manifest.stat().st_mtime_ns // 1000 <= before


def _forget(ledger: Ledger, table: str, path: str) -> None:
    with ledger.writing() as connection:
        connection.execute(f"DELETE FROM {table} WHERE path = ?", (path,))


def _spoken(grace: int) -> str:
    """A span of time for a person.

    >>> _spoken(3_600_000_000)
    '1:00:00'
    """
    return str(timedelta(microseconds=grace))

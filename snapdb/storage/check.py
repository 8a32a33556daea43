"""CHECK DATABASE: everything that was published is compared with what was recorded of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import PurePosixPath

from snapdb.storage.catalog_db.chain import logged_versions
from snapdb.storage.catalog_db.connection import Ledger
from snapdb.storage.catalog_db.db_dir import Home
from snapdb.storage.check_catalog import check_catalog
from snapdb.storage.check_chain import check_chain, check_fork
from snapdb.storage.check_files import Published, compare, published
from snapdb.storage.check_rows import check_rows
from snapdb.storage.commit import now
from snapdb.storage.contents import Contents, in_catalog, read_contents
from snapdb.storage.manifests import stood_on
from snapdb.storage.orphans import HOUR, Entry, orphans, pointed_at
from snapdb.storage.problem import Problem

_NOTES = "VACUUM removes it once nobody reads or writes"


def check_database(
    home: Home, ledger: Ledger, report: Callable[[str, float | None], None] = lambda what, share: None
) -> Iterator[Problem]:
    """What is wrong, damage before notes; nothing when all is well. Hold the tables' lock meanwhile.

    Args:
        report: Called with what is being done and the share of it that is done.

    Raises:
        LockedError: another process did not let the catalog be read.
    """
    report("reading the catalog", None)
    # Listed before the catalog is read: what a commit publishes meanwhile is named by then.
    old = orphans(home, set(), now() - HOUR)
    logged = logged_versions(home.path)
    contents = read_contents(ledger, integrity=True)
    yield from contents.problems
    yield from _contradictions(home, contents, logged)
    files: list[Published] = []
    for found in published(home, contents):
        if isinstance(found, Published):
            files.append(found)
        elif not contents.whole or _is_named(ledger, found.path):
            yield found
    for problem in compare(home, files, report):
        if not contents.whole or _is_named(ledger, problem.path):
            yield problem
    if contents.whole:
        yield from _orphans(home, contents, old)


def catalog_damage(home: Home, ledger: Ledger) -> Problem | None:
    """What is wrong with the catalog itself, files aside; None when nothing is. It reads all of it."""
    logged = logged_versions(home.path)
    contents = read_contents(ledger, integrity=True)
    return next(iter([*contents.problems, *_contradictions(home, contents, logged)]), None)


def _contradictions(home: Home, contents: Contents, logged: list[tuple[int, str]]) -> Iterator[Problem]:
    """Where the catalog contradicts its chains, itself, or what was logged before it was read."""
    if contents.whole:
        yield from _surviving(check_chain(contents))
        yield from check_fork(contents, logged)
        yield from _surviving(check_catalog(contents))
        yield from _surviving(check_rows(home, contents))


def _surviving(problems: Iterable[Problem]) -> Iterator[Problem]:
    """The same; rows that cannot even be compared are one more."""
    try:
        yield from problems
    except (ValueError, KeyError, TypeError, AttributeError, IndexError, ArithmeticError, RecursionError) as error:
        yield in_catalog(f"it holds a value of the wrong kind: {type(error).__name__}: {error}")


def _is_named(ledger: Ledger, path: str) -> bool:
    """Whether the catalog still names a file, or the directory it is in: a snapshot may have been dropped meanwhile."""
    with ledger.reading() as connection:
        named = pointed_at(connection)
    own = PurePosixPath(path)
    return any(str(p) in named for p in (own, *own.parents)) or path == "catalog.sqlite"


def _orphans(home: Home, contents: Contents, old: Iterable[Entry]) -> Iterator[Problem]:
    tables = ("segments", "id_segments", "artefacts", "snapshots", "garbage")
    known = {row["path"] for table in tables for row in contents[table]}
    known |= stood_on(home, contents["snapshots"])[0]
    for entry in old:
        if entry.path not in known:
            yield Problem("orphan", entry.path, f"nothing points at it ({entry.bytes:,} bytes)", _NOTES)

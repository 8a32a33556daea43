"""Whether the versions, and what VACUUM did, still are the chain of hashes that was written."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator, Sequence

from snapdb.storage.catalog_db.chain import VERSION_LOG, link
from snapdb.storage.catalog_db.db_dir import CATALOG
from snapdb.storage.contents import BACKUP, Contents
from snapdb.storage.problem import Problem


def check_chain(contents: Contents) -> Iterator[Problem]:
    """The links that do not hold."""
    versions, upkeep = contents["versions"], contents["upkeep"]
    yield from map(_broken, _links("version", "version", versions))
    yield from map(_broken, _times(versions))
    yield from map(_broken, _links("upkeep", "number", upkeep))


def check_fork(contents: Contents, logged: Iterable[tuple[int, str]]) -> Iterator[Problem]:
    """The versions that were published and that the catalog lacks.

    Args:
        logged: What the log of versions named before the catalog was read.
    """
    published = {(row["version"], row["hash"]) for row in contents["versions"]}
    for version, _ in dict.fromkeys(entry for entry in logged if entry not in published):
        problem = f"version {version} was published and is not in the catalog: the history has forked"
        yield Problem("chain", VERSION_LOG, problem, BACKUP)


def _broken(problem: str) -> Problem:
    return Problem("chain", CATALOG, problem, BACKUP)


def _links(name: str, number: str, rows: Sequence[sqlite3.Row]) -> Iterator[str]:
    parent, expected = "", 1
    for row in rows:
        found = row[number]
        if found != expected:
            gap = f"{name} {expected}" if found == expected + 1 else f"{name} {expected} to {found - 1}"
            yield f"{gap} is not there"
        if row["parent"] != parent:
            yield f"{name} {found} does not follow the {name} before it"
        if row["hash"] != link(row["parent"], row["facts"]):
            yield f"{name} {found} is not what was committed: its hash is of other facts"
        yield from _facts(name, number, row)
        parent, expected = row["hash"], found + 1


def _facts(name: str, number: str, row: sqlite3.Row) -> Iterator[str]:
    """Where the columns of a row differ from its facts."""
    try:
        facts = json.loads(row["facts"])
        columns = (number, "time", "message", "author") if name == "version" else (number,)
        differ = [c for c in columns if facts[c] != row[c]]
    except (ValueError, KeyError, TypeError, RecursionError):
        yield f"the facts of {name} {row[number]} cannot be read"
        return
    for column in differ:
        yield f"{name} {row[number]} says {column} {row[column]!r}, its facts {facts[column]!r}"


def _times(versions: Sequence[sqlite3.Row]) -> Iterator[str]:
    before = 0
    for row in versions:
        if row["time"] <= before:
            yield f"version {row['version']} is not later than the version before it"
        before = row["time"]

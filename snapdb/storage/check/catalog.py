"""Checks of the catalog against the hash chains of versions and upkeep.

The chains must be unbroken, and a replay of their commit records must produce the rows of tables and files.
"""

import json
import sqlite3
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from snapdb.storage.catalog_db.codec import MISREAD, VERSION_LOG, link
from snapdb.storage.catalog_db.connection import CatalogDb
from snapdb.storage.catalog_db.db_dir import CATALOG
from snapdb.storage.tables.definitions import has_definitions

_ProblemKind = Literal["damaged", "missing", "chain", "catalog", "orphan"]

BACKUP = "restore the database from a backup"
_TABLES = {
    "facts": "name",
    "versions": "version",
    "upkeep": "number",
    "tables": "id",
    "shapes": "id",
    "segments": "id",
    "changes": "version, table_id",
    "tags": "folded",
    "id_maps": "id",
    "id_segments": "map_id, first",
    "graphs": "folded",
    "artefacts": "path",
    "snapshots": "id",
    "samplers": "id",
    "caches": "id",
    "tasks": "id",
    "runs": "task, run, attempt",
    "exports": "task, run, attempt",
    "leader": "one",
    "garbage": "path",
    "loaded": "table_id, path",
}
"""Catalog table → the order in which its rows are sorted."""
_DEFINED = {"definitions": "id", "sequences": "id"}
"""The same for the tables that are created with the first definition."""


class Problem(NamedTuple):
    """A problem that a check found."""

    kind: _ProblemKind
    """The kind of problem. 'orphan' is a note about an unreferenced file, and every other kind is damage."""
    path: str
    """The file, relative to the database directory."""
    problem: str
    """A description of the problem."""
    remedy: str
    """The remedy for the problem."""

    @property
    def is_damage(self) -> bool:
        """Whether published data was changed or lost."""
        return self.kind != "orphan"


# The catalog's rows.


@dataclass(frozen=True, slots=True)
class Contents:
    """The rows of every catalog table, read at one version, even if the catalog is damaged."""

    rows: dict[str, list[sqlite3.Row]]
    """The rows by table. A table that cannot be read has no rows here."""
    whole: bool
    """Whether every table could be read."""
    problems: list[Problem]
    """The problems that SQLite reports, and the tables that cannot be read."""

    def __getitem__(self, table: str) -> list[sqlite3.Row]:
        return self.rows[table]


def in_catalog(problem: str) -> Problem:
    """Return the problem for contradicting catalog rows or a damaged catalog file."""
    return Problem("catalog", CATALOG, problem, BACKUP)


def read_contents(catalog_db: CatalogDb) -> Contents:
    """Read all rows, and collect the problems that SQLite reports after checking every page and index of the file."""
    rows: dict[str, list[sqlite3.Row]] = {}
    problems: list[Problem] = []
    with catalog_db.reading() as connection:
        tables = _TABLES | (_DEFINED if has_definitions(connection) else {})
        for table, order in tables.items():
            try:
                rows[table] = connection.execute(f"SELECT * FROM {table} ORDER BY {order}").fetchall()
            except sqlite3.DatabaseError as error:
                rows[table] = []
                problems.append(in_catalog(f"cannot read its table {table}: {error}"))
        whole = not problems
        problems += _integrity(connection)
    return Contents(rows, whole, problems)


def _integrity(connection: sqlite3.Connection) -> list[Problem]:
    """Return the problems that SQLite's integrity checks report."""
    try:
        texts = [str(row[0]) for row in connection.execute("PRAGMA integrity_check(20)")]
        dangling = connection.execute("PRAGMA foreign_key_check").fetchall()
    except sqlite3.DatabaseError as error:
        return [in_catalog(f"the integrity check of SQLite failed: {error}")]
    problems = [in_catalog(f"SQLite reports: {' '.join(text.split())}") for text in texts if text != "ok"]
    pairs = sorted({(str(row[0]), str(row[2])) for row in dangling})
    return problems + [
        in_catalog(f"rows of {table} refer to rows of {named} that do not exist") for table, named in pairs
    ]


# The hash chains.


def check_chain(contents: Contents) -> Iterator[Problem]:
    """Report the broken links in the version chain and the upkeep chain."""
    versions, upkeep = contents["versions"], contents["upkeep"]
    yield from map(_broken, _links("version", "version", versions))
    yield from map(_broken, _times(versions))
    yield from map(_broken, _links("upkeep", "number", upkeep))


def check_fork(contents: Contents, logged: Iterable[tuple[int, str]]) -> Iterator[Problem]:
    """Yield the published versions that are missing from the catalog.

    Args:
        contents: The rows of the catalog.
        logged: The entries of the version log, read before the catalog.
    """
    published = {(row["version"], row["hash"]) for row in contents["versions"]}
    for version, _ in dict.fromkeys(entry for entry in logged if entry not in published):
        problem = f"version {version} was published, but is not in the catalog: the history has forked"
        yield Problem("chain", VERSION_LOG, problem, BACKUP)


def _broken(problem: str) -> Problem:
    """Return the problem for a broken chain."""
    return Problem("chain", CATALOG, problem, BACKUP)


def _links(name: str, number: str, rows: Sequence[sqlite3.Row]) -> Iterator[str]:
    """Yield the gaps, wrong parents and wrong hashes in a chain."""
    parent, expected = "", 1
    for row in rows:
        actual = row[number]
        if actual != expected:
            gap = f"{name} {expected}" if actual == expected + 1 else f"{name} {expected} to {actual - 1}"
            yield f"{gap} does not exist"
        if row["parent"] != parent:
            yield f"{name} {actual} does not follow the {name} before it"
        if row["hash"] != link(row["parent"], row["facts"]):
            yield f"{name} {actual} differs from what was committed: its hash does not match"
        yield from _facts(name, number, row)
        parent, expected = row["hash"], actual + 1


def _facts(name: str, number: str, row: sqlite3.Row) -> Iterator[str]:
    """Yield the differences between a row's columns and its commit record."""
    try:
        facts = json.loads(row["facts"])
        columns = (number, "time", "message", "author") if name == "version" else (number,)
        differ = [c for c in columns if facts[c] != row[c]]
    except (ValueError, KeyError, TypeError, RecursionError):
        yield f"cannot read the commit record of {name} {row[number]}"
        return
    for column in differ:
        yield f"{name} {row[number]} has {column} {row[column]!r}, but its commit record {facts[column]!r}"


def _times(versions: Sequence[sqlite3.Row]) -> Iterator[str]:
    """Yield the versions whose time is not later than that of the previous version."""
    before = 0
    for row in versions:
        if row["time"] <= before:
            yield f"version {row['version']} is not later than the version before it"
        before = row["time"]


# Replay: the catalog as the commit records define it.


class _FileRecord(NamedTuple):
    """A file's row in the catalog."""

    owner: int
    """The id of the file's table or id map."""
    kind: str
    """The kind of file: 'rows', 'deletes' or 'ids'."""
    rows: int
    bytes: int
    sha256: str
    first: int
    added: int | None
    """The version that added the file, or None for ids, which belong to no version."""
    shape: int | None
    """The zero-based ordinal of the table's columns with which the file was written, or None for ids."""


@dataclass(slots=True)
class _ReplayedCatalog:
    """The tables, columns and files that result from replaying commit records."""

    tables: dict[int, list[Any]] = field(default_factory=dict)
    """Table id → [name, created, dropped]."""
    shapes: dict[int, list[tuple[int, Any]]] = field(default_factory=dict)
    """Table id → the list of (since, columns)."""
    files: dict[str, _FileRecord] = field(default_factory=dict)
    """Path → the file's record."""
    sums: dict[tuple[int, int], list[int]] = field(default_factory=dict)
    """(version, table) → [rows added, rows removed], unless both are 0."""
    events: set[tuple[int, int, str]] = field(default_factory=set)
    """The events (version, table, 'create' | 'alter' | 'drop')."""
    loaded: dict[tuple[int, str], tuple[int, int, int]] = field(default_factory=dict)
    """(table, path) → (bytes, modified, version) of loaded files."""
    definitions: dict[int, list[Any]] = field(default_factory=dict)
    """Definition id → [kind, name, created, dropped, definition]."""

    def commit(self, version: int, change: dict[str, Any]) -> None:
        """Apply one change of a version."""
        match change["change"]:
            case "create":
                self.tables[change["table"]] = [change["name"], version, None]
                self._shape(version, change, "create")
            case "columns":
                self._shape(version, change, "alter")
            case "drop":
                self.tables[change["table"]][2] = version
                self.events.add((version, change["table"], "drop"))
            case "rows" | "deletes" as kind:
                shape = len(self.shapes[change["table"]]) - 1
                self._file(change["table"], kind, change, version, shape)
                if change["rows"]:
                    sums = self.sums.setdefault((version, change["table"]), [0, 0])
                    sums[kind == "deletes"] += change["rows"]
            case "ids":
                for path in change["merged"]:  # a map's first file is in no commit record and may be missing
                    self.files.pop(path, None)
                self._file(change["map"], "ids", change, None, None)
            case "loaded":
                for path, bytes_, modified in change["files"]:
                    self.loaded[change["table"], path] = (bytes_, modified, version)
            case "define" | "undefine":
                self._define(version, change)
            case other:
                raise ValueError(f"a change of a kind unknown to this snapdb: {other!r}")

    def _define(self, version: int, change: dict[str, Any]) -> None:
        """Record a new definition, which may replace one with its name, or the end of a definition."""
        if change["change"] == "undefine":
            self.definitions[change["id"]][3] = version
            return
        kind, name = change["kind"], change["name"]
        for before in self.definitions.values():
            if before[3] is None and before[0] == kind and before[1].lower() == name.lower():
                before[3] = version
        self.definitions[change["id"]] = [kind, name, version, None, change["definition"]]

    def replace(self, change: dict[str, Any]) -> None:
        """Apply one upkeep change, in which one file replaces several."""
        old = [self.files.pop(path, None) for path in change["replaced"]]
        known = [file for file in old if file is not None]
        # The first file of an id map is written for a graph, not by a version, so no commit record contains it.
        if len(known) < len(old) and change["change"] != "ids":
            raise ValueError(f"{change['path']} replaces files that did not exist")
        if len(known) == len(old) and sum(file.rows for file in known) != change["rows"]:
            raise ValueError(f"{change['path']} does not have the rows of the files that it replaces")
        shape = known[-1].shape if known else None
        added = None if change["change"] == "ids" else max(file.added or 0 for file in known)
        self._file(change["owner"], change["change"], change, added, shape)

    def _shape(self, version: int, change: dict[str, Any], event: str) -> None:
        """Record new columns of a table."""
        self.shapes.setdefault(change["table"], []).append((version, change["columns"]))
        self.events.add((version, change["table"], event))

    def _file(self, owner: int, kind: str, fact: dict[str, Any], added: int | None, shape: int | None) -> None:
        """Record a file."""
        named = _FileRecord(owner, kind, fact["rows"], fact["bytes"], fact["sha256"], fact["first"], added, shape)
        self.files[fact["path"]] = named


def _replay(versions: Iterable[str], upkeep: Iterable[str]) -> _ReplayedCatalog:
    """Replay the commit records of all versions, and each upkeep record after the version that preceded it.

    Raises:
        ValueError, KeyError, TypeError, …: The records are not valid.

    >>> column = ["a", "INTEGER", True, 1, None]
    >>> created = {"change": "create", "table": 1, "name": "t", "columns": [column]}
    >>> _replay([json.dumps({"version": 1, "changes": [created]})], []).tables
    {1: ['t', 1, None]}
    """
    expected = _ReplayedCatalog()
    done = deque(json.loads(text) for text in upkeep)
    for facts in map(json.loads, versions):
        for change in facts["changes"]:
            expected.commit(facts["version"], change)
        while done and done[0]["after"] <= facts["version"]:
            for change in done.popleft()["changes"]:
                expected.replace(change)
    if done:
        raise ValueError(f"files were merged after version {done[0]['after']}, which does not exist")
    return expected


# Compare the rows of tables and files with the replay.


def check_catalog(contents: Contents) -> Iterator[Problem]:
    """Yield the contradictions between the rows and the chains. Requires that every table could be read."""
    try:
        expected = _replay([r["facts"] for r in contents["versions"]], [r["facts"] for r in contents["upkeep"]])
    except MISREAD as error:
        yield in_catalog(f"the commit records of its versions contradict each other: {error}")._replace(kind="chain")
    else:
        for look in (_tables, _shapes, _files, _sums, _loaded, _definitions):
            yield from map(in_catalog, look(contents, expected))


def _tables(contents: Contents, expected: _ReplayedCatalog) -> Iterator[str]:
    """Report contradictions about the names, creation and dropping of tables."""
    actual = {r["id"]: [r["name"], r["created"], r["dropped"]] for r in contents["tables"]}
    yield from _differences("table", actual, expected.tables)


def _shapes(contents: Contents, expected: _ReplayedCatalog) -> Iterator[str]:
    """Report contradictions about columns."""
    actual: dict[int, list[tuple[int, Any]]] = {}
    for row in contents["shapes"]:
        actual.setdefault(row["table_id"], []).append((row["since"], _json(row["columns"])))
    yield from _differences("the columns of table", actual, expected.shapes)


def _files(contents: Contents, expected: _ReplayedCatalog) -> Iterator[str]:
    """Report contradictions about files."""
    place = _ordinals(contents)
    actual = {r["path"]: _named(r, place) for r in contents["segments"]}
    for row in contents["id_segments"]:
        # The first file of a map is written for a graph and has no commit record.
        if row["path"] in expected.files or row["first"] != 0:
            facts = (row["rows"], row["bytes"], row["sha256"], row["first"])
            actual[row["path"]] = _FileRecord(row["map_id"], "ids", *facts, None, None)
    yield from _differences("file", actual, expected.files)


def _named(row: sqlite3.Row, place: Mapping[tuple[int, int], int]) -> _FileRecord:
    """Return the record for a file's row."""
    facts = (row["rows"], row["bytes"], row["sha256"], row["first"], row["added"])
    return _FileRecord(row["table_id"], row["kind"], *facts, place.get((row["table_id"], row["shape"])))


def _ordinals(contents: Contents) -> dict[tuple[int, int], int]:
    """(table, shape id) → the ordinal of the shape within its table."""
    count: dict[int, int] = defaultdict(int)
    place = {}
    for row in contents["shapes"]:
        place[row["table_id"], row["id"]] = count[row["table_id"]]
        count[row["table_id"]] += 1
    return place


def _sums(contents: Contents, expected: _ReplayedCatalog) -> Iterator[str]:
    """Report contradictions about added and removed rows, and about events."""
    sums: dict[tuple[int, int], list[int]] = defaultdict(lambda: [0, 0])
    events = set()
    for row in contents["changes"]:
        key = (row["version"], row["table_id"])
        sums[key][0] += row["rows_added"]
        sums[key][1] += row["rows_removed"]
        if row["kind"] not in ("append", "delete"):
            events.add((*key, row["kind"]))
    actual = {key: value for key, value in sums.items() if value != [0, 0]}
    yield from _differences("what (version, table) changed:", actual, expected.sums)
    for version, table, kind in sorted(events ^ expected.events, key=str):
        state = "is only in the commit records" if (version, table, kind) in expected.events else "has no commit record"
        yield f"{kind} of table {table} in version {version} {state}"


def _loaded(contents: Contents, expected: _ReplayedCatalog) -> Iterator[str]:
    """Report contradictions about loaded files."""
    actual = {(r["table_id"], r["path"]): (r["bytes"], r["modified"], r["version"]) for r in contents["loaded"]}
    yield from _differences("what (table, file) was loaded:", actual, expected.loaded)


def _definitions(contents: Contents, expected: _ReplayedCatalog) -> Iterator[str]:
    """Report contradictions about views and other definitions."""
    rows = contents.rows.get("definitions", [])
    actual = {r["id"]: [r["kind"], r["name"], r["created"], r["dropped"], _json(r["definition"])] for r in rows}
    yield from _differences("definition", actual, expected.definitions)


def _differences(what: str, actual: Mapping[Any, Any], expected: Mapping[Any, Any]) -> Iterator[str]:
    """Yield the differences between the rows and the replay, key by key."""
    for key in sorted({*actual, *expected}, key=str):
        if key not in actual:
            yield f"{what} {key} does not exist, but is in the commit records"
        elif key not in expected:
            yield f"{what} {key} exists, but is not in the commit records"
        elif actual[key] != expected[key]:
            yield f"{what} {key} is {_plain(actual[key])}, but {_plain(expected[key])} in the commit records"


def _plain(value: Any) -> str:
    return str(tuple(value)) if isinstance(value, tuple) else str(value)


def _json(text: Any) -> Any:
    try:
        return json.loads(text)
    except (ValueError, TypeError, RecursionError):
        return text

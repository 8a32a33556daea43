"""Checks of the catalog's rows against each other and against the hash chain of the versions."""

from __future__ import annotations

import json
import sqlite3
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from snapdb.storage.catalog_db.chain import VERSION_LOG, link
from snapdb.storage.catalog_db.codec import MISREAD
from snapdb.storage.catalog_db.connection import Ledger
from snapdb.storage.catalog_db.db_dir import CATALOG

_Kind = Literal["damaged", "missing", "chain", "catalog", "orphan"]

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
"""Table of the catalog → its order."""


class Problem(NamedTuple):
    """One thing that is not as it was published."""

    kind: _Kind
    """'orphan' is a note: a file that nothing points at. Everything else is damage."""
    path: str
    """Relative to the database directory."""
    problem: str
    remedy: str

    @property
    def is_damage(self) -> bool:
        """Whether something that was published is not as it was."""
        return self.kind != "orphan"


# Everything that the catalog says, read at one moment, however damaged it is


@dataclass(frozen=True, slots=True)
class Contents:
    """The rows of every table of the catalog."""

    rows: dict[str, list[sqlite3.Row]]
    """Of a table that cannot be read: none."""
    whole: bool
    """Every table could be read."""
    problems: list[Problem]
    """What SQLite itself finds wrong, and which tables it cannot read."""

    def __getitem__(self, table: str) -> list[sqlite3.Row]:
        return self.rows[table]


def in_catalog(problem: str) -> Problem:
    """A contradiction among the catalog's rows, or what SQLite says of its file."""
    return Problem("catalog", CATALOG, problem, BACKUP)


def read_contents(ledger: Ledger, *, integrity: bool = False) -> Contents:
    """All rows. `integrity`: SQLite looks at every page and index of its file first."""
    rows: dict[str, list[sqlite3.Row]] = {}
    problems: list[Problem] = []
    with ledger.reading() as connection:
        for table, order in _TABLES.items():
            try:
                rows[table] = connection.execute(f"SELECT * FROM {table} ORDER BY {order}").fetchall()
            except sqlite3.DatabaseError as error:
                rows[table] = []
                problems.append(in_catalog(f"its table {table} cannot be read: {error}"))
        whole = not problems
        if integrity:
            problems += _integrity(connection)
    return Contents(rows, whole, problems)


def _integrity(connection: sqlite3.Connection) -> list[Problem]:
    try:
        found = [str(row[0]) for row in connection.execute("PRAGMA integrity_check(20)")]
        loose = connection.execute("PRAGMA foreign_key_check").fetchall()
    except sqlite3.DatabaseError as error:
        return [in_catalog(f"SQLite cannot check it: {error}")]
    said = [in_catalog(f"SQLite says: {' '.join(text.split())}") for text in found if text != "ok"]
    pairs = sorted({(str(row[0]), str(row[2])) for row in loose})
    return said + [in_catalog(f"rows of {table} name rows of {named} that are not there") for table, named in pairs]


# Whether the versions, and what VACUUM did, still are the chain of hashes that was written


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


# The catalog that the chains tell of: what their facts, one after another, would have written


class _FileRecord(NamedTuple):
    """A file as the catalog must name it."""

    owner: int
    """Its table, or its id map."""
    kind: str
    """'rows', 'deletes' or 'ids'."""
    rows: int
    bytes: int
    sha256: str
    first: int
    added: int | None
    """None for ids, which belong to no version."""
    shape: int | None
    """Which of the table's columns it was written with, counted from 0; None for ids."""


@dataclass(slots=True)
class _ReplayedCatalog:
    """Tables, columns and files after every fact so far."""

    tables: dict[int, list[Any]] = field(default_factory=dict)
    """Id → [name, created, dropped]."""
    shapes: dict[int, list[tuple[int, Any]]] = field(default_factory=dict)
    """Table → [(since, columns)], in order."""
    files: dict[str, _FileRecord] = field(default_factory=dict)
    sums: dict[tuple[int, int], list[int]] = field(default_factory=dict)
    """(version, table) → [rows added, rows removed], where one is not 0."""
    turns: set[tuple[int, int, str]] = field(default_factory=set)
    """(version, table, 'create' | 'alter' | 'drop')."""
    loaded: dict[tuple[int, str], tuple[int, int, int]] = field(default_factory=dict)
    """(table, path of a file that was loaded into it) → (bytes, modified, version)."""

    def commit(self, version: int, change: dict[str, Any]) -> None:
        """Take in one change of a version."""
        match change["change"]:
            case "create":
                self.tables[change["table"]] = [change["name"], version, None]
                self._shape(version, change, "create")
            case "columns":
                self._shape(version, change, "alter")
            case "drop":
                self.tables[change["table"]][2] = version
                self.turns.add((version, change["table"], "drop"))
            case "rows" | "deletes" as kind:
                shape = len(self.shapes[change["table"]]) - 1
                self._file(change["table"], kind, change, version, shape)
                if change["rows"]:
                    sums = self.sums.setdefault((version, change["table"]), [0, 0])
                    sums[kind == "deletes"] += change["rows"]
            case "ids":
                for path in change["merged"]:  # the first file of a map is told by no fact
                    self.files.pop(path, None)
                self._file(change["map"], "ids", change, None, None)
            case "loaded":
                for path, bytes_, modified in change["files"]:
                    self.loaded[change["table"], path] = (bytes_, modified, version)
            case other:
                raise ValueError(f"a change of a kind that this snapdb does not know: {other!r}")

    def keep_up(self, change: dict[str, Any]) -> None:
        """Take in that a file was put in the place of others."""
        old = [self.files.pop(path, None) for path in change["replaced"]]
        known = [file for file in old if file is not None]
        # The first file of an id map comes with a graph, not with a version: no fact tells of it.
        if len(known) < len(old) and change["change"] != "ids":
            raise ValueError(f"{change['path']} replaces files that were not there")
        if len(known) == len(old) and sum(file.rows for file in known) != change["rows"]:
            raise ValueError(f"{change['path']} has not the rows of the files that it replaces")
        shape = known[-1].shape if known else None
        added = None if change["change"] == "ids" else max(file.added or 0 for file in known)
        self._file(change["owner"], change["change"], change, added, shape)

    def _shape(self, version: int, change: dict[str, Any], turn: str) -> None:
        self.shapes.setdefault(change["table"], []).append((version, change["columns"]))
        self.turns.add((version, change["table"], turn))

    def _file(self, owner: int, kind: str, fact: dict[str, Any], added: int | None, shape: int | None) -> None:
        named = _FileRecord(owner, kind, fact["rows"], fact["bytes"], fact["sha256"], fact["first"], added, shape)
        self.files[fact["path"]] = named


def _replay(versions: Iterable[str], upkeep: Iterable[str]) -> _ReplayedCatalog:
    """What the facts of all versions tell, and those of upkeep, each after the version that it followed.

    Raises:
        ValueError, KeyError, TypeError, …: they are no facts.

    >>> column = ["a", "INTEGER", True, 1, None]
    >>> made = {"change": "create", "table": 1, "name": "t", "columns": [column]}
    >>> _replay([json.dumps({"version": 1, "changes": [made]})], []).tables
    {1: ['t', 1, None]}
    """
    expected = _ReplayedCatalog()
    done = deque(json.loads(text) for text in upkeep)
    for facts in map(json.loads, versions):
        for change in facts["changes"]:
            expected.commit(facts["version"], change)
        while done and done[0]["after"] <= facts["version"]:
            for change in done.popleft()["changes"]:
                expected.keep_up(change)
    if done:
        raise ValueError(f"upkeep after version {done[0]['after']}, which is not there")
    return expected


# Whether the catalog's rows about tables and files are what the chains tell


def check_catalog(contents: Contents) -> Iterator[Problem]:
    """Where rows contradict the chains; call it when every table could be read."""
    try:
        expected = _replay([r["facts"] for r in contents["versions"]], [r["facts"] for r in contents["upkeep"]])
    except MISREAD as error:
        yield in_catalog(f"the facts of its versions contradict each other: {error}")._replace(kind="chain")
    else:
        for look in (_tables, _shapes, _files, _sums, _loaded):
            yield from map(in_catalog, look(contents, expected))


def _tables(contents: Contents, expected: _ReplayedCatalog) -> Iterator[str]:
    found = {r["id"]: [r["name"], r["created"], r["dropped"]] for r in contents["tables"]}
    yield from _differences("table", found, expected.tables)


def _shapes(contents: Contents, expected: _ReplayedCatalog) -> Iterator[str]:
    found: dict[int, list[tuple[int, Any]]] = {}
    for row in contents["shapes"]:
        found.setdefault(row["table_id"], []).append((row["since"], _json(row["columns"])))
    yield from _differences("the columns of table", found, expected.shapes)


def _files(contents: Contents, expected: _ReplayedCatalog) -> Iterator[str]:
    place = _ordinals(contents)
    actual = {r["path"]: _named(r, place) for r in contents["segments"]}
    for row in contents["id_segments"]:
        if row["path"] in expected.files or row["first"] != 0:  # the first file of a map comes with a graph
            facts = (row["rows"], row["bytes"], row["sha256"], row["first"])
            actual[row["path"]] = _FileRecord(row["map_id"], "ids", *facts, None, None)
    yield from _differences("file", actual, expected.files)


def _named(row: sqlite3.Row, place: Mapping[tuple[int, int], int]) -> _FileRecord:
    facts = (row["rows"], row["bytes"], row["sha256"], row["first"], row["added"])
    return _FileRecord(row["table_id"], row["kind"], *facts, place.get((row["table_id"], row["shape"])))


def _ordinals(contents: Contents) -> dict[tuple[int, int], int]:
    """(table, shape's id) → which of the table's shapes it is."""
    count: dict[int, int] = defaultdict(int)
    place = {}
    for row in contents["shapes"]:
        place[row["table_id"], row["id"]] = count[row["table_id"]]
        count[row["table_id"]] += 1
    return place


def _sums(contents: Contents, expected: _ReplayedCatalog) -> Iterator[str]:
    sums: dict[tuple[int, int], list[int]] = defaultdict(lambda: [0, 0])
    turns = set()
    for row in contents["changes"]:
        key = (row["version"], row["table_id"])
        sums[key][0] += row["rows_added"]
        sums[key][1] += row["rows_removed"]
        if row["kind"] not in ("append", "delete"):
            turns.add((*key, row["kind"]))
    found = {key: value for key, value in sums.items() if value != [0, 0]}
    yield from _differences("what (version, table) changed:", found, expected.sums)
    for version, table, kind in sorted(turns ^ expected.turns, key=str):
        state = "is told by the versions only" if (version, table, kind) in expected.turns else "is told by no version"
        yield f"{kind} of table {table} in version {version} {state}"


def _loaded(contents: Contents, expected: _ReplayedCatalog) -> Iterator[str]:
    found = {(r["table_id"], r["path"]): (r["bytes"], r["modified"], r["version"]) for r in contents["loaded"]}
    yield from _differences("what (table, file) was loaded:", found, expected.loaded)


def _differences(what: str, found: Mapping[Any, Any], expected: Mapping[Any, Any]) -> Iterator[str]:
    for key in sorted({*found, *expected}, key=str):
        if key not in found:
            yield f"{what} {key} is not there, though its versions tell of it"
        elif key not in expected:
            yield f"{what} {key} is there, though no version tells of it"
        elif found[key] != expected[key]:
            yield f"{what} {key} is {_plain(found[key])}, the versions tell of {_plain(expected[key])}"


def _plain(value: Any) -> str:
    return str(tuple(value)) if isinstance(value, tuple) else str(value)


def _json(text: Any) -> Any:
    try:
        return json.loads(text)
    except (ValueError, TypeError, RecursionError):
        return text

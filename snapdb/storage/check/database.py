"""The check of a whole database: its files, its catalog and its version log."""

import json
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from pathlib import Path, PurePosixPath
from sqlite3 import Row
from typing import Any, NamedTuple

from snapdb.errors import CorruptError
from snapdb.storage.catalog_db.codec import MISREAD, VersionLog, decode, decode_columns, is_sound
from snapdb.storage.catalog_db.connection import PUBLISHED_FOLDERS, CatalogDb
from snapdb.storage.catalog_db.db_dir import DatabaseDir
from snapdb.storage.catalog_db.locks import TablesLock
from snapdb.storage.check.catalog import (
    BACKUP,
    Contents,
    Problem,
    check_catalog,
    check_chain,
    check_fork,
    in_catalog,
    read_contents,
)
from snapdb.storage.disk import hash_file
from snapdb.storage.gc import DEFAULT_GRACE, OrphanFile, find_orphans, referenced_dirs, referenced_paths
from snapdb.storage.manifests import MANIFEST, parse_manifest
from snapdb.storage.tables.commit import now
from snapdb.types import Cache, PropertyGraph, Retention, RunExport, Sampler, Snapshot, Task, TaskRun

_SNAPSHOT = "DROP the snapshot and create it again"
_SHARED = "DROP the snapshots that use it, run VACUUM RETAIN INTERVAL '0 seconds', and create them again"
_GONE = "it was published, but does not exist"

_Report = Callable[[str, float | None], None]

_NOTES = "VACUUM removes it once no process reads or writes"


class Checked(NamedTuple):
    """The files that a check read."""

    files: int
    bytes: int


def check_database(
    catalog_db: CatalogDb, report: _Report = lambda what, share: None
) -> Generator[Problem, None, Checked]:
    """Yield a database's problems, damage before notes. The caller must hold the tables' lock.

    Args:
        catalog_db: The database.
        report: A function that is called with the current step and its completed fraction.

    Returns:
        The published files that were read. They are returned after all problems were yielded.

    Raises:
        LockedError: Another process kept the catalog locked.
    """
    db_dir = catalog_db.db_dir
    report("reading the catalog", None)
    # List the files before reading the catalog, so that files committed in between are in the catalog and not reported
    # as orphans.
    old = find_orphans(db_dir, set(), now() - DEFAULT_GRACE)
    logged = VersionLog(db_dir.path).read()
    contents = read_contents(catalog_db)
    yield from contents.problems
    yield from _contradictions(db_dir, contents, logged)
    files: list[_PublishedFile] = []
    for item in _published_files(db_dir, contents):
        if isinstance(item, _PublishedFile):
            files.append(item)
        # The check takes minutes, and a snapshot may be dropped in that time. A problem counts only if the catalog
        # still names the file.
        elif not contents.whole or _is_named(catalog_db, item.path):
            yield item
    for problem in _compare_files(db_dir, files, report):
        if not contents.whole or _is_named(catalog_db, problem.path):
            yield problem
    if contents.whole:
        yield from _orphans(db_dir, contents, old)
    return Checked(len(files), sum(file.bytes for file in files))


def catalog_damage(catalog_db: CatalogDb) -> Problem | None:
    """Return the first problem in the catalog itself, or None if there is none. Reads the whole catalog."""
    logged = VersionLog(catalog_db.db_dir.path).read()
    contents = read_contents(catalog_db)
    return next(iter([*contents.problems, *_contradictions(catalog_db.db_dir, contents, logged)]), None)


def verify_files(catalog_db: CatalogDb, report: _Report = lambda what, share: None) -> None:
    """Check a database. Unreferenced files are not damage.

    Args:
        catalog_db: The database.
        report: A function that is called with the current step and its completed fraction.

    Raises:
        CorruptError: The database is damaged. The error describes the first problem.
    """
    lock = TablesLock(catalog_db.db_dir)
    try:
        for kind, path, problem, remedy in (p for p in check_database(catalog_db, report) if p.is_damage):
            raise CorruptError(f"{catalog_db.db_dir.path / path} ({kind}): {problem}; {remedy}", code="damaged-file")
    finally:
        lock.release()


def _contradictions(db_dir: DatabaseDir, contents: Contents, logged: list[tuple[int, str]]) -> Iterator[Problem]:
    """Report contradictions within the catalog, and between the catalog and its chains or earlier log entries."""
    if contents.whole:
        yield from _guarded(check_chain(contents))
        yield from check_fork(contents, logged)
        yield from _guarded(check_catalog(contents))
        yield from _guarded(_check_definitions(db_dir, contents))


def _guarded(problems: Iterable[Problem]) -> Iterator[Problem]:
    """Yield the same problems, and one more if the rows are so damaged that the check itself fails."""
    try:
        yield from problems
    except (*MISREAD, ArithmeticError) as error:
        yield in_catalog(f"it contains a value of the wrong type: {type(error).__name__}: {error}")


def _is_named(catalog_db: CatalogDb, path: str) -> bool:
    """Return whether the catalog still names a file or a directory above it. A snapshot may have been dropped since."""
    with catalog_db.reading() as connection:
        named = referenced_paths(connection)
    own = PurePosixPath(path)
    return any(str(p) in named for p in (own, *own.parents)) or path == "catalog.sqlite"


def _orphans(db_dir: DatabaseDir, contents: Contents, old: Iterable[OrphanFile]) -> Iterator[Problem]:
    """Yield the unreferenced files that are older than the grace period."""
    tables = ("segments", "id_segments", "artefacts", "snapshots", "garbage")
    known = {row["path"] for table in tables for row in contents[table]}
    known |= referenced_dirs(db_dir, contents["snapshots"])[0]
    for entry in old:
        if entry.path not in known:
            yield Problem("orphan", entry.path, f"orphan file, no row refers to it ({entry.bytes:,} bytes)", _NOTES)


class _PublishedFile(NamedTuple):
    """The record of a published file."""

    path: Path
    bytes: int
    sha256: str
    remedy: str


def _published_files(db_dir: DatabaseDir, contents: Contents) -> Iterator[_PublishedFile | Problem]:
    """Yield all published files, and the problems in the rows and manifests that should name them."""
    for table in ("segments", "id_segments"):
        for row in contents[table]:
            try:
                yield _PublishedFile(db_dir.inside(row["path"]), int(row["bytes"]), row["sha256"], BACKUP)
            except (CorruptError, ValueError, TypeError, AttributeError):
                yield _bad_row(table, row)
    shared = {row["path"] for row in contents["artefacts"]}
    for table, remedy in (("artefacts", _SHARED), ("snapshots", _SNAPSHOT)):
        for row in contents[table]:
            try:
                directory = db_dir.inside(row["path"])
            except (CorruptError, TypeError, AttributeError):
                yield _bad_row(table, row)
            else:
                yield from _directory(db_dir, directory, shared if table == "snapshots" else row["digest"], remedy)


def _compare_files(db_dir: DatabaseDir, files: Sequence[_PublishedFile], report: _Report) -> Iterator[Problem]:
    """Read every file, and yield a problem for each file that is missing or whose bytes differ."""
    total, done = sum(file.bytes for file in files) or 1, 0
    for file in files:
        report("checking files", min(done / total, 1.0))
        done += file.bytes
        path = str(file.path.relative_to(db_dir.path))
        try:
            size, digest = hash_file(file.path)
        except FileNotFoundError:
            yield Problem("missing", path, _GONE, file.remedy)
        except (OSError, ValueError) as error:
            yield Problem("damaged", path, f"cannot read it: {error}", file.remedy)
        else:
            if size != file.bytes:
                yield Problem("damaged", path, f"it has {size} bytes instead of {file.bytes}", file.remedy)
            elif digest != file.sha256:
                yield Problem("damaged", path, "its bytes differ from those that were published", file.remedy)


def _bad_row(table: str, row: Row) -> Problem:
    """Return the problem for a row with an invalid path."""
    return in_catalog(f"a row of {table} is damaged: it refers to {row['path']!r}")


def _directory(
    db_dir: DatabaseDir, directory: Path, expected: set[str] | str, remedy: str
) -> Iterator[_PublishedFile | Problem]:
    """Yield the files named in a directory's manifest, and the problems in the manifest.

    Args:
        db_dir: The database directory.
        directory: The published directory.
        expected: The digest of an artifact or, for a snapshot's directory, the artifacts in the catalog.
        remedy: The remedy for a problem.
    """
    path = str((directory / MANIFEST).relative_to(db_dir.path))
    try:
        listed = parse_manifest(directory)
    except (FileNotFoundError, NotADirectoryError):
        yield Problem("missing", path, _GONE, remedy)
        return
    except (CorruptError, ValueError) as error:
        yield Problem("damaged", path, f"cannot read it: {error.__cause__ or error}", remedy)
        return
    if listed.digest != (expected if isinstance(expected, str) else None):
        yield Problem("damaged", path, "it is the manifest of another directory", remedy)
    for name, (size, sha256) in listed.files.items():
        yield _PublishedFile(directory / name, size, sha256, remedy)
    for named in listed.directories if isinstance(expected, set) else ():
        if not _exists(db_dir, named):
            yield Problem("missing", path, f"it needs {named}, which does not exist", remedy)
        elif named not in expected:
            yield in_catalog(f"no row of artefacts refers to {named}, but {path} needs it")


def _exists(db_dir: DatabaseDir, named: str) -> bool:
    """Return whether a directory that a manifest names exists."""
    try:
        return db_dir.inside(named).is_dir()
    except (CorruptError, ValueError):
        return False


_SHA256 = 64
"""The number of hexadecimal digits in a SHA-256."""


def _check_definitions(db_dir: DatabaseDir, contents: Contents) -> Iterator[Problem]:
    """Yield the problems in rows that are not part of any chain. Requires that every table could be read."""
    for look in (
        _names,
        _tags,
        _id_maps,
        _ids,
        _artefacts,
        _graphs,
        _snapshots,
        _samplers,
        _caches,
        _tasks,
        _runs,
        _exports,
        _leader,
    ):
        yield from map(in_catalog, look(contents))
    yield from map(in_catalog, _garbage(db_dir, contents))


def _names(contents: Contents) -> Iterator[str]:
    """Report contradictions about the counter of changes, and names that differ from their case-folded form."""
    facts = {r["name"]: r["value"] for r in contents["facts"]}
    if not str(facts.get("changes")).isdecimal():
        yield f"its counter of changes is {facts.get('changes')!r}"
    for table in ("tables", "tags", "graphs", "snapshots", "samplers", "caches", "tasks"):
        kind = table.removesuffix("s")
        for row in contents[table]:
            if row["folded"] != str(row["name"]).lower():
                yield f"{kind} {row['name']!r} has the lookup name {row['folded']!r}"


def _tags(contents: Contents) -> Iterator[str]:
    """Report tags of versions that do not exist."""
    versions = {r["version"] for r in contents["versions"]}
    for row in contents["tags"]:
        if row["version"] not in versions:
            yield f"tag {row['name']!r} refers to version {row['version']}, which does not exist"


def _id_maps(contents: Contents) -> Iterator[str]:
    """Report id maps of tables or columns that never existed."""
    columns: dict[int, set[tuple[Any, Any]]] = {row["id"]: set() for row in contents["tables"]}
    for row in contents["shapes"]:
        known = columns.setdefault(row["table_id"], set())
        known.update((c.field, c.type) for c in _read(decode_columns, row["columns"]) or ())
    for row in contents["id_maps"]:
        if row["table_id"] not in columns:
            yield f"id map {row['id']} is of table {row['table_id']}, which does not exist"
            continue
        key = _read(lambda text: [(field, type_) for field, type_ in json.loads(text)], row["key"])
        if not key or any(column not in columns[row["table_id"]] for column in key):
            yield f"id map {row['id']} is of columns {row['key']!r}, which table {row['table_id']} never had"


def _ids(contents: Contents) -> Iterator[str]:
    """Report ids that are not in exactly one file of their map."""
    limits: dict[int, int] = {r["id"]: 0 for r in contents["id_maps"]}
    for row in contents["id_segments"]:
        if row["map_id"] not in limits:
            yield f"{row['path']} contains ids of map {row['map_id']}, which does not exist"
        elif row["first"] != limits[row["map_id"]]:
            yield f"ids {limits[row['map_id']]} to {row['first']} of map {row['map_id']} are in no file, or in two"
        limits[row["map_id"]] = row["first"] + row["rows"]


def _artefacts(contents: Contents) -> Iterator[str]:
    """Report artifacts with a contradictory row."""
    for row in contents["artefacts"]:
        if row["kind"] != row["path"].partition("/")[0] or not isinstance(row["bytes"], int):
            yield f"a row of artefacts is damaged: {row['path']!r} is of kind {row['kind']!r}, {row['bytes']!r} bytes"


def _graphs(contents: Contents) -> Iterator[str]:
    """Report graphs and retentions that cannot be decoded, or have another name."""
    for row in contents["graphs"]:
        graph = _read(lambda text: decode(PropertyGraph, text), row["definition"])
        if graph is None:
            yield f"cannot read the definition of graph {row['name']!r}"
        elif graph.name != row["name"]:
            yield f"graph {row['name']!r} is defined as {graph.name!r}"
        if row["retention"] is not None and _read(lambda text: decode(Retention, text), row["retention"]) is None:
            yield f"cannot read the retention of graph {row['name']!r}"


def _snapshots(contents: Contents) -> Iterator[str]:
    """Report snapshots that cannot be decoded, contradict their row, or name a version that does not exist."""
    head = max((r["version"] for r in contents["versions"]), default=0)
    for row in contents["snapshots"]:
        snapshot = _read(lambda text: decode(Snapshot, text), row["definition"])
        if snapshot is None or not isinstance(snapshot.version, int):
            yield f"cannot read the definition of snapshot {row['name']!r}"
        elif (snapshot.name, snapshot.id, snapshot.path) != (row["name"], row["id"], row["path"]):
            yield f"snapshot {row['name']!r} is defined as another one"
        elif not 0 <= snapshot.version <= head:
            yield f"snapshot {row['name']!r} has version {snapshot.version}, which does not exist"


def _samplers(contents: Contents) -> Iterator[str]:
    """Report samplers that cannot be decoded, contradict their row, or have no snapshot."""
    yield from _named_after(contents, Sampler, "sampler", "snapshot")


def _caches(contents: Contents) -> Iterator[str]:
    """Report caches that cannot be decoded, contradict their row, or have no sampler."""
    yield from _named_after(contents, Cache, "cache", "sampler")


def _tasks(contents: Contents) -> Iterator[str]:
    """Report tasks that cannot be decoded or contradict their row."""
    for row in contents["tasks"]:
        task = _read(lambda text: decode(Task, text), row["definition"])
        sound = task is not None and is_sound(Task, task) and is_sound(int, row["considered"])
        if task is None or not sound or (task.schedule.cron is None) is (task.schedule.every is None):
            yield f"cannot read the definition of task {row['name']!r}"
        elif (task.name, task.id) != (row["name"], row["id"]):
            yield f"task {row['name']!r} is defined as another one"


def _runs(contents: Contents) -> Iterator[str]:
    """Report attempts whose version never existed, or whose state contradicts their times."""
    head = max((r["version"] for r in contents["versions"]), default=0)
    for row in contents["runs"]:
        attempt = f"attempt {row['attempt']} of run {row['run']} of task {row['name']!r}"
        run = _read(_run, row)
        if run is None or not is_sound(TaskRun, run):
            yield f"cannot read {attempt}"
            continue
        began, over = run.started is not None, run.ended is not None
        if not all(0 <= version <= head for version in (*run.published, run.version)):
            yield f"{attempt} refers to a version that does not exist"
        elif (began, over) != {"running": (True, False), "missed": (False, False)}.get(run.state, (True, True)):
            yield f"{attempt} is {run.state}, which contradicts its times"


def _run(row: Any) -> TaskRun:
    """Return the run in a row. Its values are not checked."""
    values = dict(row)
    return TaskRun(**values | {"published": tuple(json.loads(row["published"])), "replaced": _flag(row["replaced"])})


def _flag(value: Any) -> bool:
    """Return the boolean that SQLite stores as 0 or 1."""
    if value not in (0, 1):
        raise ValueError(f"{value!r} is neither 0 nor 1")
    return bool(value)


def _exports(contents: Contents) -> Iterator[str]:
    """Report exports with unreadable rows, or whose runs are not recorded."""
    known = {(r["task"], r["run"]) for r in contents["runs"]}
    for row in contents["exports"]:
        export = RunExport(row["statement"], row["path"], row["sha256"])
        name = f"an export of run {row['run']} of task {row['task']}"
        if not is_sound(RunExport, export) or export.statement < 1 or len(export.sha256) != _SHA256:
            yield f"cannot read {name}"
        elif (row["task"], row["run"]) not in known:
            yield f"{name} is of a run that does not exist"


def _leader(contents: Contents) -> Iterator[str]:
    """Report a lease that cannot be read."""
    for row in contents["leader"]:
        if not all(is_sound(int, row[name]) for name in ("beat", "pid", "since")):
            yield "cannot read the leader of tasks"


def _named_after(contents: Contents, type_: type[Any], kind: str, of: str) -> Iterator[str]:
    """Report rows of a kind that cannot be decoded, contradict themselves, or whose owner does not exist."""
    owners = {row["folded"] for row in contents[f"{of}s"]}
    for row in contents[f"{kind}s"]:
        thing = _read(lambda text: decode(type_, text), row["definition"])
        if thing is None:
            yield f"cannot read the definition of {kind} {row['name']!r}"
        elif (thing.name, thing.id, str(getattr(thing, of)).lower()) != (row["name"], row["id"], row[of]):
            yield f"{kind} {row['name']!r} is defined as another one"
        elif row[of] not in owners:
            yield f"{kind} {row['name']!r} is of {of} {getattr(thing, of)!r}, which does not exist"


def _garbage(db_dir: DatabaseDir, contents: Contents) -> Iterator[str]:
    """Report pending deletes that are invalid, or whose paths are still named elsewhere."""
    named = {r["path"] for t in ("segments", "id_segments", "artefacts", "snapshots") for r in contents[t]}
    for row in contents["garbage"]:
        path, since = row["path"], row["since"]
        try:
            db_dir.inside(path)
        except (CorruptError, *MISREAD):
            yield f"a row of garbage is damaged: it refers to {path!r}"
            continue
        if path in named:
            yield f"{path} is in use, but also a pending delete"
        if not isinstance(since, int) or not path.startswith(("tables/", "ids/", *PUBLISHED_FOLDERS)):
            yield f"a row of garbage is damaged: {path!r} since {since!r}"


def _read(decoded: Callable[[Any], Any], text: Any) -> Any:
    """Return the decoded value, or None if it cannot be decoded."""
    try:
        return decoded(text)
    except MISREAD:
        return None

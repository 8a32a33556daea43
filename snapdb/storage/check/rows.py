"""Checks of the catalog's rows that are in no chain: definitions, names, id maps, tasks, runs, garbage."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

from snapdb.errors import CorruptError
from snapdb.storage.catalog_db.codec import MISREAD, decode, decode_columns, is_sound
from snapdb.storage.catalog_db.db_dir import DatabaseDir
from snapdb.storage.catalog_db.pending_deletes import PUBLISHED_FOLDERS
from snapdb.storage.check.catalog import Contents, Problem, in_catalog
from snapdb.types import Cache, PropertyGraph, Retention, Run, RunExport, Sampler, Snapshot, Task

_SHA256 = 64
"""Hexadecimal digits."""


def check_definitions(db_dir: DatabaseDir, contents: Contents) -> Iterator[Problem]:
    """The problems of rows that are in no chain; requires that every table could be read."""
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
    facts = {r["name"]: r["value"] for r in contents["facts"]}
    if not str(facts.get("changes")).isdecimal():
        yield f"it counts its changes as {facts.get('changes')!r}"
    for table in ("tables", "tags", "graphs", "snapshots", "samplers", "caches", "tasks"):
        kind = table.removesuffix("s")
        for row in contents[table]:
            if row["folded"] != str(row["name"]).lower():
                yield f"{kind} {row['name']!r} is looked up as {row['folded']!r}"


def _tags(contents: Contents) -> Iterator[str]:
    versions = {r["version"] for r in contents["versions"]}
    for row in contents["tags"]:
        if row["version"] not in versions:
            yield f"tag {row['name']!r} names version {row['version']}, which is not there"


def _id_maps(contents: Contents) -> Iterator[str]:
    """Id maps of tables or columns that never existed."""
    columns: dict[int, set[tuple[Any, Any]]] = {row["id"]: set() for row in contents["tables"]}
    for row in contents["shapes"]:
        known = columns.setdefault(row["table_id"], set())
        known.update((c.field, c.type) for c in _read(decode_columns, row["columns"]) or ())
    for row in contents["id_maps"]:
        if row["table_id"] not in columns:
            yield f"id map {row['id']} is of table {row['table_id']}, which is not there"
            continue
        key = _read(lambda text: [(field, type_) for field, type_ in json.loads(text)], row["key"])
        if not key or any(column not in columns[row["table_id"]] for column in key):
            yield f"id map {row['id']} is of columns {row['key']!r}, which table {row['table_id']} never had"


def _ids(contents: Contents) -> Iterator[str]:
    """Ids in no file of their map, or in two."""
    limits: dict[int, int] = {r["id"]: 0 for r in contents["id_maps"]}
    for row in contents["id_segments"]:
        if row["map_id"] not in limits:
            yield f"{row['path']} holds ids of map {row['map_id']}, which is not there"
        elif row["first"] != limits[row["map_id"]]:
            yield f"ids {limits[row['map_id']]} to {row['first']} of map {row['map_id']} are in no file, or in two"
        limits[row["map_id"]] = row["first"] + row["rows"]


def _artefacts(contents: Contents) -> Iterator[str]:
    for row in contents["artefacts"]:
        if row["kind"] != row["path"].partition("/")[0] or not isinstance(row["bytes"], int):
            yield f"a row of artefacts is damaged: {row['path']!r} is of kind {row['kind']!r}, {row['bytes']!r} bytes"


def _graphs(contents: Contents) -> Iterator[str]:
    for row in contents["graphs"]:
        graph = _read(lambda text: decode(PropertyGraph, text), row["definition"])
        if graph is None:
            yield f"the definition of graph {row['name']!r} cannot be read"
        elif graph.name != row["name"]:
            yield f"graph {row['name']!r} is defined as {graph.name!r}"
        if row["retention"] is not None and _read(lambda text: decode(Retention, text), row["retention"]) is None:
            yield f"the retention of graph {row['name']!r} cannot be read"


def _snapshots(contents: Contents) -> Iterator[str]:
    head = max((r["version"] for r in contents["versions"]), default=0)
    for row in contents["snapshots"]:
        snapshot = _read(lambda text: decode(Snapshot, text), row["definition"])
        if snapshot is None or not isinstance(snapshot.version, int):
            yield f"the definition of snapshot {row['name']!r} cannot be read"
        elif (snapshot.name, snapshot.id, snapshot.path) != (row["name"], row["id"], row["path"]):
            yield f"snapshot {row['name']!r} is defined as another one"
        elif not 0 <= snapshot.version <= head:
            yield f"snapshot {row['name']!r} is of version {snapshot.version}, which is not there"


def _samplers(contents: Contents) -> Iterator[str]:
    yield from _named_after(contents, Sampler, "sampler", "snapshot")


def _caches(contents: Contents) -> Iterator[str]:
    yield from _named_after(contents, Cache, "cache", "sampler")


def _tasks(contents: Contents) -> Iterator[str]:
    for row in contents["tasks"]:
        task = _read(lambda text: decode(Task, text), row["definition"])
        sound = task is not None and is_sound(Task, task) and is_sound(int, row["considered"])
        if task is None or not sound or (task.schedule.cron is None) is (task.schedule.every is None):
            yield f"the definition of task {row['name']!r} cannot be read"
        elif (task.name, task.id) != (row["name"], row["id"]):
            yield f"task {row['name']!r} is defined as another one"


def _runs(contents: Contents) -> Iterator[str]:
    """Attempts of versions that never existed, or with a state that contradicts their times."""
    head = max((r["version"] for r in contents["versions"]), default=0)
    for row in contents["runs"]:
        attempt = f"attempt {row['attempt']} of run {row['run']} of task {row['name']!r}"
        run = _read(_run, row)
        if run is None or not is_sound(Run, run):
            yield f"{attempt} cannot be read"
            continue
        began, over = run.started is not None, run.ended is not None
        if not all(0 <= version <= head for version in (*run.published, run.version)):
            yield f"{attempt} names a version that is not there"
        elif (began, over) != {"running": (True, False), "missed": (False, False)}.get(run.state, (True, True)):
            yield f"{attempt} is {run.state}, and its times say otherwise"


def _run(row: Any) -> Run:
    values = dict(row)
    return Run(**values | {"published": tuple(json.loads(row["published"])), "replaced": _flag(row["replaced"])})


def _flag(value: Any) -> bool:
    if value not in (0, 1):
        raise ValueError(f"{value!r} is neither 0 nor 1")
    return bool(value)


def _exports(contents: Contents) -> Iterator[str]:
    """Exports with unreadable rows, or of runs that are not on record."""
    known = {(r["task"], r["run"]) for r in contents["runs"]}
    for row in contents["exports"]:
        export = RunExport(row["statement"], row["path"], row["sha256"])
        name = f"an export of run {row['run']} of task {row['task']}"
        if not is_sound(RunExport, export) or export.statement < 1 or len(export.sha256) != _SHA256:
            yield f"{name} cannot be read"
        elif (row["task"], row["run"]) not in known:
            yield f"{name} is of a run that is not there"


def _leader(contents: Contents) -> Iterator[str]:
    for row in contents["leader"]:
        if not all(is_sound(int, row[name]) for name in ("beat", "pid", "since")):
            yield "who fires tasks cannot be read"


def _named_after(contents: Contents, type_: type[Any], kind: str, of: str) -> Iterator[str]:
    """The problems of named rows that belong to an owner."""
    owners = {row["folded"] for row in contents[f"{of}s"]}
    for row in contents[f"{kind}s"]:
        thing = _read(lambda text: decode(type_, text), row["definition"])
        if thing is None:
            yield f"the definition of {kind} {row['name']!r} cannot be read"
        elif (thing.name, thing.id, str(getattr(thing, of)).lower()) != (row["name"], row["id"], row[of]):
            yield f"{kind} {row['name']!r} is defined as another one"
        elif row[of] not in owners:
            yield f"{kind} {row['name']!r} is of {of} {getattr(thing, of)!r}, which is not there"


def _garbage(db_dir: DatabaseDir, contents: Contents) -> Iterator[str]:
    named = {r["path"] for t in ("segments", "id_segments", "artefacts", "snapshots") for r in contents[t]}
    for row in contents["garbage"]:
        path, since = row["path"], row["since"]
        try:
            db_dir.inside(path)
        except (CorruptError, *MISREAD):
            yield f"a row of garbage is damaged: it names {path!r}"
            continue
        if path in named:
            yield f"{path} is named, and as garbage too"
        if not isinstance(since, int) or not path.startswith(("tables/", "ids/", *PUBLISHED_FOLDERS)):
            yield f"a row of garbage is damaged: {path!r} since {since!r}"


def _read(decoded: Callable[[Any], Any], text: Any) -> Any:
    """The decoded value; None when it cannot be decoded."""
    try:
        return decoded(text)
    except MISREAD:
        return None

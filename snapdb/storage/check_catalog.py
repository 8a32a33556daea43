"""Whether the catalog's rows about tables and files are what the chains tell."""

from __future__ import annotations

import json
import sqlite3
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

from snapdb.storage.contents import Contents, in_catalog
from snapdb.storage.problem import Problem
from snapdb.storage.replay import Named, Told, replay

_MISREAD = (ValueError, KeyError, TypeError, AttributeError, IndexError, AssertionError, RecursionError)


def check_catalog(contents: Contents) -> Iterator[Problem]:
    """Where rows contradict the chains; call it when every table could be read."""
    try:
        told = replay([r["facts"] for r in contents["versions"]], [r["facts"] for r in contents["upkeep"]])
    except _MISREAD as error:
        yield in_catalog(f"the facts of its versions contradict each other: {error}")._replace(kind="chain")
    else:
        for look in (_tables, _shapes, _files, _sums, _loaded):
            yield from map(in_catalog, look(contents, told))


def _tables(contents: Contents, told: Told) -> Iterator[str]:
    found = {r["id"]: [r["name"], r["created"], r["dropped"]] for r in contents["tables"]}
    yield from _differences("table", found, told.tables)


def _shapes(contents: Contents, told: Told) -> Iterator[str]:
    found: dict[int, list[tuple[int, Any]]] = {}
    for row in contents["shapes"]:
        found.setdefault(row["table_id"], []).append((row["since"], _json(row["columns"])))
    yield from _differences("the columns of table", found, told.shapes)


def _files(contents: Contents, told: Told) -> Iterator[str]:
    place = _ordinals(contents)
    found = {r["path"]: _named(r, place) for r in contents["segments"]}
    first: dict[str, Named] = {}
    for row in contents["id_segments"]:
        named = Named(row["map_id"], "ids", row["rows"], row["bytes"], row["sha256"], row["first"], None, None)
        (found if row["path"] in told.files or row["first"] != 0 else first)[row["path"]] = named
    yield from _differences("file", found, told.files)


def _named(row: sqlite3.Row, place: Mapping[tuple[int, int], int]) -> Named:
    facts = (row["rows"], row["bytes"], row["sha256"], row["first"], row["added"])
    return Named(row["table_id"], row["kind"], *facts, place.get((row["table_id"], row["shape"])))


def _ordinals(contents: Contents) -> dict[tuple[int, int], int]:
    """(table, shape's id) → which of the table's shapes it is."""
    count: dict[int, int] = defaultdict(int)
    place = {}
    for row in contents["shapes"]:
        place[row["table_id"], row["id"]] = count[row["table_id"]]
        count[row["table_id"]] += 1
    return place


def _sums(contents: Contents, told: Told) -> Iterator[str]:
    sums: dict[tuple[int, int], list[int]] = defaultdict(lambda: [0, 0])
    turns = set()
    for row in contents["changes"]:
        key = (row["version"], row["table_id"])
        sums[key][0] += row["rows_added"]
        sums[key][1] += row["rows_removed"]
        if row["kind"] not in ("append", "delete"):
            turns.add((*key, row["kind"]))
    found = {key: value for key, value in sums.items() if value != [0, 0]}
    yield from _differences("what (version, table) changed:", found, told.sums)
    for version, table, kind in sorted(turns ^ told.turns, key=str):
        state = "is told by the versions only" if (version, table, kind) in told.turns else "is told by no version"
        yield f"{kind} of table {table} in version {version} {state}"


def _loaded(contents: Contents, told: Told) -> Iterator[str]:
    found = {(r["table_id"], r["path"]): (r["bytes"], r["modified"], r["version"]) for r in contents["loaded"]}
    yield from _differences("what (table, file) was loaded:", found, told.loaded)


def _differences(what: str, found: Mapping[Any, Any], told: Mapping[Any, Any]) -> Iterator[str]:
    for key in sorted({*found, *told}, key=str):
        if key not in found:
            yield f"{what} {key} is not there, though its versions tell of it"
        elif key not in told:
            yield f"{what} {key} is there, though no version tells of it"
        elif found[key] != told[key]:
            yield f"{what} {key} is {_plain(found[key])}, the versions tell of {_plain(told[key])}"


def _plain(value: Any) -> str:
    return str(tuple(value)) if isinstance(value, tuple) else str(value)


def _json(text: Any) -> Any:
    try:
        return json.loads(text)
    except (ValueError, TypeError, RecursionError):
        return text

"""What lies on the disk, read with sqlite3, json and numpy alone: tables, columns, fields, values, arrays."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np

from tests.frozen.prints import digest, normal

MOMENTS = frozenset(
    {
        "time",
        "created",
        "refreshed",
        "considered",
        "scheduled",
        "started",
        "ended",
        "retry",
        "since",
        "anchor",
        "modified",
        "beat",
    }
)
"""Columns and fields that hold a moment where they hold a large number."""
RANDOM = frozenset({"hash", "parent", "seal", "sha256", "digest", "family", "holder", "host", "pid"})
"""Columns and fields that differ in every database."""
PARQUET = frozenset({"segments", "id_segments", "rows", "deletes", "ids", "versions", "upkeep"})
"""Where `bytes` are those of a file that DuckDB wrote."""
LATEST = 10**12


def tables(path: Path) -> dict[str, list[dict[str, Any]]]:
    """Every row of every table of a catalog; columns that hold JSON hold what it says."""
    with closing(sqlite3.connect(f"file:{path}/catalog.sqlite?mode=ro", uri=True)) as connection:
        connection.row_factory = sqlite3.Row
        query = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY name"
        names = [row["name"] for row in connection.execute(query)]

        def rows(name: str) -> list[sqlite3.Row]:
            return connection.execute(f"SELECT * FROM {name}").fetchall()

        return {name: [{key: _plain(one) for key, one in dict(row).items()} for row in rows(name)] for name in names}


def schema(path: Path) -> list[str]:
    """Every table with its columns, every index, and the numbers that mark the file."""
    with closing(sqlite3.connect(f"file:{path}/catalog.sqlite?mode=ro", uri=True)) as connection:
        lines = [
            f"{name}: {connection.execute(f'PRAGMA {name}').fetchone()[0]}"
            for name in ("application_id", "user_version")
        ]
        query = "SELECT type, name, tbl_name FROM sqlite_master WHERE name NOT LIKE 'sqlite_%' ORDER BY type, name"
        for kind, name, table in connection.execute(query).fetchall():
            info = connection.execute(f"PRAGMA {'table' if kind == 'table' else 'index'}_info({name})").fetchall()
            parts = [
                f"{c[1]} {c[2]}{' NOT NULL' if c[3] else ''}{' KEY' if c[5] else ''}" if kind == "table" else str(c[2])
                for c in info
            ]
            lines.append(f"{kind} {name} on {table}: {', '.join(parts)}")
        return lines


def _plain(value: Any) -> Any:
    """What JSON text says; any other value as it is."""
    if isinstance(value, str) and value[:1] in ("{", "["):
        try:
            return json.loads(value)
        except ValueError:
            return value
    return value


def documents(path: Path) -> Iterator[tuple[str, Any]]:
    """Every JSON value of a database with the name of its kind, oldest first as far as names tell."""
    for name, rows in tables(path).items():
        for row in rows:
            change = row.get("facts") if isinstance(row.get("facts"), dict) else {}
            for column, value in row.items():
                if isinstance(value, dict | list):
                    yield f"{name}.{column}", value
            for one in change.get("changes", ()) if isinstance(change, dict) else ():
                yield f"{name}.facts.changes {one['change']}", one
    for file in sorted(path.rglob("*.json")):
        kind = file.name if file.name == "manifest.json" else "*.json"
        yield f"{file.relative_to(path).parts[0]}/{kind}", json.loads(file.read_text())


def fields(path: Path) -> str:
    """Every name under which something is stored: tables, columns and fields of JSON at any depth, with their kinds."""
    found: dict[str, set[str]] = {}
    for name, value in documents(path):
        for field, kind in _fields(name, value):
            found.setdefault(field, set()).add(kind)
    lines = [f"{name}: {' | '.join(sorted(kinds))}" for name, kinds in sorted(found.items())]
    return "\n".join([*schema(path), *lines]) + "\n"


def _fields(name: str, value: Any) -> Iterator[tuple[str, str]]:
    match value:
        case dict():
            yield name, "object"
            for key, one in value.items():
                yield from _fields(f"{name}.{_general(name, key)}", one)
        case list():
            yield name, "list"
            for one in () if name == "versions.facts.changes" else value:
                yield from _fields(f"{name}[]", one)
        case _:
            yield name, "null" if value is None else type(value).__name__


def objects(name: str, value: Any) -> Iterator[tuple[str, set[str]]]:
    """Every object of a document at any depth: its path, and the names of its fields."""
    match value:
        case dict():
            yield name, {_general(name, key) for key in value}
            for key, one in value.items():
                yield from objects(f"{name}.{_general(name, key)}", one)
        case list():
            for one in () if name == "versions.facts.changes" else value:
                yield from objects(f"{name}[]", one)


def _general(name: str, key: str) -> str:
    """A key, or what kind of name it is where keys are names of the user's or of files."""
    if re.search(r"\.(npy|parquet|json|npz|pt|arrow|safetensors)$", key):
        return "<file>"
    named = (".defaults", ".parts", ".steps", ".classes", ".widths", ".widths.<name>")
    return "<name>" if name.endswith(named) else key


def contents(path: Path, folder: Path) -> str:
    """Every row, document and array of a database, without what differs from run to run."""
    lines = []
    everything = tables(path)
    for name, rows in everything.items():
        lines.append(f"## {name}")
        lines += [json.dumps(_normal(row, name), ensure_ascii=False) for row in rows]
    lines.append("## files")
    names = [normal(str(file.relative_to(path))) for file in path.rglob("*") if file.is_file()]
    lines += [f"{name}: {names.count(name)}" for name in sorted(set(names))]
    for kind, row in [
        *(("artefact", row) for row in everything["artefacts"]),
        *(("snapshot", row) for row in everything["snapshots"]),
    ]:
        lines.append(f"## {kind} {normal(row['path'])} {row.get('name', '')}".rstrip())
        for file in sorted((path / row["path"]).iterdir()):
            lines.append(f"{file.name}: {_file(file)}")
    lines.append("## versions.log")
    lines += [re.sub("[0-9a-f]{64}$", "<hash>", line) for line in (path / "versions.log").read_text().splitlines()]
    return normal("\n".join(lines), folder) + "\n"


def _file(file: Path) -> str:
    if file.suffix == ".npy":
        array = np.load(file)
        return f"{array.dtype} {array.shape} {digest(array)}"
    return json.dumps(_normal(json.loads(file.read_text()), "manifest"), ensure_ascii=False)


def _normal(value: Any, name: str) -> Any:
    match value:
        case dict():
            name = value.get("change", name) if isinstance(value.get("change"), str) else name
            return {key: _kept(key, one, name) for key, one in value.items()}
        case list():
            return [_normal(one, name) for one in value]
        case _:
            return value


def _kept(key: str, value: Any, name: str) -> Any:
    if key in RANDOM and value is not None and not isinstance(value, dict | list):
        return f"<{key}>"
    if key in MOMENTS and isinstance(value, int) and abs(value) > LATEST:
        return "<moment>"
    if key == "bytes" and name in PARQUET:
        return "<bytes>"
    if key == "graph" and isinstance(value, dict):
        return f"{value['name']} {digest(value)}"
    return _normal(value, name)


def values(rows: Mapping[str, list[dict[str, Any]]], table: str, column: str) -> list[Any]:
    """One column of a table."""
    return [row[column] for row in rows[table]]

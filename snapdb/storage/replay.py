"""The catalog that the chains tell of: what their facts, one after another, would have written."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple


class Named(NamedTuple):
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
class Told:
    """Tables, columns and files after every fact so far."""

    tables: dict[int, list[Any]] = field(default_factory=dict)
    """Id → [name, created, dropped]."""
    shapes: dict[int, list[tuple[int, Any]]] = field(default_factory=dict)
    """Table → [(since, columns)], in order."""
    files: dict[str, Named] = field(default_factory=dict)
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
        named = Named(owner, kind, fact["rows"], fact["bytes"], fact["sha256"], fact["first"], added, shape)
        self.files[fact["path"]] = named


def replay(versions: Iterable[str], upkeep: Iterable[str]) -> Told:
    """What the facts of all versions tell, and those of upkeep, each after the version that it followed.

    Raises:
        ValueError, KeyError, TypeError, …: they are no facts.

    >>> column = ["a", "INTEGER", True, 1, None]
    >>> made = {"change": "create", "table": 1, "name": "t", "columns": [column]}
    >>> replay([json.dumps({"version": 1, "changes": [made]})], []).tables
    {1: ['t', 1, None]}
    """
    told = Told()
    done = deque(json.loads(text) for text in upkeep)
    for facts in map(json.loads, versions):
        for change in facts["changes"]:
            told.commit(facts["version"], change)
        while done and done[0]["after"] <= facts["version"]:
            for change in done.popleft()["changes"]:
                told.keep_up(change)
    if done:
        raise ValueError(f"upkeep after version {done[0]['after']}, which is not there")
    return told

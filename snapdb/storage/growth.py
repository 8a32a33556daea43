"""Codes of a target's classes and widths of sparse rows: what a table's rows have held up to a version.

Both only grow, and follow from the table and the version alone: a class gets its code at the version that first adds
a row with it, classes of one version in the order of their text, and no code is ever given again. Rows that were
removed count, because every version's files stay; so neither REFRESH nor VACUUM nor other snapshots change a code.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from snapdb.relational import ROW_ID, Session, quote, table_rows
from snapdb.storage.catalog_db.connection import Ledger
from snapdb.types import Table

_ID = quote(ROW_ID)


class Step(NamedTuple):
    """A width, and the version that first added a row that needs it."""

    version: int
    width: int


class _First(NamedTuple):
    """The version that first added a row with a value."""

    version: int
    value: Any


@dataclass(frozen=True, slots=True)
class Growth:
    """The classes of a target and the widths of sparse features at one version."""

    classes: tuple[str, ...] | None = None
    """A class's code is its place. None: the target is a number, or there is none."""
    since: tuple[int, ...] = ()
    """[classes] the version of each, ascending; empty where the graph declares the classes."""
    steps: Mapping[str, tuple[Step, ...]] = field(default_factory=dict)
    """By sparse feature without a declared width, its widths, ascending."""

    @property
    def widths(self) -> dict[str, int]:
        """By sparse feature without a declared width, its width."""
        return {name: steps[-1].width if steps else 0 for name, steps in self.steps.items()}

    @property
    def facts(self) -> dict[str, Any]:
        """What a manifest keeps, beside the classes."""
        return {
            "since": list(self.since),
            "steps": {name: list(map(list, steps)) for name, steps in self.steps.items()},
        }

    @staticmethod
    def of(facts: Mapping[str, Any]) -> Growth:
        """What a manifest says of it."""
        kept = facts.get("growth", {})
        classes = facts.get("target", {}).get("classes")
        steps = {name: tuple(Step(*step) for step in steps) for name, steps in kept.get("steps", {}).items()}
        return Growth(None if classes is None else tuple(classes), tuple(kept.get("since", ())), steps)

    def until(self, version: int) -> Growth:
        """The same at an earlier version; at a later one nothing is added."""
        steps = {name: tuple(step for step in steps if step.version <= version) for name, steps in self.steps.items()}
        if self.classes is None or not self.since:
            return replace(self, steps=steps)
        kept = bisect_right(self.since, version)
        return Growth(self.classes[:kept], self.since[:kept], steps)

    def continues(self, before: Growth) -> bool:
        """Whether every code and every index of `before` is one of this too."""
        known = before.classes or ()
        return (self.classes or ())[: len(known)] == known and all(
            before.widths.get(name, 0) <= width for name, width in self.widths.items()
        )


NO_GROWTH = Growth()
"""Of elements with neither classes nor sparse features whose width grows."""


@dataclass(frozen=True, slots=True)
class Growing:
    """What of an element grows with its table."""

    target: str | None = None
    """SQL of a target that is text; None: it is none, or the graph declares its classes."""
    declared: tuple[str, ...] | None = None
    """The classes that the graph declares."""
    indices: Mapping[str, str] = field(default_factory=dict)
    """By sparse feature without a declared width, SQL of a row's list of indices."""

    def __bool__(self) -> bool:
        return self.target is not None or bool(self.indices)


@dataclass(frozen=True, slots=True)
class AddedRows:
    """Every row that was added to a table up to a version, also those that were removed since."""

    table: Table
    root: Path
    versions: npt.NDArray[np.int64]
    """Those that added rows, ascending."""
    stops: npt.NDArray[np.int64]
    """[versions] the row id after the last row of each."""

    def firsts(self, session: Session, value: str, start: int) -> list[_First]:
        """Each distinct value in the rows from id `start` on, but NULL, by version and then by value."""
        table = self.table
        files = tuple(s for s in table.segments if s.first + s.rows > start)
        if start >= table.next_row or not files:
            return []
        rows = table_rows(replace(table, segments=files, deletes=()), self.root, row_ids=True)
        values = f"SELECT {value} AS v, {_ID} AS id FROM ({rows}) WHERE {_ID} >= {start}"
        found = session.rows(f"SELECT v, min(id) FROM ({values}) WHERE v IS NOT NULL GROUP BY v")
        places = np.searchsorted(self.stops, [row for _, row in found], side="right")
        versions = self.versions[places].tolist()
        return sorted(_First(version, value) for version, (value, _) in zip(versions, found, strict=True))


def added_rows(ledger: Ledger, table: Table, root: Path) -> AddedRows:
    """The rows of a table at a version, and those deleted by then."""
    rows = ledger.rows(
        "SELECT version, sum(rows_added) AS added FROM changes WHERE table_id = ? AND version <= ? AND rows_added > 0 "
        "GROUP BY version ORDER BY version",
        (table.id, table.state),
    )
    versions = np.array([row["version"] for row in rows], np.int64)
    return AddedRows(table, root, versions, np.cumsum([row["added"] for row in rows], dtype=np.int64))


def grown(session: Session, added: AddedRows, growing: Growing, before: Growth | None = None, start: int = 0) -> Growth:
    """What has grown at a version.

    Args:
        before: The same at another version, at which the table had the rows up to the id `start`.
    """
    known = (Growth((), (), {}) if before is None else before).until(added.table.state)
    steps = {
        name: _widened(known.steps.get(name, ()), added.firsts(session, f"TRY_CAST(list_max({sql}) AS BIGINT)", start))
        for name, sql in growing.indices.items()
    }
    if growing.target is None:
        return Growth(growing.declared, (), steps)
    old = known.classes or ()
    there = set(old)
    fresh = [first for first in added.firsts(session, growing.target, start) if first.value not in there]
    classes = (*old, *(first.value for first in fresh))
    return Growth(classes, (*known.since, *(first.version for first in fresh)), steps)


def _widened(steps: Sequence[Step], firsts: Sequence[_First]) -> tuple[Step, ...]:
    """The widths with those of more rows; of one version the greatest stays."""
    found = list(steps)
    for version, greatest in firsts:
        if greatest < (found[-1].width if found else 0):
            continue
        if found and found[-1].version == version:
            found.pop()
        found.append(Step(version, greatest + 1))
    return tuple(found)

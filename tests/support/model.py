"""A database modelled as plain dicts that store every version. Tests compare the engine's tables with it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any, Literal

Row = tuple[Any, ...]
Touch = Literal["append", "delete", "alter"]

_identities = count(1)


@dataclass(frozen=True)
class Column:
    """A column with its default value."""

    name: str
    default: int | None = None


@dataclass(frozen=True)
class TableState:
    """A table at one version. Each row has an identity, which only an UPDATE changes."""

    columns: tuple[Column, ...]
    rows: Mapping[int, Row] = field(default_factory=dict)
    identity: int = field(default_factory=lambda: next(_identities))

    @property
    def names(self) -> list[str]:
        return [c.name for c in self.columns]

    def values(self) -> list[Row]:
        """Return the rows as a sorted list, because tables are unordered."""
        return sorted(self.rows.values(), key=order)


State = Mapping[str, TableState]


@dataclass(frozen=True)
class Taken:
    """A snapshot of a table: the rows of a version whose v is at most `last` or NULL."""

    version: int
    last: int

    def rows(self, table: TableState) -> list[Row]:
        """Return the first two columns of the rows, sorted."""
        chosen = (row[:2] for row in table.rows.values() if row[1] is None or row[1] <= self.last)
        return sorted(chosen, key=order)


def order(row: Row) -> tuple[tuple[bool, Any], ...]:
    """Return a sort key for rows that may contain NULL."""
    return tuple((value is None, 0 if value is None else value) for value in row)


@dataclass
class Moved:
    """The changes of one version to one table."""

    kinds: set[Touch] = field(default_factory=set)
    removed: set[int] = field(default_factory=set)


class Conflict(Exception):  # noqa: N818 -- the model's term for a commit that the engine must reject
    """The engine must reject this commit."""


@dataclass
class Draft:
    """Uncommitted statements: a transaction, or a single statement."""

    base: int
    state: dict[str, TableState]
    added: dict[int, dict[int, Row]] = field(default_factory=dict)
    """Table identity → rows that do not exist in the base version, including rows that were removed again."""
    moved: dict[int, Moved] = field(default_factory=dict)
    strict: set[int] = field(default_factory=set)
    """Tables from which the draft removed its own new rows. The engine may reject rows that others added in the
    meantime."""
    redefined: set[str] = field(default_factory=set)
    """Names that were dropped or created."""

    def insert(self, name: str, rows: Iterable[Row]) -> None:
        """Add rows."""
        table = self.state[name]
        fresh = {next(_identities): row for row in rows}
        if fresh:
            self._touch(table, "append")
            self.added.setdefault(table.identity, {}).update(fresh)
            self.state[name] = replace(table, rows={**table.rows, **fresh})

    def remove(self, name: str, where: Callable[[dict[str, Any]], bool]) -> list[Row]:
        """Remove the matching rows and return them."""
        table = self.state[name]
        gone = {i: row for i, row in table.rows.items() if where(dict(zip(table.names, row, strict=True)))}
        if gone:
            moved = self._touch(table, "delete")
            own = gone.keys() & self.added.get(table.identity, {}).keys()
            if own:
                self.strict.add(table.identity)
            moved.removed |= gone.keys() - own
            self.state[name] = replace(table, rows={i: row for i, row in table.rows.items() if i not in gone})
        return list(gone.values())

    def reshape(self, name: str, columns: Iterable[Column], row: Callable[[Row], Row]) -> None:
        """Replace a table's columns and convert its rows."""
        table = self.state[name]
        self._touch(table, "alter")
        self.state[name] = replace(table, columns=tuple(columns), rows={i: row(r) for i, r in table.rows.items()})

    def put(self, name: str, table: TableState | None) -> None:
        """Replace a table, or drop it if `table` is None."""
        self.redefined.add(name)
        if (old := self.state.pop(name, None)) is not None:
            self._touch(old, "alter")
        if table is not None:
            self.state[name] = table

    def _touch(self, table: TableState, kind: Touch) -> Moved:
        moved = self.moved.setdefault(table.identity, Moved())
        moved.kinds.add(kind)
        return moved


class History:
    """Every version of the tables."""

    def __init__(self) -> None:
        self.states: list[State] = [{}]
        self.messages: list[str | None] = [None]
        self.tags: dict[str, int] = {}
        self._moves: list[dict[int, Moved]] = [{}]

    @property
    def head(self) -> int:
        return len(self.states) - 1

    def draft(self) -> Draft:
        """Return a draft based on the head."""
        return Draft(self.head, dict(self.states[-1]))

    def merged(self, draft: Draft) -> tuple[dict[str, TableState], bool]:
        """Return the next version that a draft creates, and whether the engine may nevertheless reject it.

        Raises:
            Conflict: The engine must reject it.
        """
        state, doubtful = dict(self.states[-1]), False
        for name in draft.redefined:
            if self._identity(name) != self._identity(name, draft.base):
                raise Conflict(f"{name} was dropped or replaced")
        for name in draft.redefined:
            state.pop(name, None)
        based = {t.identity: name for name, t in self.states[draft.base].items()}
        for identity, mine in draft.moved.items():
            if (name := based.get(identity)) is None:
                continue
            others = self._since(draft.base, identity)
            if self._identity(name) != identity or ("alter" in mine.kinds and others.kinds):
                raise Conflict(f"{name} moved")
            if mine.removed & others.removed or ("alter" in others.kinds and self._reshaped(name, draft.base)):
                raise Conflict(f"{name}: the same rows, or other columns")
            doubtful |= "alter" in others.kinds or (identity in draft.strict and "append" in others.kinds)
            if name in draft.state and draft.state[name].identity == identity:
                state[name] = self._table(name, draft, mine)
        own = {n: t for n, t in draft.state.items() if n in draft.redefined}
        return state | own, doubtful

    def publish(self, draft: Draft, state: State, message: str | None) -> None:
        """Publish a draft as the next version."""
        self.states.append(dict(state))
        self._moves.append(draft.moved)
        self.messages.append(message)

    def _table(self, name: str, draft: Draft, mine: Moved) -> TableState:
        """Return a table with a draft's changes applied to the concurrent changes of others."""
        own, now = draft.state[name], self.states[-1][name]
        if "alter" in mine.kinds:  # otherwise there would be a conflict with other changes
            return own
        kept = {i: row for i, row in now.rows.items() if i not in mine.removed}
        added = {i: own.rows[i] for i in draft.added.get(own.identity, {}) if i in own.rows}
        return replace(now, rows=kept | added)

    def _identity(self, name: str, version: int = -1) -> int | None:
        table = self.states[version].get(name)
        return None if table is None else table.identity

    def _reshaped(self, name: str, base: int) -> bool:
        return self.states[base][name].columns != self.states[-1][name].columns

    def _since(self, base: int, identity: int) -> Moved:
        """Return the changes of others to a table after a version."""
        found = [moves[identity] for moves in self._moves[base + 1 :] if identity in moves]
        kinds = {kind for moved in found for kind in moved.kinds}
        return Moved(kinds, {row for moved in found for row in moved.removed})

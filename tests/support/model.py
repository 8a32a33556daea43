"""A database as plain dicts that remember every version: what the tables of the engine are compared with."""

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
    """A column and what rows that were given no value have in it."""

    name: str
    default: int | None = None


@dataclass(frozen=True)
class TableState:
    """A table at one version. Rows have an identity that an UPDATE changes and nothing else does."""

    columns: tuple[Column, ...]
    rows: Mapping[int, Row] = field(default_factory=dict)
    identity: int = field(default_factory=lambda: next(_identities))

    @property
    def names(self) -> list[str]:
        return [c.name for c in self.columns]

    def values(self) -> list[Row]:
        """The rows as a sorted list: tables have no order."""
        return sorted(self.rows.values(), key=order)


State = Mapping[str, TableState]


@dataclass(frozen=True)
class Taken:
    """A snapshot of a table: its rows at a version whose v is at most `last`, or NULL."""

    version: int
    last: int

    def rows(self, table: TableState) -> list[Row]:
        """The first two columns of the rows, sorted."""
        chosen = (row[:2] for row in table.rows.values() if row[1] is None or row[1] <= self.last)
        return sorted(chosen, key=order)


def order(row: Row) -> tuple[tuple[bool, Any], ...]:
    """A sort key for rows with NULL in them."""
    return tuple((value is None, 0 if value is None else value) for value in row)


@dataclass
class Moved:
    """What one version did to one table."""

    kinds: set[Touch] = field(default_factory=set)
    removed: set[int] = field(default_factory=set)


class Conflict(Exception):  # noqa: N818 -- the model's word for what the engine must refuse
    """The engine must refuse this commit."""


@dataclass
class Draft:
    """Statements that are not committed: a transaction, or one statement by itself."""

    base: int
    state: dict[str, TableState]
    added: dict[int, dict[int, Row]] = field(default_factory=dict)
    """Table identity → rows that were not there at the base, those that went again included."""
    moved: dict[int, Moved] = field(default_factory=dict)
    strict: set[int] = field(default_factory=set)
    """Tables whose own new rows were removed again: the engine may refuse what others added meanwhile."""
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
        """Remove the rows that fit, and return them."""
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
        """Give a table other columns and each row its new form."""
        table = self.state[name]
        self._touch(table, "alter")
        self.state[name] = replace(table, columns=tuple(columns), rows={i: row(r) for i, r in table.rows.items()})

    def put(self, name: str, table: TableState | None) -> None:
        """Put another table, or none, in the place of one."""
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
        """A draft that begins at the head."""
        return Draft(self.head, dict(self.states[-1]))

    def merged(self, draft: Draft) -> tuple[dict[str, TableState], bool]:
        """The next version that a draft makes, and whether the engine may refuse it nevertheless.

        Raises:
            Conflict: it must refuse.
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
        """Make a draft the next version."""
        self.states.append(dict(state))
        self._moves.append(draft.moved)
        self.messages.append(message)

    def _table(self, name: str, draft: Draft, mine: Moved) -> TableState:
        """A table with a draft's changes on top of what others did meanwhile."""
        own, now = draft.state[name], self.states[-1][name]
        if "alter" in mine.kinds:  # then nobody else touched it
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
        """What others did to a table after a version."""
        found = [moves[identity] for moves in self._moves[base + 1 :] if identity in moves]
        kinds = {kind for moved in found for kind in moved.kinds}
        return Moved(kinds, {row for moved in found for row in moved.removed})

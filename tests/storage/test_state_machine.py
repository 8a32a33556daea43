"""Tables behave like a dict that remembers every version, whatever is done to them, by two connections at once."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from shutil import rmtree
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

import snapdb
from snapdb import Database
from tests.support.model import Column, Conflict, Draft, History, State, TableState, Taken, order
from tests.support.thoroughness import SOAK

pytestmark = pytest.mark.slow

WHO = st.sampled_from(("first", "second"))
TABLE = st.sampled_from(("t", "u"))
EXTRA = st.sampled_from(("c", "d", "at", "Größe"))
VALUE = st.integers(0, 5) | st.none()
REST = st.integers(0, 2)
ACT = st.tuples(st.sampled_from(("insert", "insert", "delete", "update", "alter", "replace")), TABLE, REST)
PLAIN = (Column("k"), Column("v"))
GRAPH = """CREATE PROPERTY GRAPH g VERTEX TABLES (t AS node KEY (k) ON DUPLICATE KEY LAST)
  EDGE TABLES (t AS edge SOURCE KEY (k) REFERENCES node DESTINATION KEY (k) REFERENCES node
    EVENT TIME (v) NULLS STATIC)"""
"""Rows are loops, for every row's key is there; what is seen of a snapshot are the rows of a version in a window."""

counted: Counter[str] = Counter()


class TableMachine(RuleBasedStateMachine):
    """Statements on two tables through two connections, each maybe inside a transaction."""

    @initialize()
    def open(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="snapdb-machine-"))
        self.connections = {who: self._connect() for who in ("first", "second")}
        self.drafts: dict[str, Draft | None] = {"first": None, "second": None}
        self.failed = {"first": False, "second": False}
        self.abandoned: list[Database] = []
        self.history = History()
        self.snapshots: dict[str, Taken] = {}
        self.keys = 0
        self.turn = 0
        for name in ("t", "u"):
            self.change("first", f"CREATE TABLE {name} (k INTEGER, v INTEGER)", _create(name))
        self.run("first", GRAPH)
        counted["examples"] += 1

    # -- statements on tables

    @rule(who=WHO, name=TABLE, values=st.lists(VALUE, min_size=1, max_size=3))
    def insert(self, who: str, name: str, values: list[int | None]) -> None:
        rows = [(self._key(), value) for value in values]
        listed = ", ".join(f"({k}, {'NULL' if v is None else v})" for k, v in rows)
        self.change(who, f"INSERT INTO {name} (k, v) VALUES {listed}", lambda d: _insert(d, name, rows))

    @rule(who=WHO, name=TABLE, source=TABLE, back=st.integers(0, 9))
    def insert_what_was(self, who: str, name: str, source: str, back: int) -> None:
        draft = self.drafts[who]
        version = max(1, (self.history.head if draft is None else draft.base) - back)
        old = self.history.states[version].get(source)
        text = f"INSERT INTO {name} (k, v) SELECT k, v + 1 FROM {source} AT (VERSION => {version}) WHERE v % 2 = 0"
        if old is None:
            self.refused(who, text, snapdb.BindError)
            return
        rows = [(k, v + 1) for k, v, *_ in old.rows.values() if v is not None and v % 2 == 0]
        self.change(who, text, lambda d: _insert(d, name, rows), maybe_nothing=not rows)

    @rule(who=WHO, name=TABLE, rest=REST)
    def delete(self, who: str, name: str, rest: int) -> None:
        self._sweep(who, name, f"DELETE FROM {name} WHERE v % 3 = {rest}", rest, lambda draft, rows: None)

    @rule(who=WHO, name=TABLE, rest=REST)
    def update(self, who: str, name: str, rest: int) -> None:
        def again(draft: Draft, rows: list[tuple[Any, ...]]) -> None:
            draft.insert(name, [(k, v + 1, *more) for k, v, *more in rows])

        self._sweep(who, name, f"UPDATE {name} SET v = v + 1 WHERE v % 3 = {rest}", rest, again)

    def _sweep(self, who: str, name: str, text: str, rest: int, then: Callable[[Draft, list[Any]], None]) -> None:
        def fits(row: dict[str, Any]) -> bool:
            return row["v"] is not None and row["v"] % 3 == rest

        seen = self.seen(who)
        nothing = name in seen and not any(fits({"v": row[1]}) for row in seen[name].rows.values())
        self.change(who, text, lambda d: then(d, d.remove(name, fits)), maybe_nothing=nothing)

    @rule(who=WHO, name=TABLE, extra=EXTRA, default=VALUE)
    def add_or_drop_column(self, who: str, name: str, extra: str, default: int | None) -> None:
        names = self.seen(who)[name].names
        if extra in names:
            at = names.index(extra)
            self.change(who, f'ALTER TABLE {name} DROP COLUMN "{extra}"', lambda d: _drop_column(d, name, at))
        else:
            said = "" if default is None else f" DEFAULT {default}"
            column = Column(extra, default)
            text = f'ALTER TABLE {name} ADD COLUMN "{extra}" INTEGER{said}'
            self.change(who, text, lambda d: d.reshape(name, (*d.state[name].columns, column), lambda r: (*r, default)))

    @rule(who=WHO, name=TABLE, old=EXTRA, new=EXTRA)
    def rename_column(self, who: str, name: str, old: str, new: str) -> None:
        names = self.seen(who)[name].names
        text = f'ALTER TABLE {name} RENAME COLUMN "{old}" TO "{new}"'
        if old in names and new not in names:
            self.change(who, text, lambda d: _rename(d, name, old, new))
        elif old != new:
            self.refused(who, text, snapdb.BindError)

    @rule(who=WHO)
    def replace_table(self, who: str) -> None:
        def copy(draft: Draft) -> None:
            draft.put("u", TableState(PLAIN))
            draft.insert("u", [row[:2] for row in draft.state["t"].rows.values()])

        self.change(who, "CREATE OR REPLACE TABLE u AS SELECT k, v FROM t", copy)

    @rule(who=WHO)
    def drop_and_create_table(self, who: str) -> None:
        self.change(who, "DROP TABLE u", lambda d: d.put("u", None))
        self.change(who, "CREATE TABLE u (k INTEGER, v INTEGER)", _create("u"))

    # -- transactions

    @rule(who=WHO)
    def begin_or_end(self, who: str) -> None:
        if self.drafts[who] is None:
            self.run(who, "BEGIN")
            self.drafts[who] = self.history.draft()
        else:
            self.commit(who)

    @precondition(lambda self: any(self.drafts.values()))
    @rule(who=WHO)
    def commit(self, who: str) -> None:
        draft, failed = self.drafts[who], self.failed[who]
        if draft is None:
            return
        self.drafts[who], self.failed[who] = None, False
        message = f"transaction of {who}"
        text = f"COMMIT MESSAGE '{message}'"
        if failed:
            with pytest.raises(snapdb.SnapdbError):
                self.run(who, text)
            counted["commits refused after an error"] += 1
            return
        self._publish(who, draft, lambda: self.run(who, text), message)

    @precondition(lambda self: any(self.drafts.values()))
    @rule(who=WHO)
    def rollback(self, who: str) -> None:
        if self.drafts[who] is not None:
            self.run(who, "ROLLBACK")
            self.drafts[who], self.failed[who] = None, False

    @precondition(lambda self: any(self.drafts.values()))
    @rule(who=WHO)
    def fail(self, who: str) -> None:
        if self.drafts[who] is not None:
            self.refused(who, "DELETE FROM t WHERE nothing_like_it = 1", snapdb.SnapdbError)

    @rule(who=WHO, mine=st.lists(ACT, min_size=1, max_size=3), theirs=st.lists(ACT, min_size=1, max_size=2))
    def race(self, who: str, mine: list[tuple[str, str, int]], theirs: list[tuple[str, str, int]]) -> None:
        """A transaction beside which the other connection does something, too."""
        other = "second" if who == "first" else "first"
        for one in (who, other):
            if self.drafts[one] is not None:
                self.rollback(one)
        self.begin_or_end(who)
        for act in mine:
            self.act(who, *act)
            self.tables_are_as_the_model_says()
        for act in theirs:
            self.act(other, *act)
        self.commit(who)

    def act(self, who: str, what: str, name: str, rest: int) -> None:
        match what:
            case "insert":
                self.insert(who, name, [rest, None])
            case "delete":
                self.delete(who, name, rest)
            case "update":
                self.update(who, name, rest)
            case "alter":
                self.add_or_drop_column(who, name, "c", rest)
            case "replace":
                self.replace_table(who)

    # -- upkeep

    @rule(who=WHO)
    def vacuum(self, who: str) -> None:
        if self.drafts[who] is None:
            self.run(who, "VACUUM RETAIN INTERVAL '0 seconds'")
            counted["vacuums"] += 1

    @rule(who=WHO, crash=st.booleans())
    def reopen(self, who: str, crash: bool) -> None:
        if crash:  # nobody says goodbye: an open transaction just stays where it was
            self.abandoned.append(self.connections[who])
        else:
            self.connections[who].close()
        counted["crashes" if crash else "reopenings"] += 1
        self.connections[who] = self._connect()
        self.drafts[who], self.failed[who] = None, False

    # -- snapshots

    @rule(who=WHO, name=st.sampled_from(("now", "past")), bound=st.integers(0, 5))
    def take_or_refresh(self, who: str, name: str, bound: int) -> None:
        if self.drafts[who] is not None:
            return
        if (taken := self.snapshots.get(name)) is None:
            version = self.history.head if name == "now" else max(3, self.history.head - bound)
            at = "" if name == "now" else f"AT (VERSION => {version})"
            self.run(who, f"CREATE SNAPSHOT {name} OF g {at} FOR EVENT_TIME AS OF {bound}")
            self.snapshots[name] = Taken(version, bound)
        else:
            self.run(who, f"REFRESH SNAPSHOT {name}")
            if name == "now":
                self.snapshots[name] = Taken(self.history.head, taken.last)
            counted["refreshes"] += 1

    @precondition(lambda self: self.snapshots)
    @rule(who=WHO)
    def expire(self, who: str) -> None:
        if self.drafts[who] is not None:
            return
        tagged = set(self.history.tags.values())
        kept = {name for name, taken in self.snapshots.items() if taken.version in tagged}
        found = self.run(who, "EXPIRE SNAPSHOTS OLDER THAN INTERVAL '0 seconds'").fetchall()
        assert {row[0]: row[1] for row in found} == {
            name: "keep" if name in kept else "expire" for name in self.snapshots
        }
        self.snapshots = {name: self.snapshots[name] for name in kept}

    # -- tags

    @rule(who=WHO, name=st.sampled_from(("x", "y")), back=st.integers(0, 9))
    def tag_or_untag(self, who: str, name: str, back: int) -> None:
        if self.drafts[who] is not None:
            return
        if name in self.history.tags:
            self.run(who, f"DROP TAG {name}")
            del self.history.tags[name]
        else:
            version = max(1, self.history.head - back)
            self.run(who, f"CREATE TAG {name} AT (VERSION => {version})")
            self.history.tags[name] = version

    # -- what must always hold

    @invariant()
    def tables_are_as_the_model_says(self) -> None:
        counted["steps"] += 1
        for who in self.connections:
            if not self.failed[who]:
                self.compare(who, self.seen(who))

    @invariant()
    def history_is_as_the_model_says(self) -> None:
        """One look back a step, another each time; they see the same whoever looks."""
        self.turn += 1
        looks = (self._an_old_version, self._versions, self._tags, self._a_diff, self._snapshots, self._check)
        who = next((w for w in self.connections if self.drafts[w] is None), None)
        if who is not None:
            looks[self.turn % len(looks)](who)

    def _an_old_version(self, who: str) -> None:
        version = 1 + self.turn * 7919 % self.history.head
        self.compare(who, self.history.states[version], f" AT (VERSION => {version})")

    def _versions(self, who: str) -> None:
        found = self.run(who, "SHOW VERSIONS").fetchall()
        assert sorted({row[0] for row in found}) == list(range(1, self.history.head + 1))
        assert [row[1] for row in found] == sorted(row[1] for row in found)
        assert {row[0]: row[2] for row in found} == dict(list(enumerate(self.history.messages))[1:])
        for version, *_, name, added, removed in found:
            before, after = (self.history.states[v].get(name) for v in (version - 1, version))
            if before is not None and after is not None and before.identity == after.identity:
                assert added - removed == len(after.rows) - len(before.rows)

    def _tags(self, who: str) -> None:
        found = self.run(who, "SHOW TAGS").fetchall()
        assert {row[0]: row[1] for row in found} == self.history.tags
        for name, version in self.history.tags.items():
            self.compare(who, self.history.states[version], f" AT (TAG => '{name}')")

    def _a_diff(self, who: str) -> None:
        start, stop = (1 + self.turn * prime % self.history.head for prime in (7919, 104729))
        for name in ("t", "u"):
            a, b = (self.history.states[v].get(name) for v in (start, stop))
            if a is None or b is None or a.identity != b.identity:
                continue
            text = f"DIFF TABLE {name} FROM VERSION {start} TO VERSION {stop}"
            gone, come = (_without(x, y) for x, y in ((a, b), (b, a)))
            found = self.run(who, text)
            assert found.columns == ["table", "added", "removed", "columns_added", "columns_removed"]
            assert found.fetchall()[0][:3] == (name, len(come), len(gone))
            if a.names == b.names:
                rows = self.run(who, text + " ROWS")
                assert rows.columns == ["change", *b.names]
                wanted = [("+", *row) for row in come] + [("-", *row) for row in gone]
                assert sorted(rows.fetchall(), key=_change) == sorted(wanted, key=_change)
            counted["diffs"] += 1

    def _snapshots(self, who: str) -> None:
        for name, taken in self.snapshots.items():
            wanted = taken.rows(self.history.states[taken.version]["t"])
            seen = self.run(who, f"SELECT k, v, e_id FROM {name}.edge").fetchall()
            assert sorted((row[:2] for row in seen), key=order) == wanted
            seeds = f"SEEDS (SELECT DISTINCT k FROM {name}.edge) AS node"
            if seen:
                sampled = self.run(who, f"SAMPLE FROM {name} {seeds} FANOUT (edge => [FULL])").fetchall()
                assert sorted(row[6] for row in sampled) == sorted(row[2] for row in seen)

    def _check(self, who: str) -> None:
        assert self.run(who, "CHECK DATABASE").fetchall() == []

    def teardown(self) -> None:
        """At the end every version is compared, in a database that was closed by everybody and verified."""
        if not hasattr(self, "folder"):
            return
        for database in (*self.abandoned, *self.connections.values()):
            database.close()
        try:
            with snapdb.connect(self.folder / "x.snapdb", verify=True) as db:
                self.connections["first"], self.drafts["first"] = db, None
                for version, state in list(enumerate(self.history.states))[1:]:
                    self.compare("first", state, f" AT (VERSION => {version})")
                self._versions("first")
                self._check("first")
            counted["versions"] += self.history.head
        finally:
            rmtree(self.folder, ignore_errors=True)

    # -- how it is done

    def seen(self, who: str) -> State:
        """The tables as a connection sees them."""
        draft = self.drafts[who]
        return self.history.states[-1] if draft is None else draft.state

    def run(self, who: str, text: str) -> Any:
        counted["statements"] += 1
        return self.connections[who].execute(text)

    def change(self, who: str, text: str, apply: Callable[[Draft], None], *, maybe_nothing: bool = False) -> None:
        """Run a statement on a table in the engine and in the model, by itself or in a transaction."""
        if self.failed[who]:
            self.refused(who, text, snapdb.SnapdbError)
            return
        if (draft := self.drafts[who]) is not None:
            self.run(who, text)
            apply(draft)
            return
        draft = self.history.draft()
        apply(draft)
        if maybe_nothing:
            self.run(who, text)
            found = self._head(who)
            assert found in (self.history.head, self.history.head + 1)
            if found > self.history.head:
                self.history.publish(draft, draft.state, None)
            return
        message = f"step {self.turn}" if self.turn % 2 and not text.startswith("DROP") else None
        said = f" MESSAGE '{message}'" if message else ""
        self._publish(who, draft, lambda: self.run(who, text + said), message)

    def _publish(self, who: str, draft: Draft, act: Callable[[], Any], message: str | None) -> None:
        """Let the engine commit, and find what the model found: a version, or a conflict that changes nothing."""
        if not (draft.moved or draft.redefined):
            act()
            assert self._head(who) == self.history.head
            return
        try:
            state, doubtful = self.history.merged(draft)
        except Conflict:
            with pytest.raises(snapdb.CommitConflict):
                act()
            counted["conflicts"] += 1
            return
        try:
            act()
        except snapdb.CommitConflict:
            assert doubtful
            counted["conflicts of doubt"] += 1
            return
        if draft.base < self.history.head:
            counted["merges"] += 1
        self.history.publish(draft, state, message)

    def refused(self, who: str, text: str, kind: type[snapdb.SnapdbError]) -> None:
        """A statement fails, which ends its transaction."""
        with pytest.raises(snapdb.SnapdbError if self.failed[who] else kind):
            self.run(who, text)
        if self.drafts[who] is not None:
            self.failed[who] = True

    def compare(self, who: str, state: State, at: str = "") -> None:
        for name in ("t", "u"):
            query = f"SELECT * FROM {name}{at}"
            if name not in state:
                with pytest.raises(snapdb.BindError):
                    self.run(who, query)
                assert self.drafts[who] is None, "a refused query would end the transaction"
                continue
            found = self.run(who, query)
            assert found.columns == state[name].names
            assert sorted(found.fetchall(), key=order) == state[name].values()

    def _head(self, who: str) -> int:
        return max(row[0] for row in self.run(who, "SHOW VERSIONS").fetchall())

    def _connect(self) -> Database:
        return snapdb.connect(self.folder / "x.snapdb")

    def _key(self) -> int:
        self.keys += 1
        return self.keys


def _create(name: str) -> Callable[[Draft], None]:
    return lambda draft: draft.put(name, TableState(PLAIN))


def _insert(draft: Draft, name: str, rows: list[tuple[Any, ...]]) -> None:
    defaults = tuple(c.default for c in draft.state[name].columns[2:])
    draft.insert(name, [(k, v, *defaults) for k, v in rows])


def _drop_column(draft: Draft, name: str, at: int) -> None:
    columns = draft.state[name].columns
    draft.reshape(name, columns[:at] + columns[at + 1 :], lambda row: row[:at] + row[at + 1 :])


def _rename(draft: Draft, name: str, old: str, new: str) -> None:
    columns = [Column(new, c.default) if c.name == old else c for c in draft.state[name].columns]
    draft.reshape(name, columns, lambda row: row)


def _without(table: TableState, other: TableState) -> list[tuple[Any, ...]]:
    """The rows that another state of the table does not have, by their identity."""
    return [row for i, row in table.rows.items() if i not in other.rows]


def _change(row: tuple[Any, ...]) -> tuple[Any, ...]:
    return (row[0], order(row[1:]))


def test_tables_behave_like_a_dict_that_remembers_every_version() -> None:
    counted.clear()
    phases = [Phase.generate, Phase.shrink] if SOAK else [Phase.generate]
    profile = settings(
        max_examples=300 if SOAK else 8,
        stateful_step_count=50 if SOAK else 20,
        deadline=None,
        derandomize=not SOAK,
        database=None,
        phases=phases,
        suppress_health_check=list(HealthCheck),
        print_blob=True,
    )
    try:
        run_state_machine_as_test(TableMachine, settings=profile)
    finally:
        print(", ".join(f"{number} {what}" for what, number in counted.items()))
    assert counted["steps"] > counted["examples"] > 0

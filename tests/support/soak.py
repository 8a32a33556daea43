"""Writers and readers of one database that are killed at random times, and checks that no commit is lost.

Every statement has a unique message, so that each version identifies its statement. A writer announces a statement,
runs it, and reports that it is done. The versions must then match these reports in order. Meanwhile, each process reads
the database's files as plain files, which drops SQLite's locks in that process, and occasionally reopens the database.
Run it with `python -m tests.support.soak PATH --kills 500`.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import selectors
import shutil
import signal
import sys
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import snapdb
import snapdb.database
from snapdb import Database

WRITERS, READERS = 3, 2
NODES = 20
SETUP = f"""
CREATE TABLE log (id BIGINT, v BIGINT);
CREATE TABLE left_side (id BIGINT);
CREATE TABLE right_side (id BIGINT);
CREATE TABLE node AS SELECT range AS id FROM range({NODES});
CREATE TABLE edge AS SELECT range AS a, (range + 1) % {NODES} AS b, range AS at FROM range({NODES});
CREATE PROPERTY GRAPH g VERTEX TABLES (node KEY (id))
  EDGE TABLES (edge SOURCE KEY (a) REFERENCES node DESTINATION KEY (b) REFERENCES node EVENT TIME (at));
CREATE SNAPSHOT s OF g;
CREATE SNAPSHOT recent OF g FOR EVENT_TIME WINDOW 5;
"""
ENDS = "SOURCE KEY (a) REFERENCES node DESTINATION KEY (b) REFERENCES node"
SAMPLE = "SAMPLE FROM s SEEDS (SELECT id FROM node) AS node FANOUT (edge => [3, 3]) BATCH 8"
LOST_RACES = (snapdb.CommitConflict, snapdb.LockedError)

Say = Callable[..., None]


class Writer:
    """Runs random statements and reports each before and after. Only this writer changes rows with its ids."""

    def __init__(self, db: Database, number: int, seed: int, say: Say) -> None:
        self.db, self.number, self.say = db, number, say
        self.random = random.Random(f"{seed} writer {number}")
        self.made = 0
        self.sequence = 0
        self.mine: dict[int, int] = {}
        self.pairs: set[int] = set()

    def step(self) -> None:
        actions = (
            self.insert,
            self.update,
            self.delete,
            self.pair,
            self.unpair,
            self.graph,
            self.alter,
            self.vacuum,
            self.snapshot,
            self.own_graph,
        )
        (action,) = self.random.choices(actions, (8, 5, 3, 6, 3, 3, 1, 2, 2, 1))
        action()

    def insert(self) -> None:
        rows = {self._id(): self.random.randrange(1000) for _ in range(self.random.randint(1, 4))}
        values = ", ".join(f"({i}, {v})" for i, v in rows.items())
        if self._do("set", list(rows.items()), f"INSERT INTO log (id, v) VALUES {values}"):
            self.mine |= rows

    def update(self) -> None:
        if self.mine:
            row, value = self.random.choice(list(self.mine)), self.random.randrange(1000)
            if self._do("set", [(row, value)], f"UPDATE log SET v = {value} WHERE id = {row}"):
                self.mine[row] = value

    def delete(self) -> None:
        if self.mine:
            row = self.random.choice(list(self.mine))
            if self._do("unset", [row], f"DELETE FROM log WHERE id = {row}"):
                del self.mine[row]

    def pair(self) -> None:
        row = self._id()
        if self._do("pair", [row], *(f"INSERT INTO {side} VALUES ({row})" for side in ("left_side", "right_side"))):
            self.pairs.add(row)

    def unpair(self) -> None:
        if self.pairs:
            row = self.random.choice(sorted(self.pairs))
            if self._do("unpair", [row], *(f"DELETE FROM {s} WHERE id = {row}" for s in ("left_side", "right_side"))):
                self.pairs.discard(row)

    def graph(self) -> None:
        node, other = self._id(), self.random.randrange(NODES)
        if self._do("node", [node], f"INSERT INTO node VALUES ({node})"):
            self._do("edge", [node], f"INSERT INTO edge VALUES ({node}, {other}, {self.sequence})")

    def alter(self) -> None:
        column = self.random.choice(("x", "y"))
        how = self.random.choice(
            (f"ADD COLUMN IF NOT EXISTS {column} BIGINT DEFAULT 7", f"DROP COLUMN IF EXISTS {column}")
        )
        self._do("alter", [], f"ALTER TABLE log {how}")

    def vacuum(self) -> None:
        self.say(begin=self._next(), what="vacuum", rows=[])
        self.db.execute("VACUUM RETAIN INTERVAL '0 seconds'")
        self.say(aside="vacuums")

    def snapshot(self) -> None:
        name = self.random.choice(("s", "recent"))
        window = "" if name == "s" else "FOR EVENT_TIME WINDOW 5"
        again = (f"REFRESH SNAPSHOT {name}", f"REFRESH SNAPSHOT {name} FULL")
        self._try("snapshots", self.random.choice((f"CREATE OR REPLACE SNAPSHOT {name} OF g {window}", *again)))

    def own_graph(self) -> None:
        """Create a separate graph with snapshots, expire all but the last, and drop everything."""
        name = f"g{self._id()}"
        vertices = f"VERTEX TABLES (node KEY (id)) EDGE TABLES (edge {ENDS} EVENT TIME (at))"
        self._try("graphs", f"CREATE PROPERTY GRAPH {name} {vertices}")
        for i in range(3):
            self._try("snapshots", f"CREATE SNAPSHOT {name}_{i} OF {name} FOR EVENT_TIME AS OF {self.sequence - i}")
        self._try("expiries", f"EXPIRE SNAPSHOTS OF {name} RETAIN LAST 1")
        self._try("cascades", f"DROP GRAPH {name} CASCADE")

    def _try(self, what: str, statement: str) -> None:
        """Run a statement that creates no version."""
        try:
            self.db.execute(statement)
            self.say(aside=what)
        except LOST_RACES:
            self.say(aside="lost races")

    def _do(self, what: str, rows: list[Any], *statements: str) -> bool:
        """Run statements as one version, and return whether it was created."""
        self.say(begin=self._next(), what=what, rows=rows)
        message = f"{self.number}:{self.sequence}"
        try:
            if len(statements) == 1:
                self.db.execute(f"{statements[0]} MESSAGE '{message}'")
            else:
                with self.db.transaction(message=message):
                    for statement in statements:
                        self.db.execute(statement)
        except LOST_RACES:
            self.say(lost=self.sequence)
            return False
        self.say(done=self.sequence)
        return True

    def _next(self) -> int:
        self.sequence += 1
        return self.sequence

    def _id(self) -> int:
        self.made += 1
        return self.number * 1_000_000 + self.made


class Reader:
    """Reads that must succeed at any time, regardless of the writers."""

    def __init__(self, db: Database, number: int, seed: int, say: Say) -> None:
        self.db, self.say = db, say
        self.random = random.Random(f"{seed} reader {number}")

    def step(self) -> None:
        actions = (self.count, self.look_back, self.sample, self.check, self.backup)
        (action,) = self.random.choices(actions, (10, 10, 4, 2, 1))
        action()
        self.say(aside="reads")

    def count(self) -> None:
        same_pairs(self.db)
        ids, distinct = self.db.execute("SELECT count(id), count(DISTINCT id) FROM log").fetchall()[0]
        assert ids == distinct, f"{ids} rows of log have {distinct} ids"

    def look_back(self) -> None:
        head = self.db.execute("SHOW VERSIONS").fetchall()[-1][0]
        same_pairs(self.db, self.random.randint(SETTLED, head))

    def sample(self) -> None:
        found = self.db.execute(SAMPLE).fetchall()
        assert len(found) >= NODES, f"{len(found)} edges were sampled"

    def check(self) -> None:
        no_problem(self.db)

    def backup(self) -> None:
        target = self.db.path.with_name(f"backup-{os.getpid()}")
        self.db.execute(f"BACKUP DATABASE TO '{target}'")
        with snapdb.connect(target) as copy:
            same_pairs(copy)
            no_problem(copy)
        shutil.rmtree(target)
        self.say(aside="backups")


SETTLED = 5
"""The first version in which all tables of the setup exist."""


def same_pairs(db: Database, version: int | None = None) -> None:
    """Check that the two tables that only change together are equal."""
    at = "" if version is None else f" AT (VERSION => {version})"
    left, right = (f"(SELECT id FROM {side}{at})" for side in ("left_side", "right_side"))
    found = db.execute(f"""SELECT (SELECT count(*) FROM {left}), (SELECT count(*) FROM {right}),
                           (SELECT count(*) FROM {left} ANTI JOIN {right} USING (id))""").fetchall()
    ((here, there, alone),) = found
    assert (here, alone) == (there, 0), f"left_side has {here} rows, right_side {there}; {alone} alone; at {version}"


def read_as_files(path: Path) -> None:
    """Repeatedly open, read and close the database's files, like shutil.copytree, tar or a virus scanner."""
    while True:
        for name in ("catalog.sqlite", "catalog.sqlite-wal", "catalog.sqlite-shm", "catalog.lock", "versions.log"):
            with suppress(OSError):
                (path / name).read_bytes()
        time.sleep(0.001)


def no_problem(db: Database) -> None:
    found = db.execute("CHECK DATABASE").fetchall()
    assert not found, f"CHECK DATABASE found {found}"


@dataclass
class Child:
    """A process and its reports."""

    role: type[Writer] | type[Reader]
    number: int
    process: int
    pipe: int
    text: bytes = b""
    said: list[dict[str, Any]] = field(default_factory=list)

    def hear(self) -> bool:
        """Read its reports. Returns False at the end of the pipe."""
        block = os.read(self.pipe, 1 << 16)
        *lines, self.text = (self.text + block).split(b"\n")
        self.said += [json.loads(line) for line in lines]
        return bool(block)


class Soak:
    """The controller. It never opens a database itself, so that it can fork children that do."""

    def __init__(self, path: Path, kills: int, seed: int) -> None:
        self.path, self.kills, self.seed = path, kills, seed
        self.random = random.Random(seed)
        self.selector = selectors.DefaultSelector()
        self.children: list[Child] = []
        self.ended: list[Child] = []
        self.number = 0
        self.stop = path.with_name("stop")

    def run(self) -> str:
        """Run everything and return a one-line summary. Raises AssertionError for any inconsistency."""
        self.apart(self.setup)
        roles = [Writer] * WRITERS + [Reader] * READERS
        for role in roles:
            self.start(role)
        for kill in range(1, self.kills + 1):
            self.listen(self.random.uniform(0.05, 1.2))
            self.kill(self.random.choice(self.children))
            if kill % 25 == 0:
                told = self.told("done")
                self.apart(lambda told=told: self.nothing_lost(told))
        self.stop.touch()
        self.listen(60.0)
        assert not self.children, f"{len(self.children)} processes do not end"
        self.apart(self.final_check)
        return self.summary()

    def setup(self) -> None:
        with snapdb.connect(self.path) as db:
            db.script(SETUP)
            db.execute(SAMPLE).fetchall()

    def start(self, role: type[Writer] | type[Reader]) -> None:
        """Start a new process with a new number."""
        self.number += 1
        ours, theirs = os.pipe()
        number = self.number
        process = self.fork(lambda: self.live(role, number, theirs))
        os.close(theirs)
        child = Child(role, number, process, ours)
        self.children.append(child)
        self.selector.register(ours, selectors.EVENT_READ, child)

    def live(self, role: type[Writer] | type[Reader], number: int, pipe: int) -> None:
        """Run a child process until it is stopped."""

        def say(**what: Any) -> None:
            os.write(pipe, json.dumps(what).encode() + b"\n")

        threading.Thread(target=read_as_files, args=(self.path,), daemon=True).start()
        one: Writer | Reader | None = None
        try:
            while not self.stop.exists():
                with snapdb.connect(self.path) as db:
                    one = role(db, number, self.seed, say) if one is None else one
                    one.db = db
                    for _ in range(one.random.randint(5, 60)):
                        if not self.stop.exists():
                            one.step()
        except BaseException:  # the controller must receive every error
            say(fault=traceback.format_exc())

    def fork(self, act: Callable[[], None]) -> int:
        sys.stdout.flush()
        process = os.fork()
        if process == 0:
            try:
                act()
                os._exit(0)
            except BaseException:
                traceback.print_exc()
            finally:
                sys.stderr.flush()
                os._exit(1)
        return process

    def apart(self, act: Callable[[], None]) -> None:
        """Run a function in a separate process and wait for it, while the children continue."""
        _, status = os.waitpid(self.fork(act), 0)
        assert status == 0, "see above"

    def listen(self, seconds: float) -> None:
        """Read the children's reports for a while, or until all children have ended."""
        until = time.monotonic() + seconds
        while self.children and (left := until - time.monotonic()) > 0:
            for key, _ in self.selector.select(left):
                self.hear(key.data)

    def hear(self, child: Child) -> None:
        known = len(child.said)
        if not child.hear():
            self.bury(child)
        for said in child.said[known:]:
            assert "fault" not in said, f"process {child.number}: {said['fault']}"

    def kill(self, child: Child) -> None:
        os.kill(child.process, signal.SIGKILL)
        while child in self.children:  # reports from before the kill count
            self.hear(child)
        self.start(child.role)

    def bury(self, child: Child) -> None:
        self.selector.unregister(child.pipe)
        os.close(child.pipe)
        os.waitpid(child.process, 0)
        self.children.remove(child)
        self.ended.append(child)

    def told(self, word: str) -> set[str]:
        """Return the messages of statements reported as done, or lost, that certainly create a version."""
        told = set()
        for child in self.children + self.ended:
            certain = {said["begin"] for said in child.said if said.get("what") in ("set", "unset", "pair", "unpair")}
            told |= {f"{child.number}:{s[word]}" for s in child.said if word in s and s[word] in certain}
        return told

    def nothing_lost(self, done: set[str]) -> None:
        """Check that every statement reported as done has exactly one version."""
        with snapdb.connect(self.path) as db:
            found = messages(db)
            missing = done - found.keys()
            assert not missing, f"{len(missing)} acknowledged commits are lost: {sorted(missing)[:5]}"
            twice = [m for m, n in found.items() if n > 1]
            assert not twice, f"made more than one version each: {twice[:5]}"
            no_problem(db)

    def final_check(self) -> None:
        """Check that all tables match the versions' statements, and that versions are complete.

        No other process may be running.
        """
        self.nothing_lost(self.told("done"))
        with snapdb.connect(self.path, verify=True) as db:
            made = messages(db).keys()
            wrong = self.told("lost") & made
            assert not wrong, f"refused, but committed: {sorted(wrong)[:5]}"
            log, pairs = self.replay(made)
            assert dict(db.execute("SELECT id, v FROM log").fetchall()) == log
            for side in ("left_side", "right_side"):
                assert {row[0] for row in db.execute(f"SELECT id FROM {side}").fetchall()} == pairs
            versions = sorted({row[0] for row in db.execute("SHOW VERSIONS").fetchall()})
            assert versions == list(range(1, len(versions) + 1))
            looks = self.random.sample(versions[SETTLED:], min(100, len(versions) - SETTLED))
            for version in looks:
                same_pairs(db, version)
            print(f"{len(versions)} versions, {len(looks)} of them compared")

    def replay(self, made: Any) -> tuple[dict[int, int], set[int]]:
        """Return the expected content after the statements that created versions: `log`, and the ids of both sides."""
        log: dict[int, int] = {}
        pairs: set[int] = set()
        for child in self.ended:
            for said in child.said:
                if "begin" not in said or f"{child.number}:{said['begin']}" not in made:
                    continue
                rows = said["rows"]
                match said["what"]:
                    case "set":
                        log |= dict(rows)
                    case "unset":
                        del log[rows[0]]
                    case "pair":
                        pairs.add(rows[0])
                    case "unpair":
                        pairs.discard(rows[0])
        return log, pairs

    def summary(self) -> str:
        counts = Counter(word for child in self.ended for said in child.said for word in said)
        asides = Counter(said["aside"] for child in self.ended for said in child.said if "aside" in said)
        rest = ", ".join(f"{n} {what}" for what, n in sorted(asides.items()))
        return f"seed {self.seed}: {self.kills} kills, {counts['done']} commits, {counts['lost']} conflicts, {rest}"

    def end(self) -> None:
        """Kill all remaining processes."""
        for child in self.children:
            with suppress(ProcessLookupError):
                os.kill(child.process, signal.SIGKILL)
            os.waitpid(child.process, 0)


def messages(db: Database) -> Counter[str]:
    """Return the number of versions with each message."""
    return Counter(dict(row[:2] for row in _version_messages(db)).values())


def _version_messages(db: Database) -> list[tuple[int, str]]:
    return [(row[0], row[2]) for row in db.execute("SHOW VERSIONS").fetchall() if row[2]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("path", type=Path)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    soak = Soak(asked.path, asked.kills, asked.seed)
    try:
        print(soak.run())
    finally:
        soak.end()


if __name__ == "__main__":
    main()

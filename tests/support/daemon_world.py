"""A daemon's event loop in a simulation: a clock that advances only on request, and runs with simulated durations."""

from __future__ import annotations

import io
import math
import sqlite3
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from snapdb.storage.catalog_db.task_rows import LeaderLease, RunRows
from snapdb.types import Period, Schedule, Task, TaskRun
from tests.support.daemons import put_task
from tests.support.inside.daemon import Clock, Died, Intervals, Log, Loop
from tests.support.inside.execute import Ended, EndState
from tests.support.inside.storage import CatalogDb, Disk, Leader, open_db_dir

SECOND = 1_000_000
MINUTE, HOUR, DAY = 60 * SECOND, 3600 * SECOND, 86_400 * SECOND

Fate = Callable[[Task, TaskRun], tuple[float, EndState]]
"""Returns the duration of a run in seconds, and its final state."""


def at_once(task: Task, run: TaskRun) -> tuple[float, EndState]:
    return 0.5, "ok"


class StandingClock(Clock):
    """A clock that advances only on request."""

    def __init__(self, now: int) -> None:
        self.wall, self.steady = now, 0

    def now(self) -> int:
        return self.wall

    def monotonic(self) -> float:
        return self.steady / SECOND

    def wait(self, seconds: float) -> None:
        self.go(math.ceil(seconds * SECOND))

    def wake(self) -> None:
        pass

    def pause(self, stopped: threading.Event, seconds: float) -> bool:
        raise AssertionError("nothing waits here")

    def go(self, microseconds: int) -> None:
        """Advance the clock."""
        self.wall += microseconds
        self.steady += microseconds


class SimulatedLanes:
    """A simulated worker pool. Runs end when their duration is over and do no work."""

    def __init__(self, clock: StandingClock, jobs: int, fate: Fate) -> None:
        self._clock, self._jobs, self._fate = clock, jobs, fate
        self.going: list[tuple[int, TaskRun, EndState]] = []
        self.began: list[TaskRun] = []

    def free(self) -> int:
        return self._jobs - len(self.going)

    def start(self, task: Task, run: TaskRun) -> None:
        assert self.free() > 0
        assert run.task not in {other.task for _, other, _ in self.going}, "two runs of one task at once"
        seconds, state = self._fate(task, run)
        self.going.append((self._clock.steady + int(seconds * SECOND), run, state))
        self.began.append(run)

    def ended(self) -> list[Ended | Died]:
        over = [one for one in self.going if one[0] <= self._clock.steady]
        self.going = [one for one in self.going if one[0] > self._clock.steady]
        return [Ended(run, state, self._clock.now()) for _, run, state in over]

    def soonest(self) -> float:
        """Return the seconds until the next run ends."""
        return min(((end - self._clock.steady) / SECOND for end, *_ in self.going), default=math.inf)


class RefusingDisk(Disk):
    """A disk that is full while `full` is true."""

    full = False

    def commit(self, connection: sqlite3.Connection) -> None:
        if self.full:
            raise sqlite3.OperationalError("database or disk is full")
        super().commit(connection)


@dataclass
class World:
    """A database with tasks, and the daemon that leads it."""

    path: Path
    now: int
    jobs: int = 4
    fate: Fate = at_once
    poll: float = math.inf
    clock: StandingClock = field(init=False)
    lanes: SimulatedLanes = field(init=False)
    loop: Loop = field(init=False)
    said: io.StringIO = field(default_factory=io.StringIO)

    def __post_init__(self) -> None:
        self.disk = RefusingDisk()
        self.db_dir = open_db_dir(self.path, read_only=False, disk=self.disk)
        self.catalog_db = CatalogDb(self.db_dir)
        with self.catalog_db.reading() as connection:
            pass
        connection.execute("PRAGMA synchronous = OFF")
        self.clock = StandingClock(self.now)
        self.terms = 0
        self.take_over()

    def take_over(self) -> None:
        """Replace the leader with another daemon. The runs of the previous leader are lost."""
        self.terms += 1
        holder = f"daemon {self.terms}"
        lease = LeaderLease(self.catalog_db)
        assert lease.acquire(Leader(holder, 0, "here", 1, self.clock.now()), lease.read())
        self.lanes = SimulatedLanes(self.clock, self.jobs, self._fate)
        log = Log(self.said, "text", self.clock)
        intervals = Intervals(poll=self.poll)
        self.loop = Loop(self.catalog_db, self.lanes, self.clock, intervals, log, holder)

    def _fate(self, task: Task, run: TaskRun) -> tuple[float, EndState]:
        return self.fate(task, run)

    def task(self, name: str, cron: str | int, zone: str = "UTC", **options: Any) -> Task:
        """Create a task with a cron line, or with a period in microseconds."""
        now = self.clock.now()
        steps = isinstance(cron, int)
        schedule = Schedule(
            str(cron), None if steps else str(cron), zone, Period(0, 0, int(cron)) if steps else None, now
        )
        return put_task(self.catalog_db, name, schedule, now, **options)

    def until(self, moment: int) -> None:
        """Run the leader's loop until a wall-clock time."""
        idle = 0
        while self.clock.now() < moment:
            wait = min(self.loop.step(), self.lanes.soonest(), (moment - self.clock.now()) / SECOND)
            idle = idle + 1 if wait <= 0 else 0
            assert idle < 1000, "the loop turns without an end"
            self.clock.wait(wait)

    def for_(self, microseconds: int) -> None:
        """Run the leader's loop for a duration."""
        self.until(self.clock.now() + microseconds)

    def runs(self, task: Task | None = None) -> list[TaskRun]:
        """Return all runs, or the runs of a task."""
        with self.catalog_db.reading() as connection:
            return list(RunRows(connection).read(task=None if task is None else task.id))

    def states(self, task: Task) -> dict[int, str]:
        """Return, by fire time, how the last attempt ended. Checks that no fire time has two runs."""
        found: dict[int, tuple[int, str]] = {}
        for run in self.runs(task):
            if run.cause == "schedule":
                assert run.scheduled not in found or found[run.scheduled][0] == run.run, "a firing ran twice"
                found[run.scheduled] = (run.run, run.state)
        return {moment: state for moment, (_, state) in found.items()}

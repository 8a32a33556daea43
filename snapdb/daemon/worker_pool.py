"""The worker processes that run tasks, and the messages between them and the daemon: one line of JSON each."""

from __future__ import annotations

import json
import queue
import signal
import subprocess
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any, Literal

from snapdb.daemon.clock import Clock, Intervals
from snapdb.daemon.log import Field, Log, iso
from snapdb.execute.tasks.runs import Ended
from snapdb.storage.catalog_db.codec import decode, encode
from snapdb.types import Run, Task

END = b'{"do": "end"}\n'
"""The worker is to end, which it does between two runs."""


def encode_run(task: Task, run: Run) -> bytes:
    """The worker is to perform a run."""
    return _line({"do": "run", "task": encode(task), "run": encode(run)})


def decode_run(message: dict[str, Any]) -> tuple[Task, Run]:
    """What `encode_run` wrote, read as JSON."""
    return decode(Task, message["task"]), decode(Run, message["run"])


def encode_stop(why: str) -> bytes:
    """The run that goes on is to stop."""
    return _line({"do": "stop", "why": why})


def encode_end(ended: Ended) -> bytes:
    """The worker tells how a run ended."""
    return _line({"ended": encode(ended)})


def decode_end(line: bytes) -> Ended:
    """What `encode_end` wrote."""
    return decode(Ended, json.loads(line)["ended"])


def _line(message: dict[str, str]) -> bytes:
    return json.dumps(message).encode() + b"\n"


@dataclass(frozen=True, slots=True)
class Finished:
    """A run of which its worker tells how it ended."""

    ended: Ended

    @property
    def run(self) -> Run:
        return self.ended.run


@dataclass(frozen=True, slots=True)
class Died:
    """A run whose worker ended before it did."""

    run: Run
    how: str
    """As a sentence for the run's record."""
    state: Literal["failed", "timeout"] = "failed"


def tell_end(log: Log, ended: Ended) -> None:
    """Log how a run ended, what its own log says, and when it is tried again."""
    run = ended.run
    one: dict[str, Field] = {"task": run.name, "run": run.run, "attempt": run.attempt}
    if ended.state == "skipped":
        log.info("run.skipped", task=run.name, scheduled=iso(run.scheduled))
        return
    for line in ended.log.splitlines():
        log.info("run.log", **one, line=line)
    seconds = max(0.0, (ended.ended - (run.started or ended.ended)) / 1e6)
    tell = log.info if ended.state == "ok" else log.warn
    tell("run.end", **one, state=ended.state, rows=ended.rows, bytes=ended.bytes, seconds=seconds, error=ended.error)
    if ended.retry is not None:
        log.info("run.retry", **one, at=iso(ended.retry))


_LINE = 2000
"""Characters of a complaint that are passed on."""
_DYING = 2.0
"""Seconds from a process's end to that of its words."""
_KNOWN: dict[int, str] = {
    signal.SIGKILL: " (killed; out of memory?)",
    signal.SIGSEGV: " (a crash)",
    signal.SIGBUS: " (a crash; a full disk?)",
}


@dataclass(slots=True)
class _Job:
    """What a worker is doing."""

    task: Task
    run: Run
    deadline: float | None
    """When it is to be killed, by the monotonic clock; None: never."""
    asked: str | None = None
    """Why it is to stop, where it was asked."""
    killed: str | None = None
    """Why it was killed, where it was."""
    state: Literal["failed", "timeout"] = "failed"
    """How its run ends, when the worker does first."""

    def names(self) -> dict[str, str | int]:
        """Which run it is, for the log."""
        return {"task": self.task.name, "run": self.run.run, "attempt": self.run.attempt}


@dataclass(frozen=True, slots=True)
class _Said:
    """What was heard of a worker: a line on its stderr, how a run ended, or neither: it says nothing any more."""

    worker: _WorkerProcess
    ended: Ended | None = None
    complaint: str | None = None


class _WorkerProcess:
    """A process that performs runs, one at a time. What it says comes into a queue, and wakes the clock."""

    def __init__(self, number: int, command: Sequence[str], said: SimpleQueue[_Said], clock: Clock) -> None:
        self.number = number
        self.job: _Job | None = None
        self.runs = 0
        self.since = clock.monotonic()
        """Since when it has nothing to do, if so."""
        self.leaves = False
        # A session of its own: Ctrl-C in a terminal is for the daemon, which says to its workers what follows from it.
        self._process = subprocess.Popen(  # noqa: S603  # the command is ours
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
        )
        self._said, self._clock = said, clock
        self._ears = [self._thread(self._listen), self._thread(self._overhear)]
        self._thread(self._watch)

    @property
    def pid(self) -> int:
        return self._process.pid

    def perform(self, job: _Job) -> None:
        """Do this next."""
        self.job = job
        self._say(encode_run(job.task, job.run))

    def finished(self, now: float) -> None:
        """It said how its run ended."""
        self.job, self.since, self.runs = None, now, self.runs + 1

    def stop(self, why: str) -> None:
        """Ask it to stop its run."""
        self._say(encode_stop(why))

    def leave(self) -> None:
        """Ask it to end, as it has nothing to do."""
        self.leaves = True
        self._say(END)

    def kill(self) -> None:
        """End it at once."""
        self._process.kill()

    def wait(self, seconds: float) -> bool:
        """Whether it has ended after so many seconds at most."""
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return False
        self._close()
        return True

    def runs_still(self) -> bool:
        """Whether it has not ended."""
        return self._process.poll() is None

    def how_it_ended(self) -> str:
        """As in: its worker ended by signal 9. It has ended."""
        self.wait(0)
        code = self._process.returncode
        if code >= 0:
            return f"ended with exit code {code}"
        return f"ended by signal {-code}" + _KNOWN.get(-code, "")

    def _say(self, line: bytes) -> None:
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):  # it is gone: that is heard of
            self._process.stdin.write(line)
            self._process.stdin.flush()

    def _thread(self, work: Callable[[], None]) -> threading.Thread:
        thread = threading.Thread(target=work, name=f"snapdb-worker-{self.number}", daemon=True)
        thread.start()
        return thread

    def _close(self) -> None:
        assert self._process.stdin is not None
        with suppress(OSError):
            self._process.stdin.close()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as stdout:
            for line in stdout:
                try:
                    ended = decode_end(line)
                except Exception:  # half a line, of one that was killed; or there is no memory to read it
                    self.kill()
                    return
                self._tell(_Said(self, ended=ended))

    def _overhear(self) -> None:
        assert self._process.stderr is not None
        with self._process.stderr as stderr:
            for line in stderr:
                if text := line.decode(errors="replace").rstrip():
                    self._tell(_Said(self, complaint=text[:_LINE]))

    def _watch(self) -> None:
        """Tell of its end when all that it said was heard; a process that it left behind may hold its pipes."""
        self._process.wait()
        for ear in self._ears:
            ear.join(_DYING)
        self._tell(_Said(self))

    def _tell(self, said: _Said) -> None:
        self._said.put(said)
        self._clock.wake()


_IDLE = 60.0
"""Seconds that a worker beyond the first waits for another run."""
_RUNS = 500
"""After so many a worker gives way to a new one, whatever memory libraries kept to themselves."""


class WorkerPool:
    """The lanes of a daemon (`loop.Lanes`), as processes. Only the thread that made it may use it."""

    def __init__(self, command: Sequence[str], jobs: int, clock: Clock, intervals: Intervals, log: Log) -> None:
        """`command` starts a worker; it reads `messages` from its stdin, and writes ends to its stdout."""
        self._command, self._jobs, self._clock, self._intervals, self._log = command, jobs, clock, intervals, log
        self._said: queue.SimpleQueue[_Said] = queue.SimpleQueue()
        self._workers: list[_WorkerProcess] = []
        self._over: list[Finished | Died] = []
        self._numbers = 0
        self._again: float | None = None
        """When another worker may be started ahead; None: at once."""

    def warm(self) -> None:
        """Have a worker ready: the first run need not wait for its imports.

        One that ended by itself is replaced after a while, lest a machine without memory start one after another.
        """
        now = self._clock.monotonic()
        if self._workers or (self._again is not None and now < self._again):
            return
        self._again = now + _IDLE
        try:
            self._hire()
        except OSError as error:  # no more processes, or no more memory
            self._log.error("error", error=f"no worker could be started ({error.strerror})", code=None)

    def free(self) -> int:
        """How many more runs can begin at once."""
        return self._jobs - sum(worker.job is not None for worker in self._workers)

    def start(self, task: Task, run: Run) -> None:
        """Let a run go on in a worker; where none can be had, the run has died."""
        limit = None if task.timeout is None else task.timeout / 1_000_000 + self._intervals.kill
        deadline = None if limit is None else self._clock.monotonic() + limit
        try:
            worker = next((worker for worker in self._workers if worker.job is None and not worker.leaves), None)
            (worker or self._hire()).perform(_Job(task, run, deadline))
        except OSError as error:  # no more processes, or no more memory
            self._over.append(Died(run, f"no worker could be started ({error.strerror})"))

    def ended(self) -> list[Finished | Died]:
        """The runs that have ended since the last time; those that should have long ago are killed."""
        while not self._said.empty():
            self._hear(self._said.get())
        now = self._clock.monotonic()
        for worker in self._workers:
            job = worker.job
            if job is not None and job.deadline is not None and now >= job.deadline:
                self._log.warn("run.stopped", **job.names(), how="killed", why="it did not stop")
                asked = job.asked or "its timeout"
                job.deadline, job.state = None, "failed" if job.asked else "timeout"
                job.killed = f"it was stopped ({asked}) and, as it did not stop in {self._intervals.kill:g} s, killed"
                worker.kill()
        self._let_go(now)
        over, self._over = self._over, []
        return over

    def going(self) -> list[Run]:
        """The runs that go on."""
        return [worker.job.run for worker in self._workers if worker.job is not None]

    def stop(self, why: str) -> None:
        """Ask all runs to stop; those that do not are killed after a while."""
        for worker in self._workers:
            if worker.job is not None:
                self._log.warn("run.stopped", **worker.job.names(), how="asked", why=why)
                worker.job.asked = why
                worker.job.deadline = self._clock.monotonic() + self._intervals.kill
                worker.stop(why)

    def kill(self) -> None:
        """End all workers at once. Their runs are nobody's from now on; the catalog says how far they came."""
        for worker in self._workers:
            worker.kill()
        for worker in self._workers:
            worker.wait(self._intervals.kill)
            self._log.info("worker.end", worker=worker.number, how="killed")
        self._again = None
        self._workers.clear()
        self._over.clear()
        while not self._said.empty():
            self._said.get()

    def close(self) -> None:
        """Let idle workers end, and kill the others."""
        for worker in self._workers:
            if worker.job is None:
                worker.leave()
        for worker in self._workers:
            if worker.job is None and worker.wait(2.0):
                self._log.info("worker.end", worker=worker.number, how="asked")
        self._workers = [worker for worker in self._workers if worker.runs_still()]
        self.kill()

    def _hire(self) -> _WorkerProcess:
        self._numbers += 1
        worker = _WorkerProcess(self._numbers, self._command, self._said, self._clock)
        self._workers.append(worker)
        self._log.info("worker.start", worker=worker.number, pid=worker.pid)
        return worker

    def _hear(self, said: _Said) -> None:
        worker = said.worker
        if worker not in self._workers:
            return  # it was killed, and its run with it
        if said.complaint is not None:
            self._log.warn("worker.says", worker=worker.number, line=said.complaint)
        elif said.ended is not None:
            self._over.append(Finished(said.ended))
            worker.finished(self._clock.monotonic())
        else:
            how = worker.how_it_ended()
            tell = self._log.info if worker.leaves else self._log.warn
            tell("worker.end", worker=worker.number, how=how)
            self._workers.remove(worker)
            if worker.job is not None:
                self._over.append(Died(worker.job.run, worker.job.killed or f"its worker {how}", worker.job.state))

    def _let_go(self, now: float) -> None:
        """Send those home that have done their share, and all but one that have nothing to do for long."""
        idle = [worker for worker in self._workers if worker.job is None and not worker.leaves]
        for worker in idle:
            if worker.runs >= _RUNS:
                worker.leave()
        for worker in [worker for worker in idle if not worker.leaves][1:]:
            if now - worker.since > _IDLE:
                worker.leave()

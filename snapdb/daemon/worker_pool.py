"""The pool of worker processes, started on demand and retired when idle, and the messages to and from them."""

from __future__ import annotations

import json
import signal
import subprocess
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Literal, NamedTuple

from snapdb.daemon.log import Clock, Intervals, Log
from snapdb.execute.tasks.runs import Ended
from snapdb.storage.catalog_db.codec import decode, encode
from snapdb.types import Task, TaskRun


class Died(NamedTuple):
    """A run whose worker exited before the run ended."""

    run: TaskRun
    how: str
    """The reason as a sentence, for the record of the run."""
    state: Literal["failed", "timeout"] = "failed"
    """The final state of the run."""


_LINE = 2000
"""The maximum number of characters of a stderr line in the log."""
_DYING = 2.0
"""The number of seconds to wait for a process's output after it has exited."""
_KNOWN: dict[int, str] = {
    signal.SIGKILL: " (killed; out of memory?)",
    signal.SIGSEGV: " (a crash)",
    signal.SIGBUS: " (a crash; a full disk?)",
}
"""Signal → an explanation for the log."""


@dataclass(slots=True)
class _Job:
    """The run that a worker performs."""

    task: Task
    run: TaskRun
    deadline: float | None
    """The monotonic time at which its worker is killed, or None for never."""
    stop_reason: str | None = None
    """The reason why the run should stop, or None if it should not."""
    killed: str | None = None
    """The reason why the worker was killed, or None if it was not."""
    state: Literal["failed", "timeout"] = "failed"
    """The state of the run if its worker ends first."""

    def names(self) -> dict[str, str | int]:
        """Return the log fields that identify the run."""
        return {"task": self.task.name, "run": self.run.run, "attempt": self.run.attempt}


class _WorkerProcess:
    """A process that performs runs, one at a time. Its messages are queued and wake the clock.

    In both directions, a message is a line of JSON. The field `do` of a request is run, stop or end.
    """

    def __init__(self, number: int, command: Sequence[str], messages: SimpleQueue[_Message], clock: Clock) -> None:
        self.number = number
        self.job: _Job | None = None
        """The run in progress, or None."""
        self.runs = 0
        """The number of runs that the worker has finished."""
        self.since = clock.monotonic()
        """The monotonic time since which the worker has been idle, if it is idle."""
        self.retiring = False
        """Whether the worker was asked to exit."""
        # A separate session, so that Ctrl-C in a terminal reaches only the scheduler, which then stops its workers'
        # runs.
        self._process = subprocess.Popen(  # noqa: S603  # the command is ours
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
        )
        self._messages, self._clock = messages, clock
        self._readers = [self._thread(self._read_replies), self._thread(self._read_stderr)]
        self._thread(self._watch)

    @property
    def pid(self) -> int:
        return self._process.pid

    def perform(self, job: _Job) -> None:
        """Start a run."""
        self.job = job
        self._send(do="run", task=encode(job.task), run=encode(job.run))

    def finished(self, now: float) -> None:
        """Record that the worker's run ended."""
        self.job, self.since, self.runs = None, now, self.runs + 1

    def stop(self, why: str) -> None:
        """Ask the worker to stop its run."""
        self._send(do="stop", why=why)

    def retire(self) -> None:
        """Ask the worker to exit after the current run."""
        self.retiring = True
        self._send(do="end")

    def kill(self) -> None:
        """Kill the process."""
        self._process.kill()

    def wait(self, seconds: float) -> bool:
        """Wait at most this number of seconds for the process to end, and return whether it has ended."""
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return False
        self._close()
        return True

    def runs_still(self) -> bool:
        """Return whether the process is still running."""
        return self._process.poll() is None

    def how_it_ended(self) -> str:
        """Return a description of how the process ended, such as "ended by signal 9". The process must have ended."""
        self.wait(0)
        code = self._process.returncode
        if code >= 0:
            return f"ended with exit code {code}"
        return f"ended by signal {-code}" + _KNOWN.get(-code, "")

    def _send(self, **message: str) -> None:
        """Write a request to the worker's stdin."""
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):  # the process has ended, which `_watch` reports
            self._process.stdin.write(json.dumps(message).encode() + b"\n")
            self._process.stdin.flush()

    def _thread(self, work: Callable[[], None]) -> threading.Thread:
        """Start a thread."""
        thread = threading.Thread(target=work, name=f"snapdb-worker-{self.number}", daemon=True)
        thread.start()
        return thread

    def _close(self) -> None:
        """Close the worker's stdin."""
        assert self._process.stdin is not None
        with suppress(OSError):
            self._process.stdin.close()

    def _read_replies(self) -> None:
        """Read the worker's replies, in a thread."""
        assert self._process.stdout is not None
        with self._process.stdout as stdout:
            for line in stdout:
                try:
                    ended = decode(Ended, json.loads(line)["ended"])
                except Exception:  # half a line from a process that was killed, or too little memory to read it
                    self.kill()
                    return
                self._put(ended)

    def _read_stderr(self) -> None:
        """Read the worker's stderr for the log, in a thread."""
        assert self._process.stderr is not None
        with self._process.stderr as stderr:
            for line in stderr:
                if text := line.decode(errors="replace").rstrip():
                    self._put(text[:_LINE])

    def _watch(self) -> None:
        """Report the end of the process, in a thread. A surviving child may hold the pipes and block the readers."""
        self._process.wait()
        for reader in self._readers:
            reader.join(_DYING)
        self._put(None)

    def _put(self, content: Ended | str | None) -> None:
        """Queue a message and wake the main thread."""
        self._messages.put((self, content))
        self._clock.wake()


_Message = tuple[_WorkerProcess, Ended | str | None]
"""A worker and its message: how its run ended, a line of its stderr, or None if the worker has exited."""

_IDLE = 60.0
"""The number of seconds that a worker other than the first may be idle before it is retired."""
_RUNS = 500
"""The number of runs after which a worker is replaced, because libraries do not release all memory."""


class WorkerPool:
    """The worker processes of a scheduler. Only the thread that created the pool may use it."""

    def __init__(self, command: Sequence[str], jobs: int, clock: Clock, intervals: Intervals, log: Log) -> None:
        """Create a pool. The process of `command` reads requests from stdin, and writes how runs ended to stdout."""
        self._command, self._jobs, self._clock, self._intervals, self._log = command, jobs, clock, intervals, log
        self._messages: SimpleQueue[_Message] = SimpleQueue()
        self._workers: list[_WorkerProcess] = []
        self._over: list[Ended | Died] = []
        """The completed runs that have not been returned yet."""
        self._numbers = 0
        self._again: float | None = None
        """The monotonic time from which a worker may be started ahead of need, or None for immediately."""

    def warm(self) -> None:
        """Keep a worker ready, so that the first run need not wait for its imports.

        A worker that exited unexpectedly is replaced only after a while, so that a machine without free memory does not
        start one worker after another.
        """
        now = self._clock.monotonic()
        if self._workers or (self._again is not None and now < self._again):
            return
        self._again = now + _IDLE
        try:
            self._spawn()
        except OSError as error:  # the system has no processes or memory left
            self._log.error("error", error=f"no worker could be started ({error.strerror})", code=None)

    def free(self) -> int:
        """Return the number of runs that can start immediately."""
        return self._jobs - sum(worker.job is not None for worker in self._workers)

    def start(self, task: Task, run: TaskRun) -> None:
        """Pass a run to a worker. The run fails if no worker can be started."""
        limit = None if task.timeout is None else task.timeout / 1_000_000 + self._intervals.kill
        deadline = None if limit is None else self._clock.monotonic() + limit
        try:
            worker = next((worker for worker in self._workers if worker.job is None and not worker.retiring), None)
            (worker or self._spawn()).perform(_Job(task, run, deadline))
        except OSError as error:  # the system has no processes or memory left
            self._over.append(Died(run, f"no worker could be started ({error.strerror})"))

    def ended(self) -> list[Ended | Died]:
        """Return the runs that have ended since the last call. Runs past their deadline are killed."""
        while not self._messages.empty():
            self._receive(*self._messages.get())
        now = self._clock.monotonic()
        for worker in self._workers:
            job = worker.job
            if job is not None and job.deadline is not None and now >= job.deadline:
                self._log.warn("run.stopped", **job.names(), how="killed", why="it did not stop")
                reason = job.stop_reason or "its timeout"
                job.deadline, job.state = None, "failed" if job.stop_reason else "timeout"
                job.killed = (
                    f"it was asked to stop ({reason}), did not stop within {self._intervals.kill:g} s, and was killed"
                )
                worker.kill()
        self._retire_idle(now)
        over, self._over = self._over, []
        return over

    def going(self) -> list[TaskRun]:
        """Return the runs in progress."""
        return [worker.job.run for worker in self._workers if worker.job is not None]

    def stop(self, why: str) -> None:
        """Ask all runs to stop. Runs that do not stop are killed after `Intervals.kill` seconds."""
        for worker in self._workers:
            if worker.job is not None:
                self._log.warn("run.stopped", **worker.job.names(), how="asked", why=why)
                worker.job.stop_reason = why
                worker.job.deadline = self._clock.monotonic() + self._intervals.kill
                worker.stop(why)

    def kill(self) -> None:
        """Kill all workers. The catalog records how far their runs got."""
        for worker in self._workers:
            worker.kill()
        for worker in self._workers:
            worker.wait(self._intervals.kill)
            self._log.info("worker.end", worker=worker.number, how="killed")
        self._again = None
        self._workers.clear()
        self._over.clear()
        while not self._messages.empty():
            self._messages.get()

    def close(self) -> None:
        """Shut down idle workers and kill the others."""
        for worker in self._workers:
            if worker.job is None:
                worker.retire()
        for worker in self._workers:
            if worker.job is None and worker.wait(2.0):
                self._log.info("worker.end", worker=worker.number, how="asked")
        self._workers = [worker for worker in self._workers if worker.runs_still()]
        self.kill()

    def _spawn(self) -> _WorkerProcess:
        """Start a worker."""
        self._numbers += 1
        worker = _WorkerProcess(self._numbers, self._command, self._messages, self._clock)
        self._workers.append(worker)
        self._log.info("worker.start", worker=worker.number, pid=worker.pid)
        return worker

    def _receive(self, worker: _WorkerProcess, content: Ended | str | None) -> None:
        """Handle a message of a worker."""
        if worker not in self._workers:
            return  # the worker was killed, and its run with it
        if isinstance(content, str):
            self._log.warn("worker.says", worker=worker.number, line=content)
        elif content is not None:
            self._over.append(content)
            worker.finished(self._clock.monotonic())
        else:
            how = worker.how_it_ended()
            write = self._log.info if worker.retiring else self._log.warn
            write("worker.end", worker=worker.number, how=how)
            self._workers.remove(worker)
            if worker.job is not None:
                self._over.append(Died(worker.job.run, worker.job.killed or f"its worker {how}", worker.job.state))

    def _retire_idle(self, now: float) -> None:
        """Retire workers that have performed `_RUNS` runs, and all but one of those idle for too long."""
        idle = [worker for worker in self._workers if worker.job is None and not worker.retiring]
        for worker in idle:
            if worker.runs >= _RUNS:
                worker.retire()
        for worker in [worker for worker in idle if not worker.retiring][1:]:
            if now - worker.since > _IDLE:
                worker.retire()

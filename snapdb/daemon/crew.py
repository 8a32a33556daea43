"""Worker processes that run tasks, so many at once: started when they are needed, ended when they are not."""

from __future__ import annotations

import queue
from collections.abc import Sequence

from snapdb.daemon.clock import Clock
from snapdb.daemon.ends import Died, Finished
from snapdb.daemon.log import Log
from snapdb.daemon.pace import Pace
from snapdb.daemon.process import Job, Said, WorkerProcess
from snapdb.types import Run, Task

_IDLE = 60.0
"""Seconds that a worker beyond the first waits for another run."""
_RUNS = 500
"""After so many a worker gives way to a new one, whatever memory libraries kept to themselves."""


class Crew:
    """The lanes of a daemon (`loop.Lanes`), as processes. Only the thread that made it may use it."""

    def __init__(self, command: Sequence[str], jobs: int, clock: Clock, pace: Pace, log: Log) -> None:
        """`command` starts a worker; it reads `messages` from its stdin, and writes ends to its stdout."""
        self._command, self._jobs, self._clock, self._pace, self._log = command, jobs, clock, pace, log
        self._said: queue.SimpleQueue[Said] = queue.SimpleQueue()
        self._workers: list[WorkerProcess] = []
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
        limit = None if task.timeout is None else task.timeout / 1_000_000 + self._pace.kill
        deadline = None if limit is None else self._clock.monotonic() + limit
        try:
            worker = next((worker for worker in self._workers if worker.job is None and not worker.leaves), None)
            (worker or self._hire()).perform(Job(task, run, deadline))
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
                job.killed = f"it was stopped ({asked}) and, as it did not stop in {self._pace.kill:g} s, killed"
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
                worker.job.deadline = self._clock.monotonic() + self._pace.kill
                worker.stop(why)

    def kill(self) -> None:
        """End all workers at once. Their runs are nobody's from now on; the catalog says how far they came."""
        for worker in self._workers:
            worker.kill()
        for worker in self._workers:
            worker.wait(self._pace.kill)
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

    def _hire(self) -> WorkerProcess:
        self._numbers += 1
        worker = WorkerProcess(self._numbers, self._command, self._said, self._clock)
        self._workers.append(worker)
        self._log.info("worker.start", worker=worker.number, pid=worker.pid)
        return worker

    def _hear(self, said: Said) -> None:
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

"""One worker process, as the daemon sees it: what it does, and what it says through its pipes."""

from __future__ import annotations

import signal
import subprocess
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Literal

from snapdb.daemon.clock import Clock
from snapdb.daemon.messages import END, decode_end, encode_run, encode_stop
from snapdb.execute.run_ends import Ended
from snapdb.types import Run, Task

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
class Job:
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
class Said:
    """What was heard of a worker: a line on its stderr, how a run ended, or neither: it says nothing any more."""

    worker: WorkerProcess
    ended: Ended | None = None
    complaint: str | None = None


class WorkerProcess:
    """A process that performs runs, one at a time. What it says comes into a queue, and wakes the clock."""

    def __init__(self, number: int, command: Sequence[str], said: SimpleQueue[Said], clock: Clock) -> None:
        self.number = number
        self.job: Job | None = None
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

    def perform(self, job: Job) -> None:
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
                self._tell(Said(self, ended=ended))

    def _overhear(self) -> None:
        assert self._process.stderr is not None
        with self._process.stderr as stderr:
            for line in stderr:
                if text := line.decode(errors="replace").rstrip():
                    self._tell(Said(self, complaint=text[:_LINE]))

    def _watch(self) -> None:
        """Tell of its end when all that it said was heard; a process that it left behind may hold its pipes."""
        self._process.wait()
        for ear in self._ears:
            ear.join(_DYING)
        self._tell(Said(self))

    def _tell(self, said: Said) -> None:
        self._said.put(said)
        self._clock.wake()

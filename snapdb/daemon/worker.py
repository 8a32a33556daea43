"""A worker process, which performs runs for the scheduler: `python -m snapdb.daemon.worker DB PARENT`.

It reads runs from stdin, and writes the outcome of each run to stdout. It exits as soon as the scheduler exits. This is
safe, because finished statements are recorded and unfinished statements leave no trace.
"""

import ctypes
import gc
import json
import os
import queue
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from snapdb.execute.session import DatabaseSession
from snapdb.execute.tasks.perform import perform
from snapdb.execute.tasks.runs import Stop
from snapdb.kernels.warm import load_kernels
from snapdb.storage.catalog_db.codec import decode, encode
from snapdb.storage.catalog_db.connection import CatalogDb
from snapdb.storage.catalog_db.db_dir import check_in_place, open_db_dir
from snapdb.storage.disk import Disk
from snapdb.storage.tables.commit import now as clock
from snapdb.types import Task, TaskRun

_ORPHANED = 70
"""The exit code of a worker whose scheduler no longer exists."""
_PR_SET_PDEATHSIG = 1
"""The option of prctl that makes the kernel signal a process when its parent dies."""

_Jobs = queue.SimpleQueue[tuple[Task, TaskRun, Stop] | None]


def work(path: Path, parent: int, now: Callable[[], int] = clock) -> None:
    """Perform runs until the scheduler shuts down the worker.

    Args:
        path: The database.
        parent: The id of the scheduler's process.
        now: Returns the time in microseconds since 1970 UTC.
    """
    # A terminal signals the whole process group, but only the scheduler decides how runs end.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    _die_with(parent)
    requests, replies = _pipes()
    jobs: _Jobs = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(requests, jobs), name="snapdb-requests", daemon=True).start()
    db_dir = open_db_dir(path, read_only=False, make=False)  # never recreate a database that was moved away
    catalog_db = CatalogDb(db_dir)

    def open_session(folders: Sequence[str], disk: Disk) -> DatabaseSession:
        check_in_place(db_dir.path, catalog_db.file)
        return DatabaseSession(path, folders=folders, disk=disk)

    if jobs.empty():  # the worker was started ahead of need, so load kernels now rather than in the first run
        load_kernels()
    gc.freeze()  # imported modules are never freed, so exclude them from later collections
    while (job := jobs.get()) is not None:
        ended = encode(perform(open_session, catalog_db, *job, now=now))
        replies.write(json.dumps({"ended": ended}).encode() + b"\n")
        replies.flush()
        del job
        gc.collect()
    catalog_db.close()


def _die_with(parent: int) -> None:
    """End this process when the scheduler ends. EOF on stdin signals that too, but a run may delay its reader."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:  # the scheduler ended before prctl was called
        os._exit(_ORPHANED)


def _pipes() -> tuple[BinaryIO, BinaryIO]:
    """Reserve stdin and stdout for this module, and return them. Other code reads no input, and writes to stderr."""
    requests, replies = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    return requests, replies


def _listen(requests: BinaryIO, jobs: _Jobs) -> None:
    """Read requests, in a thread. Runs are queued, and a stop request reaches the current run immediately."""
    current = Stop()
    try:
        for line in requests:
            message = json.loads(line)
            match message["do"]:
                case "run":
                    current = Stop()
                    jobs.put((decode(Task, message["task"]), decode(TaskRun, message["run"]), current))
                case "stop":
                    current.request(message["why"])
                case _:
                    jobs.put(None)
                    return
    except Exception:
        with suppress(Exception):  # there may not be enough memory for it
            traceback.print_exc()
    # Either the scheduler no longer exists, or it waits for a run that could not be read. End this process in both
    # cases.
    os._exit(_ORPHANED)


if __name__ == "__main__":
    work(Path(sys.argv[1]), int(sys.argv[2]))
    os._exit(0)  # nothing is left to do, and libraries report spurious leaks if they end while the reading thread runs

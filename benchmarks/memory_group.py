"""A memory limit for a process and everything it reads, by a control group, which also counts page cache."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

ROOT = Path("/sys/fs/cgroup/memory")
LEAVING = 10.0
"""The maximum number of seconds until the last process has left a group."""


@dataclass(frozen=True, slots=True)
class MemoryGroup:
    """A control group of the cgroup v1 memory controller of Linux."""

    path: Path

    @property
    def prefix(self) -> list[str]:
        """The words before a command that start it in the group."""
        return ["/bin/sh", "-c", f'echo $$ > {self.path}/cgroup.procs && exec "$@"', "sh"]

    @property
    def peak(self) -> int:
        """Peak memory in bytes, including page cache."""
        return int((self.path / "memory.max_usage_in_bytes").read_text())


@contextmanager
def memory_group(limit: int) -> Iterator[MemoryGroup]:
    """Create a control group for a block.

    Its processes may together use `limit` bytes of memory, and no swap beyond that.

    Raises:
        SystemExit: The system has no such controller, or this user may not use it.
    """
    path = ROOT / f"snapdb-bench-{os.getpid()}"
    try:
        path.mkdir()
        (path / "memory.limit_in_bytes").write_text(str(limit))
    except OSError as error:
        raise SystemExit(f"no memory group at {path}: {error.strerror}; this part needs cgroup v1 and root") from error
    with suppress(OSError):  # only if the system accounts for swap
        (path / "memory.memsw.limit_in_bytes").write_text(str(limit))
    try:
        yield MemoryGroup(path)
    finally:
        _remove(path)


def forget(folder: Path) -> None:
    """Drop the files' pages from the page cache. The next process reads them from disk and is charged for them."""
    for path in folder.rglob("*"):
        if path.is_file():
            descriptor = os.open(path, os.O_RDONLY)
            try:
                os.fdatasync(descriptor)
                os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            finally:
                os.close(descriptor)


def _remove(path: Path) -> None:
    """Remove the group as soon as its last process has exited."""
    until = time.monotonic() + LEAVING
    while True:
        try:
            path.rmdir()
        except OSError:
            if time.monotonic() > until:
                raise
            time.sleep(0.1)
        else:
            return

"""A real limit of memory for a process and all that it reads: a control group, in which pages of files count too."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

ROOT = Path("/sys/fs/cgroup/memory")
LEAVING = 10.0
"""Seconds in which the last process of a group must be gone."""


@dataclass(frozen=True, slots=True)
class MemoryGroup:
    """A group of the first version of Linux's memory controller."""

    path: Path

    @property
    def prefix(self) -> list[str]:
        """Words before a command that let it run in the group from its start."""
        return ["/bin/sh", "-c", f'echo $$ > {self.path}/cgroup.procs && exec "$@"', "sh"]

    @property
    def peak(self) -> int:
        """Bytes: the most that was in use, pages of files included."""
        return int((self.path / "memory.max_usage_in_bytes").read_text())


@contextmanager
def memory_group(limit: int) -> Iterator[MemoryGroup]:
    """A group for the block whose processes may together use `limit` bytes of memory, and no swap beyond it.

    Raises:
        SystemExit: the system has no such controller, or this user may not use it.
    """
    path = ROOT / f"snapdb-bench-{os.getpid()}"
    try:
        path.mkdir()
        (path / "memory.limit_in_bytes").write_text(str(limit))
    except OSError as error:
        raise SystemExit(f"no memory group at {path}: {error.strerror}; this part needs cgroup v1 and root") from error
    with suppress(OSError):  # only where the system counts swap
        (path / "memory.memsw.limit_in_bytes").write_text(str(limit))
    try:
        yield MemoryGroup(path)
    finally:
        _remove(path)


def forget(folder: Path) -> None:
    """Drops the files' pages from memory, so that who reads them next reads the disk and is charged for it."""
    for path in folder.rglob("*"):
        if path.is_file():
            descriptor = os.open(path, os.O_RDONLY)
            try:
                os.fdatasync(descriptor)
                os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            finally:
                os.close(descriptor)


def _remove(path: Path) -> None:
    """A group goes when its last process has gone."""
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

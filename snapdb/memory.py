"""The memory that this process may use, within the limits of the machine and of its control groups."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import NamedTuple

_GROUPS = Path("/sys/fs/cgroup")
"""The mount point of Linux's control groups."""


class _Files(NamedTuple):
    """The file names of one control group version, and the memory.stat entries whose memory the kernel can reclaim."""

    limit: str
    used: str
    forgettable: tuple[str, ...]


class _GroupMemory(NamedTuple):
    """The memory of a control group, in bytes."""

    limit: int
    free: int
    """The memory that the group's processes can still allocate, including the page cache."""


_FIRST = _Files("memory.limit_in_bytes", "memory.usage_in_bytes", ("total_active_file", "total_inactive_file"))
_SECOND = _Files("memory.max", "memory.current", ("active_file", "inactive_file"))


def available_memory() -> int:
    """Return the bytes of memory available to this process within its control groups' limits, including the page cache.

    >>> available_memory() > 0
    True
    """
    return min([_of_machine(), *(group.free for group in _of_groups())])


def _of_machine() -> int:
    """Return MemAvailable on Linux, and the total physical memory on other systems."""
    with suppress(OSError):
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return 1024 * int(line.split()[1])
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def usable_memory() -> int:
    """Return the bytes of memory that this process can use at most: the limit of a control group, or all of it.

    >>> usable_memory() >= available_memory()
    True
    """
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min([machine, *(group.limit for group in _of_groups())])


def memory_limit() -> int | None:
    """Return the smallest memory limit, in bytes, of this process's control groups, or None if no group has a limit."""
    return min((group.limit for group in _of_groups()), default=None)


def _of_groups() -> Iterator[_GroupMemory]:
    """Yield the limit and free bytes of each control group with a limit, from this process's group up to the root."""
    try:
        lines = Path("/proc/self/cgroup").read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if "memory" in controllers.split(","):
            yield from _of_branch(_GROUPS / "memory", path, _FIRST)
        elif not controllers:
            yield from _of_branch(_GROUPS, path, _SECOND)


def _of_branch(root: Path, path: str, files: _Files) -> Iterator[_GroupMemory]:
    """Yield the limit and the free bytes of a group and its parents.

    A container may see its own group as the root, so some parents may be missing.
    """
    inside = PurePosixPath(path)
    for place in (inside, *inside.parents):
        group = root / place.relative_to("/")
        with suppress(OSError, ValueError):  # the group does not exist here, or its limit is "max"
            limit, used = (int((group / name).read_text()) for name in files[:2])
            facts = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
            # File pages count as free because the kernel drops them before it kills a process.
            forgettable = sum(int(facts.get(name, 0)) for name in files.forgettable)
            yield _GroupMemory(limit, max(0, limit - used + forgettable))

"""How much memory this process may still take: of the machine's, and of the control groups that it is in."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import NamedTuple

_GROUPS = Path("/sys/fs/cgroup")


class _Files(NamedTuple):
    """What a version of control groups calls its files, and the memory that it can get back by forgetting pages."""

    limit: str
    used: str
    forgettable: tuple[str, ...]


_FIRST = _Files("memory.limit_in_bytes", "memory.usage_in_bytes", ("total_active_file", "total_inactive_file"))
_SECOND = _Files("memory.max", "memory.current", ("active_file", "inactive_file"))


def available_memory() -> int:
    """Bytes that can be taken, pages of files included that the system would forget for them.

    >>> available_memory() > 0
    True
    """
    return min([_of_machine(), *_of_groups()])


def _of_machine() -> int:
    """Linux tells what it could give; elsewhere it is all that is there."""
    with suppress(OSError):
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return 1024 * int(line.split()[1])
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _of_groups() -> Iterator[int]:
    """What each group with a limit has left, from this process's own up to the root."""
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


def _of_branch(root: Path, path: str, files: _Files) -> Iterator[int]:
    """A container may see its own group as the root, whatever the path says: groups that are not there are passed."""
    inside = PurePosixPath(path)
    for place in (inside, *inside.parents):
        group = root / place.relative_to("/")
        with suppress(OSError, ValueError):  # not there, or no limit: "max"
            limit, used = (int((group / name).read_text()) for name in files[:2])
            facts = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
            yield max(0, limit - used + sum(int(facts.get(name, 0)) for name in files.forgettable))

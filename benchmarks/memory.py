"""The peak memory of a process and its descendants, measured from another process."""

from __future__ import annotations

import threading
from pathlib import Path

EVERY = 0.2
"""Seconds between samples. Summing proportional set sizes walks page tables, so frequent samples would slow the
measured process."""


class TreeMemory:
    """Samples the memory of a process and its descendants within a block."""

    pss = 0
    """The highest sampled sum of the processes' proportional set sizes, in bytes."""
    rss = 0
    """The sum of the processes' peak resident memory in bytes, including mapped files. For a single process, it is
    exact up to the last sample."""

    def __init__(self, pid: int, every: float = EVERY) -> None:
        self._pid = pid
        self._every = every
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> TreeMemory:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._stop.wait(self._every):
            tree = _tree(self._pid)
            self.pss = max(self.pss, sum(_bytes(pid, "smaps_rollup", "Pss:") for pid in tree))
            self.rss = max(self.rss, sum(_bytes(pid, "status", "VmHWM:") for pid in tree))


def _tree(pid: int) -> list[int]:
    """Return the process and its descendants, without processes that exit in the meantime."""
    try:
        threads = [path.read_text().split() for path in Path(f"/proc/{pid}/task").glob("*/children")]
    except OSError:
        return []
    return [pid, *(below for children in threads for child in children for below in _tree(int(child)))]


def _bytes(pid: int, file: str, label: str) -> int:
    """Return the number of bytes on the line that starts with the label, or 0 if the process has exited."""
    try:
        lines = Path(f"/proc/{pid}/{file}").read_text().splitlines()
    except OSError:
        return 0
    return next((1024 * int(line.split()[1]) for line in lines if line.startswith(label)), 0)

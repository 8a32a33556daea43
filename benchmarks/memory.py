"""Peak memory of a process and all below it, watched from outside."""

from __future__ import annotations

import threading
from pathlib import Path

EVERY = 0.2
"""Seconds between looks. Adding up proportional shares walks page tables, which often would slow what is measured."""


class TreeMemory:
    """Watches a process and those it starts while a block runs."""

    pss = 0
    """Bytes: the processes' proportional shares together, at their highest look."""
    rss = 0
    """Bytes: the processes' own peaks together, mapped files included; for one process exact but for its last look."""

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
    """The process and all below it; those that end meanwhile are left out."""
    try:
        threads = [path.read_text().split() for path in Path(f"/proc/{pid}/task").glob("*/children")]
    except OSError:
        return []
    return [pid, *(below for children in threads for child in children for below in _tree(int(child)))]


def _bytes(pid: int, file: str, label: str) -> int:
    """The line that the label starts; 0 when the process is gone."""
    try:
        lines = Path(f"/proc/{pid}/{file}").read_text().splitlines()
    except OSError:
        return 0
    return next((1024 * int(line.split()[1]) for line in lines if line.startswith(label)), 0)

"""Waiting for events in tests. Every wait has a timeout, which is a safety net and not an expectation of speed."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

PATIENCE = 600.0
"""The timeout in seconds, which is sufficient on the slowest machine."""

T = TypeVar("T")


def until(true: Callable[[], T]) -> T:
    """Call the function until its result is true, and return the result."""
    end = time.monotonic() + PATIENCE
    while not (result := true()):
        assert time.monotonic() < end, "what was waited for did not come"
        time.sleep(0.01)
    return result


@contextmanager
def spawned(*command: str, **options: Any) -> Iterator[subprocess.Popen[str]]:
    """Run a Python process with pipes for a block. The process is killed if the block fails."""
    pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True} | options
    with subprocess.Popen([sys.executable, *command], **pipes) as process:
        try:
            yield process
            process.wait(PATIENCE)
        finally:
            process.kill()


@contextmanager
def interrupting(interrupt: Callable[[], None]) -> Iterator[None]:
    """Interrupt the block repeatedly, because an interrupt has no effect on work that has not begun yet."""
    over = threading.Event()

    def press() -> None:
        while not over.wait(0.05):
            interrupt()

    pressing = threading.Thread(target=press)
    pressing.start()
    try:
        yield
    finally:
        over.set()
        pressing.join(PATIENCE)

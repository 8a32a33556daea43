"""How tests wait: for events. Every wait has an end, which is a safety net and never an expectation of speed."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

PATIENCE = 600.0
"""Seconds after which what a test waits for is not coming, on a machine however busy."""

T = TypeVar("T")


def until(true: Callable[[], T]) -> T:
    """What the function returns, as soon as that is something."""
    end = time.monotonic() + PATIENCE
    while not (result := true()):
        assert time.monotonic() < end, "what was waited for did not come"
        time.sleep(0.01)
    return result


@contextmanager
def spawned(*command: str, **options: Any) -> Iterator[subprocess.Popen[str]]:
    """A Python process with pipes, which has ended when the block has: by itself, or killed where the block fails."""
    pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True} | options
    with subprocess.Popen([sys.executable, *command], **pipes) as process:
        try:
            yield process
            process.wait(PATIENCE)
        finally:
            process.kill()


@contextmanager
def interrupting(interrupt: Callable[[], None]) -> Iterator[None]:
    """Interrupt what runs in the block again and again: what has not begun yet does not listen."""
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

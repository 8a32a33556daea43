"""SIGTERM and SIGHUP end the program as if it ended itself: what is open is rolled back, what is temporary removed."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType

_ENDING = (signal.SIGTERM, signal.SIGHUP)


class Terminated(SystemExit):
    """The process was asked to end; the code is that of a shell, 128 and the signal's number."""


@contextlib.contextmanager
def terminable() -> Iterator[None]:
    """Raise Terminated at the first SIGTERM or SIGHUP inside the block; who ignores them, as nohup does, goes on so.

    Later ones change nothing, for a supervisor may send a signal to the process and to its group.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    ended = threading.Event()

    def handle(number: int, frame: FrameType | None) -> None:
        if not ended.is_set():
            ended.set()
            raise Terminated(128 + number)

    default = [number for number in _ENDING if signal.getsignal(number) is signal.SIG_DFL]
    for number in default:
        signal.signal(number, handle)
    try:
        yield
    finally:
        for number in default:
            signal.signal(number, signal.SIG_DFL)

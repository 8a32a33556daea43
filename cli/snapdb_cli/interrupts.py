"""SIGTERM and SIGHUP end the program as if it ended itself: what is open is rolled back, what is temporary removed."""

from __future__ import annotations

import contextlib
import signal
import sys
import threading
from collections.abc import Iterator
from types import FrameType

_ENDING = (signal.SIGTERM, signal.SIGHUP)
_AGAIN = 0.05
"""Seconds until a signal is sent again that a finalizer swallowed."""


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

    unraisable = sys.unraisablehook

    def send_again(swallowed: sys.UnraisableHookArgs) -> None:
        # Python drops what a handler raises where it happens to run in a finalizer or a weak reference's callback.
        if isinstance(swallowed.exc_value, Terminated):
            number = int(str(swallowed.exc_value)) - 128
            ended.clear()
            threading.Timer(_AGAIN, signal.pthread_kill, (threading.main_thread().ident, number)).start()
        else:
            unraisable(swallowed)

    default = [number for number in _ENDING if signal.getsignal(number) is signal.SIG_DFL]
    for number in default:
        signal.signal(number, handle)
    sys.unraisablehook = send_again
    try:
        yield
    finally:
        sys.unraisablehook = unraisable
        for number in default:
            signal.signal(number, signal.SIG_DFL)

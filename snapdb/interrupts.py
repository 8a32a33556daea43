"""Lets Ctrl-C stop the running statement, even while the main thread executes native code."""

import contextlib
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from types import FrameType

_ENDING = (signal.SIGTERM, signal.SIGHUP)
_AGAIN = 0.1
"""The number of seconds between two requests to stop."""
_STOPPING = frozenset({signal.SIGINT, *_ENDING})


@contextlib.contextmanager
def interruptible(stop: Callable[[], None]) -> Iterator[threading.Event]:
    """Call `stop` and set the yielded event when Ctrl-C is pressed inside the block.

    Python runs its signal handlers only between bytecode instructions, but a kernel or a query can run for minutes
    without returning to the interpreter. A thread therefore reads the wake-up socket, to which the C-level handler
    writes immediately. A second Ctrl-C raises KeyboardInterrupt as usual.

    If SIGTERM and SIGHUP have handlers, these signals also call `stop`, and their handlers run after the block, because
    native code may swallow the exceptions that they raise. Outside the main thread the function has no effect.
    """
    pressed = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield pressed
        return

    def handle(number: int, frame: FrameType | None) -> None:
        if pressed.is_set():
            raise KeyboardInterrupt
        pressed.set()

    waiting: list[int] = []
    handlers = {signal.SIGINT: handle}
    handlers |= {n: lambda number, frame: waiting.append(number) for n in _ENDING if callable(signal.getsignal(n))}
    listening, waking = socket.socketpair()
    waking.setblocking(False)
    watcher = threading.Thread(target=_watch, args=(listening, stop), name="snapdb-interrupts", daemon=True)
    watcher.start()
    wakes_before = signal.set_wakeup_fd(waking.fileno(), warn_on_full_buffer=False)
    handled_before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    try:
        yield pressed
    finally:
        for number, handler in handled_before.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(wakes_before)
        waking.close()
        watcher.join(timeout=1)
        listening.close()
        for ending in waiting[:1]:
            signal.raise_signal(ending)


def _watch(listening: socket.socket, stop: Callable[[], None]) -> None:
    """Call `stop` on a signal, repeatedly until the block ends, because a statement that has not begun misses it."""
    while True:
        try:
            numbers = listening.recv(64)
        except TimeoutError:
            numbers = bytes(_STOPPING)
        if not numbers:
            return
        if _STOPPING.intersection(numbers):
            listening.settimeout(_AGAIN)
            with contextlib.suppress(Exception):  # the statement may have just ended
                stop()

"""Diagnostics on stderr and exit codes: progress messages, errors, and the signals that terminate the program."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import traceback
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum
from types import FrameType
from typing import TextIO

from snapdb.errors import DataWarning, SnapdbError

_ENDING = (signal.SIGTERM, signal.SIGHUP)
_AGAIN = 0.05
"""The number of seconds after which a signal that a finalizer swallowed is sent again."""


class Terminated(SystemExit):
    """A signal terminated the process. The exit code is 128 plus the signal number, as in a shell."""


@contextlib.contextmanager
def terminable() -> Iterator[None]:
    """Raise Terminated at the first SIGTERM or SIGHUP in the block. Ignored signals, as under nohup, remain ignored.

    Later signals have no effect, because a supervisor may signal both the process and its group.
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
        # Python discards an exception from a signal handler that runs in a finalizer or in a weak-reference callback.
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


# Messages and exit codes.


class ExitCode(IntEnum):
    """The exit codes of the process."""

    OK = 0
    FAILED = 1
    """A statement failed."""
    USAGE = 2
    """The command line is invalid. click exits with this code."""
    RETRYABLE = 3
    """A lock was held or another writer committed first, so the same command may succeed later."""
    INTERRUPTED = 130
    PIPE_CLOSED = 141
    """The reader of stdout closed it, as `head` does. The remaining statements did not run."""


_RANKS = (ExitCode.OK, ExitCode.RETRYABLE, ExitCode.FAILED, ExitCode.INTERRUPTED)


def worse(first: ExitCode, second: ExitCode) -> ExitCode:
    """Return the worse of two exit codes. A script returns RETRYABLE only if nothing else failed.

    >>> worse(ExitCode.RETRYABLE, ExitCode.FAILED).name
    'FAILED'
    """
    return max(first, second, key=_RANKS.index)


class Diagnostics:
    """Progress messages and errors on stderr."""

    def __init__(self, *, quiet: bool = False, stream: TextIO | None = None) -> None:
        self.stream = sys.stderr if stream is None else stream
        self.quiet = quiet
        self.terminal = self.stream.isatty()

    @property
    def narrates(self) -> bool:
        """Whether stderr is a terminal and messages are enabled."""
        return self.terminal and not self.quiet

    def narrate(self, text: str) -> None:
        """Write a line if stderr is a terminal and messages are enabled."""
        if self.narrates:
            self.say(text)

    def announce(self, text: str) -> None:
        """Write a line unless quiet, even if stderr is not a terminal."""
        if not self.quiet:
            self.say(text)

    def say(self, text: str) -> None:
        """Write a line to stderr. Characters that are not in its encoding are escaped."""
        try:
            print(text, file=self.stream, flush=True)
        except UnicodeEncodeError:
            plain = text.encode("ascii", "backslashreplace").decode("ascii")
            print(plain, file=self.stream, flush=True)

    @contextmanager
    def hears_warnings(self) -> Iterator[None]:
        """Write warnings raised in the block, in any thread, as lines without their source location."""
        with warnings.catch_warnings():
            warnings.simplefilter("always", DataWarning)  # several statements may issue the same warning
            warnings.showwarning = lambda message, *_: self.say(f"warning: {message}")
            yield

    def report(self, error: BaseException, origin: str | None = None) -> ExitCode:
        """Write an error, with a traceback only if SNAPDB_TRACEBACK is set, and return the exit code.

        Args:
            error: The exception.
            origin: The file whose statements were running, or None.
        """
        code, text = _verdict(error)
        self.say(f"{text}\n  in {origin}" if origin is not None and code is not ExitCode.INTERRUPTED else text)
        if os.environ.get("SNAPDB_TRACEBACK"):
            self.say("".join(traceback.format_exception(error)).rstrip())
        return code


def _verdict(error: BaseException) -> tuple[ExitCode, str]:
    match error:
        case KeyboardInterrupt() | SnapdbError(code="interrupted"):
            return ExitCode.INTERRUPTED, "interrupted"
        case SnapdbError():
            return ExitCode.RETRYABLE if error.retryable else ExitCode.FAILED, error.report()
        case OSError(strerror=str(reason)):
            place = "" if error.filename is None else f": {os.fspath(error.filename)}"
            return ExitCode.FAILED, f"{type(error).__name__}: {reason}{place}"
        case _:
            detail = " ".join(f"{type(error).__name__}: {error}".split()).removesuffix(":")
            return ExitCode.FAILED, f"internal error: {detail} (set SNAPDB_TRACEBACK=1 for the traceback)"

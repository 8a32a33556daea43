"""The terminal: a pager for long results, and a progress line on stderr for operations longer than a second."""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self, TextIO

from snapdb.on_first_use import module_on_first_use
from snapdb_cli.diagnostics import Diagnostics

if TYPE_CHECKING:
    from rich import console, progress
else:
    console = module_on_first_use("rich.console")
    progress = module_on_first_use("rich.progress")  # only operations longer than a second show their progress

_LESS = "SRXF"
"""Options for less: truncate long lines and scroll sideways, keep colours, do not clear the screen, and exit if
everything fits on one screen."""
_SIDEWAYS = "-S -+F"
"""Options for less if a result is wider than the screen, appended to the user's own options."""


class PagerClosed(Exception):  # noqa: N818  # a request, not an error
    """The user closed the pager before the end of a result."""


def _pager_command(setting: str) -> str | None:
    """Return the pager command for a value of `\\pager`, or None for no pager.

    `auto` means $PAGER, or less if it is installed. A dumb terminal has no pager.
    """
    if setting == "off" or (setting == "auto" and os.environ.get("TERM", "dumb") == "dumb"):
        return None
    if setting not in ("on", "auto"):
        return setting
    chosen = os.environ.get("PAGER", "").strip()
    return chosen or ("less" if shutil.which("less") else "more" if setting == "on" and shutil.which("more") else None)


class Pager(io.TextIOBase):
    """A stdout that starts a pager once a result exceeds the terminal height.

    A result ends with `flush`, which waits for the pager.
    """

    def __init__(self, stream: TextIO | None = None, *, setting: str = "auto") -> None:
        self._stream = sys.stdout if stream is None else stream
        self.setting = setting
        """`auto`, `on`, `off` or a command."""
        self.waited = 0.0
        """The number of seconds this process has waited for a pager or another program."""
        self._wide = False
        self._held: list[str] = []
        self._lines = 0
        self._program: subprocess.Popen[str] | None = None
        self._piped = False

    @property
    def encoding(self) -> str:  # type: ignore[override]
        """The encoding of the terminal."""
        return "utf-8" if self._piped else self._stream.encoding or "ascii"

    def isatty(self) -> bool:
        """Return whether the stream is a terminal."""
        return not self._piped and self._stream.isatty()

    def pipe(self, command: str | None) -> None:
        """Pipe further output to a program. If `command` is None, wait for the program and return to the screen."""
        self._end()
        self._piped = command is not None
        if command is not None:
            self._start(command)

    def takes_wide(self, lines: int) -> bool:
        """Return whether the next result, of `lines` lines, may be wider than the screen. Only `less` scrolls sideways.

        `less` shows the result if it is also longer than the screen, or if the setting is `on`.
        """
        command = (self._pages() or "").split()
        self._wide = bool(command) and Path(command[0]).name == "less"
        self._wide &= self.setting == "on" or lines >= shutil.get_terminal_size().lines
        return self._wide

    def write(self, text: str) -> int:
        """Buffer the text while it may still fit on the screen, and otherwise pass it on.

        Raises:
            PagerClosed: The user closed the pager.
        """
        if self._program is None and (command := self._pages()) is not None:
            self._held.append(text)
            self._lines += text.count("\n")
            if self._lines < shutil.get_terminal_size().lines and not self._wide:
                return len(text)
            text = "".join(self._held)
            self._held = []
            self._start(command)
        self._pass(text)
        return len(text)

    def flush(self) -> None:
        """End a result: show the buffered text, or wait until the pager is closed."""
        if self._piped:
            self._pass("")
            return
        held, self._held, self._lines, self._wide = "".join(self._held), [], 0, False
        self._end()
        self._stream.write(held)
        self._stream.flush()

    def drop(self) -> None:
        """Discard the buffered text of an incomplete result."""
        self._held, self._lines, self._wide = [], 0, False
        if not self._piped:
            self._end()

    def _pages(self) -> str | None:
        return _pager_command(self.setting) if self.isatty() and sys.stdin.isatty() else None

    def _start(self, command: str) -> None:
        environment = {"LESS": _LESS, "LV": "-c", **os.environ}
        if self._wide:
            environment["LESS"] += f" {_SIDEWAYS}"
        self._program = subprocess.Popen(  # noqa: S602  # a shell command, like $PAGER and |
            command,
            shell=True,
            stdin=subprocess.PIPE,
            text=True,
            encoding=self.encoding,
            errors="replace",
            env=environment,
        )

    def _pass(self, text: str) -> None:
        if self._program is None:
            self._stream.write(text)
            return
        assert self._program.stdin is not None
        try:
            with self._waiting():
                self._program.stdin.write(text)
                if self._piped:
                    self._program.stdin.flush()
        except BrokenPipeError:
            self._end()
            raise PagerClosed from None

    def _end(self) -> None:
        """Close the program's input and wait for it to exit. Meanwhile only the program handles Ctrl-C."""
        program, self._program, self._piped = self._program, None, False
        if program is None:
            return
        assert program.stdin is not None
        with self._waiting(), _deaf(), contextlib.suppress(BrokenPipeError):
            try:
                program.stdin.close()
            finally:
                program.wait()

    @contextlib.contextmanager
    def _waiting(self) -> Iterator[None]:
        started = time.perf_counter()
        try:
            yield
        finally:
            self.waited += time.perf_counter() - started


@contextlib.contextmanager
def _deaf() -> Iterator[None]:
    """Ignore Ctrl-C during the block."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


class Progress:
    """Shows the progress of long operations, only on a terminal, from one second after the start until `stop`."""

    def __init__(self, diagnostics: Diagnostics, title: str, *, delay: float = 1.0) -> None:
        self._stream = diagnostics.stream if diagnostics.narrates else None
        self._lock = threading.Lock()
        self._timer = threading.Timer(delay, self._show)
        self._timer.daemon = True
        self._bar: progress.Progress | None = None
        self._stopped = False
        self._state: tuple[str, float | None] = (title, None)

    def __enter__(self) -> Self:
        if self._stream is not None:
            self._timer.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.stop()

    def update(self, what: str, fraction: float | None) -> None:
        """Show the current step and its completed fraction (0 to 1, or None if unknown), for `Database.progress`."""
        with self._lock:
            self._state = (what, fraction)
            self._draw()

    def stop(self) -> None:
        """Remove the line permanently, because the operation is complete or its output begins."""
        self._timer.cancel()
        with self._lock:
            self._stopped = True
            if self._bar is not None:
                self._bar.stop()
                self._bar = None

    def _show(self) -> None:
        with self._lock:
            if self._stopped or self._stream is None:
                return
            self._bar = progress.Progress(
                progress.SpinnerColumn("line"),
                progress.TextColumn("{task.description}", markup=False),
                progress.BarColumn(bar_width=30),
                progress.TaskProgressColumn(),
                progress.TimeElapsedColumn(),
                console=console.Console(file=self._stream),
                transient=True,
                redirect_stdout=False,
                redirect_stderr=False,
            )
            self._bar.add_task("", total=None)
            self._draw()
            self._bar.start()

    def _draw(self) -> None:
        if self._bar is not None:
            what, fraction = self._state
            total = None if fraction is None else 1.0
            self._bar.update(self._bar.task_ids[0], description=what, completed=fraction or 0.0, total=total)

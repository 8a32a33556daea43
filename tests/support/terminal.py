"""A terminal for tests: the program runs in a pseudo-terminal, and its output is rendered to a screen."""

from __future__ import annotations

import os
import re
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import pexpect
import pyte

from tests.support.waiting import PATIENCE


def environment(folder: Path, **changes: str) -> dict[str, str]:
    """Return environment variables with which the program does not access anything outside the folder."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if name not in ("NO_COLOR", "PAGER", "LESS", "VISUAL", "EDITOR", "COLUMNS", "LINES")
    }
    ours = {
        "HOME": str(folder),
        "XDG_STATE_HOME": str(folder / "state"),
        "XDG_CONFIG_HOME": str(folder / "config"),
        "TERM": "xterm",
        "PAGER": "cat",
        "LANG": "C.UTF-8",
        "LC_ALL": "C.UTF-8",
    }
    kept.pop("SNAPDB_CONFIG", None)
    return {**kept, **ours, **changes}


class _Screen(pyte.HistoryScreen):  # pyte has no types
    """A screen that reports its cursor position, as terminals do."""

    terminal: Terminal

    def write_process_input(self, data: str) -> None:
        self.terminal.send(data)


class Terminal:
    """`snapdb` running in a terminal."""

    def __init__(
        self, arguments: Sequence[str], variables: Mapping[str, str], folder: Path, *, rows: int = 24, columns: int = 80
    ) -> None:
        self.process: Any = pexpect.spawn(
            sys.executable,
            ["-m", "snapdb_cli", *arguments],
            env=dict(variables),
            cwd=str(folder),
            dimensions=(rows, columns),
            timeout=PATIENCE,
        )
        self.process.delaybeforesend = None
        self._screen = _Screen(columns, rows, history=5000, ratio=0.5)
        self._screen.terminal = self
        self._stream = pyte.ByteStream(self._screen)
        self.raw = b""
        """The whole output, including control codes."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        if self.process.isalive():
            self.process.kill(signal.SIGKILL)
            self.process.wait()
        self.process.close()

    def send(self, keys: str) -> None:
        """Press keys."""
        self.process.send(keys)

    def line(self, text: str) -> None:
        """Wait for a prompt and type a line."""
        self.ready()
        self.send(text + "\r")

    @property
    def text(self) -> str:
        """The content of the screen without trailing blanks."""
        return "\n".join(line.rstrip() for line in self._screen.display).rstrip()

    @property
    def transcript(self) -> str:
        """The scrollback and the content of the screen."""
        size = self._screen.columns
        top = ["".join(line[x].data for x in range(size)).rstrip() for line in self._screen.history.top]
        return "\n".join([*top, self.text])

    def expect(self, pattern: str) -> re.Match[str]:
        """Wait until a pattern appears on the screen or in the scrollback."""
        return self._until(lambda: re.search(pattern, self.transcript), f"{pattern!r} to appear")

    def ready(self, prompt: str = r"snapdb[*!]?> ?") -> None:
        """Wait until the cursor is at an empty prompt."""

        def there() -> re.Match[str] | None:
            cursor = self._screen.cursor
            before = self._screen.display[cursor.y][: cursor.x]
            return re.fullmatch(prompt, before)

        self._until(there, "a prompt")

    def run(self, text: str) -> None:
        """Type a line at a prompt, and wait for the next prompt."""
        self.ready()
        before = self._prompts()
        self.send(text + "\r")
        self._until(lambda: True if self._prompts() > before else None, "the next prompt")
        self.ready()

    def _prompts(self) -> int:
        return len(re.findall(r"^snapdb[*!]?>", self.transcript, re.MULTILINE))

    def forget(self) -> None:
        """Clear the screen and the scrollback at an empty prompt.

        The program itself clears the screen (Ctrl-L). If the screen were reset while output is pending, the program's
        cursor position would be wrong.
        """
        self.ready()
        self.send("\f")
        self._until(lambda: True if self._screen.cursor.y == 0 else None, "a clear screen")
        self.ready()
        self._screen.history.top.clear()

    def end(self) -> int:
        """Wait until the program exits, and return its exit code."""
        deadline = time.monotonic() + PATIENCE
        while self._read():
            if time.monotonic() > deadline:
                raise AssertionError(f"waited in vain for the end; the screen was\n{self.transcript}")
        self.process.wait()
        return int(self.process.exitstatus if self.process.exitstatus is not None else -self.process.signalstatus)

    def _until(self, there: Any, what: str) -> Any:
        deadline = time.monotonic() + PATIENCE
        while (found := there()) is None:
            if not self._read() or time.monotonic() > deadline:
                raise AssertionError(f"waited in vain for {what}; the screen was\n{self.transcript}")
        return found

    def _read(self) -> bool:
        """Read the program's output. Returns False if the program has exited."""
        try:
            data = self.process.read_nonblocking(65536, timeout=0.5)
        except pexpect.TIMEOUT:
            return True
        except pexpect.EOF:
            return False
        self.raw += data
        self._stream.feed(data)
        return True

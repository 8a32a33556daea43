"""What was typed, kept between sessions: several prompts may write at once, and each entry stays whole."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path

from prompt_toolkit.history import FileHistory, History, InMemoryHistory


def history_file() -> Path:
    """Where what was typed is kept."""
    state = os.environ.get("XDG_STATE_HOME")
    return (Path(state) if state else Path.home() / ".local" / "state") / "snapdb" / "history"


def history() -> History:
    """The file when it can be written, else only this session's memory."""
    try:
        path = history_file()
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        os.close(os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600))  # what people type may be private
    except (OSError, RuntimeError):  # RuntimeError: there is no home
        return InMemoryHistory()
    return _Shared(path)


class _Shared(FileHistory):
    """The file, which grows by whole entries."""

    def append_string(self, string: str) -> None:
        """Keep an entry unless it is the last one again."""
        newest = next(iter(self.get_strings()[-1:]), None)
        if string.strip() and string != newest:
            super().append_string(string)

    def store_string(self, string: str) -> None:
        """Add an entry with one write, so that no other session's comes between its lines."""
        entry = f"\n# {datetime.now()}\n" + "".join(f"+{line}\n" for line in string.split("\n"))
        with contextlib.suppress(OSError):  # a full disk must not end the session
            file = os.open(self.filename, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
            try:
                os.write(file, entry.encode("utf-8", "replace"))
            finally:
                os.close(file)

    def load_history_strings(self) -> Iterable[str]:
        """The entries, the newest first."""
        with contextlib.suppress(OSError):
            return list(super().load_history_strings())
        return []

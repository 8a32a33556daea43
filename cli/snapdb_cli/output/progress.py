"""A progress line on stderr for work that takes longer than a second."""

from __future__ import annotations

import threading
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, SpinnerColumn, TaskProgressColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar

from snapdb_cli.diagnostics import Diagnostics


class Progress:
    """Shows what long work reports, on a terminal only, from a second after entering until `stop`."""

    def __init__(self, diagnostics: Diagnostics, title: str, *, delay: float = 1.0) -> None:
        self._console = Console(file=diagnostics.stream) if diagnostics.narrates else None
        self._lock = threading.Lock()
        self._timer = threading.Timer(delay, self._show)
        self._timer.daemon = True
        self._bar: Bar | None = None
        self._stopped = False
        self._state: tuple[str, float | None] = (title, None)

    def __enter__(self) -> Self:
        if self._console is not None:
            self._timer.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.stop()

    def update(self, what: str, fraction: float | None) -> None:
        """Show what is being done and its fraction (0 to 1, None: unknown); for `Database.progress`."""
        with self._lock:
            self._state = (what, fraction)
            self._draw()

    def stop(self) -> None:
        """Remove the line for good, because the work is done or its output begins."""
        self._timer.cancel()
        with self._lock:
            self._stopped = True
            if self._bar is not None:
                self._bar.stop()
                self._bar = None

    def _show(self) -> None:
        with self._lock:
            if self._stopped or self._console is None:
                return
            self._bar = Bar(
                SpinnerColumn("line"),
                TextColumn("{task.description}", markup=False),
                BarColumn(bar_width=30),
                TaskProgressColumn(),
                TimeElapsedColumn(),
                console=self._console,
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

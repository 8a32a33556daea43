"""Runs statements and shows their results, for both scripts and the prompt."""

import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from typing import Protocol

import pyarrow as pa

from snapdb.catalog.vocabulary import Vocabulary
from snapdb.database import Database
from snapdb.errors import SnapdbError
from snapdb.interrupts import interruptible
from snapdb.sql.queries import Value
from snapdb.sql.syntax import Statement

from .diagnostics import Diagnostics, ExitCode, worse
from .output import Output
from .scripts import ScriptStep, steps
from .terminal import PagerClosed, Progress


class _Front(Protocol):
    """The prompt, which asks the user to confirm statements."""

    def confirm(self, statement: Statement) -> bool:
        """Return whether a typed statement should run. Statements from files do not require confirmation."""

    def abandon(self) -> None:
        """Discard the output of a result that ended before its last row."""


class Shell:
    """An open database, the output for its results, and the diagnostics."""

    def __init__(
        self,
        database: Database,
        output: Output,
        diagnostics: Diagnostics,
        *,
        keep_going: bool = False,
        parameters: Mapping[str, Value] | None = None,
        front: _Front | None = None,
    ) -> None:
        self.database = database
        self.output = output
        self.diagnostics = diagnostics
        self.keep_going = keep_going
        """Whether to continue after a failed statement."""
        self.parameters = parameters
        """The values of the `$name` parameters of the statements."""
        self.timing = False
        """Whether to report the duration of each statement."""
        self._front = front

    def execute(self, text: str, origin: str | None = None) -> ExitCode:
        """Run the statements of a text, or none of them if one is not valid, unless `keep_going` is set."""
        parsed, code = steps([(text, origin)], self.diagnostics, keep_going=self.keep_going)
        return worse(code, self.run(parsed))

    def run(self, parsed: Sequence[ScriptStep]) -> ExitCode:
        """Run statements in order, up to the first failure unless `keep_going` is set. Returns the worst exit code."""
        worst = ExitCode.OK
        for step in parsed:
            code = self._run_one(step)
            worst = worse(worst, code)
            if code is ExitCode.INTERRUPTED or (code is not ExitCode.OK and not self.keep_going):
                break
        return worst

    def names(self) -> Vocabulary | None:
        """Return the names in the database by kind, or None if they cannot be read."""
        try:
            return self.database.names()
        except SnapdbError:
            return None

    def _run_one(self, step: ScriptStep) -> ExitCode:
        if self._front is not None and step.origin is None and not self._front.confirm(step.statement):
            self.diagnostics.say("cancelled; nothing was changed")
            return ExitCode.FAILED
        started, waited = time.perf_counter(), self.output.waited
        try:
            with interruptible(self.database.interrupt) as pressed:
                self._show(step, pressed)
            if pressed.is_set():  # too late to stop this statement, but the next statement must not start
                raise KeyboardInterrupt
        except PagerClosed:
            self._abandon()
            return ExitCode.OK  # the user closed the pager
        except BrokenPipeError:  # the reader of stdout closed it, and `main` ends the process
            raise
        except (Exception, KeyboardInterrupt) as error:  # any error is reported
            self._abandon()
            return self.diagnostics.report(error, step.origin)
        if self.timing:
            paused = self.output.waited - waited  # the time that the user spent reading
            self.diagnostics.say(f"Time: {time.perf_counter() - started - paused:.3f} s")
        return ExitCode.OK

    def _abandon(self) -> None:
        if self._front is not None:
            self._front.abandon()

    def _show(self, step: ScriptStep, pressed: threading.Event) -> None:
        with Progress(self.diagnostics, _headline(step.statement.text)) as progress:
            self.database.progress = progress.update
            try:
                with closing(self.database.run(step.statement, self.parameters)) as result:
                    if result.is_query:
                        self.output.write(
                            result.schema, _until(pressed, result), progress.stop, turn=_summarizes(step.statement)
                        )
            finally:
                self.database.progress = None
        if result.message:
            self.diagnostics.narrate(result.message)


def _until(pressed: threading.Event, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        if pressed.is_set():
            raise KeyboardInterrupt
        yield batch


def _summarizes(statement: Statement) -> bool:
    """Return whether a statement is SUMMARIZE (snapdb's or DuckDB's), whose result has few rows and many columns."""
    return statement.text.lstrip()[:9].upper() == "SUMMARIZE"


def _headline(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 40 else line[:39] + "…"

"""Checks of errors: the code, the position, the names and figures in the message, and the recorded wording."""

from __future__ import annotations

import fcntl
import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from snapdb import SnapdbError

RECORD = bool(os.environ.get("SNAPDB_RECORD"))
TESTS = Path(__file__).parents[1]
PAGE = TESTS / "wording.txt"
"""The errors that each test causes. With SNAPDB_RECORD=1, the entries of the tests that run are rewritten."""
NEW: dict[str, set[str]] = {}
"""Test → the errors recorded by this process."""
CHANGING = (
    (r"{temporary}/(?:[^\s'\",;:()]+/)?([^/\s'\",;:()]+)", r"…/\1"),
    (r"\bsnapdb-\w{{8}}\b", "snapdb-…"),
    (r"s3://snaps/test_[^/\s'\",;:()]+", "s3://snaps/…"),
    (r"\bpid \d+", "pid …"),
    (r"\b0x[0-9a-f]+|\b[0-9a-f]{{12,}}\b", "…"),
    (r"\d{{4}}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d+)?\+00:00", "…"),
    (r"\b(snapdb|torch) \d+\.\d[\w.+]*", r"\1 …"),
)
"""Patterns of text that differs between runs, with replacements."""


def read_page() -> dict[str, set[str]]:
    """Return the recorded lines of each test."""
    page: dict[str, set[str]] = {}
    lines: set[str] = set()
    for line in PAGE.read_text(errors="surrogateescape").splitlines():
        if line.startswith("  "):
            lines.add(line[2:])
        else:
            lines = page[line] = set()
    return page


HELD = read_page()
"""The recorded page, read before any test can make it unreadable."""


@contextmanager
def refused(
    code: str, *named: str, at: str | None = None, kind: type[Exception] = SnapdbError, recorded: bool = True
) -> Iterator[pytest.ExceptionInfo[SnapdbError]]:
    """Require that the block fails with an error that has this code and the recorded wording.

    Args:
        code: The error code.
        named: Words that the message must contain: tables, files, figures.
        at: The text that the carets must mark, or None for any position or none.
        kind: A built-in exception class of which the error must also be an instance.
        recorded: Whether to compare the wording with the page. False if the wording differs between runs.
    """
    with pytest.raises(SnapdbError) as caught:
        yield caught
    error = caught.value
    assert error.code == code, error
    assert isinstance(error, kind), type(error)
    assert [name for name in named if name not in error.message] == [], error
    if at is not None:
        assert error.span is not None, error
        assert (error.text or "")[error.span.start : error.span.stop] == at, error
    if recorded:
        hold_wording(error)


def hold_wording(error: SnapdbError) -> None:
    """Require that the page contains this message for the current test."""
    test = os.environ["PYTEST_CURRENT_TEST"].rpartition(" (")[0].removeprefix("tests/")
    line = wording(error)
    if RECORD:
        NEW.setdefault(test, set()).add(line)
    else:
        assert line in HELD.get(test, ()), (
            f"SNAPDB_RECORD=1 writes it to {PAGE.name}, if it is meant:\n{test}\n  {line}"
        )


def wording(error: SnapdbError) -> str:
    """Return an error as one line, without text that differs between runs."""
    text = " ".join(error.message.split())
    for changing, name in CHANGING:
        text = re.sub(changing.format(temporary=re.escape(tempfile.gettempdir())), name, text)
    return f"{type(error).__name__} {error.code}: {text}"


def record_wordings() -> None:
    """Rewrite the page for the tests that this process ran. Other processes can do the same concurrently."""
    with PAGE.open("a") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        page = read_page() | NEW
        sections = (f"{test}\n" + "".join(f"  {line}\n" for line in sorted(page[test])) for test in sorted(page))
        PAGE.write_text("".join(sections), errors="surrogateescape")

"""What errors are held to: their code and place, the names and figures of their message, and its recorded wording."""

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
"""Under each test, the errors that it provokes. SNAPDB_RECORD=1 writes anew those of the tests that run."""
NEW: dict[str, set[str]] = {}
"""What this process recorded of each test."""
CHANGING = (
    (r"{temporary}/(?:[^\s'\",;:()]+/)?([^/\s'\",;:()]+)", r"…/\1"),
    (r"\bsnapdb-\w{{8}}\b", "snapdb-…"),
    (r"\bpid \d+", "pid …"),
    (r"\b0x[0-9a-f]+|\b[0-9a-f]{{12,}}\b", "…"),
    (r"\d{{4}}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d+)?\+00:00", "…"),
    (r"\b(snapdb|torch) \d+\.\d[\w.+]*", r"\1 …"),
)
"""What differs from run to run."""


def read_page() -> dict[str, set[str]]:
    """The lines of each test."""
    page: dict[str, set[str]] = {}
    lines: set[str] = set()
    for line in PAGE.read_text(errors="surrogateescape").splitlines():
        if line.startswith("  "):
            lines.add(line[2:])
        else:
            lines = page[line] = set()
    return page


HELD = read_page()
"""The page, read before any test takes away what it could be read with."""


@contextmanager
def refused(
    code: str, *named: str, at: str | None = None, kind: type[Exception] = SnapdbError, recorded: bool = True
) -> Iterator[pytest.ExceptionInfo[SnapdbError]]:
    """Requires that the block fails with an error of this code, worded as recorded.

    Args:
        named: What the message must name, word by word: tables, files, figures.
        at: What the carets must be under; None: any place, or none.
        kind: What else the error must be, for those who catch a class of Python's own.
        recorded: Whether the wording is held to the page; no where it differs from run to run.
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
    """Requires that the page has this message under the test that runs."""
    test = os.environ["PYTEST_CURRENT_TEST"].rpartition(" (")[0].removeprefix("tests/")
    line = wording(error)
    if RECORD:
        NEW.setdefault(test, set()).add(line)
    else:
        assert line in HELD.get(test, ()), (
            f"SNAPDB_RECORD=1 writes it to {PAGE.name}, if it is meant:\n{test}\n  {line}"
        )


def wording(error: SnapdbError) -> str:
    """An error as one line, without what differs from run to run."""
    text = " ".join(error.message.split())
    for changing, name in CHANGING:
        text = re.sub(changing.format(temporary=re.escape(tempfile.gettempdir())), name, text)
    return f"{type(error).__name__} {error.code}: {text}"


def record_wordings() -> None:
    """Write the page anew for the tests that this process ran, beside other processes that do the same."""
    with PAGE.open("a") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        page = read_page() | NEW
        sections = (f"{test}\n" + "".join(f"  {line}\n" for line in sorted(page[test])) for test in sorted(page))
        PAGE.write_text("".join(sections), errors="surrogateescape")

"""What errors are held to: their code and place, and the names and figures of their message. Wording is recorded."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from snapdb import SnapdbError


@contextmanager
def refused(code: str, *named: str, at: str | None = None) -> Iterator[pytest.ExceptionInfo[SnapdbError]]:
    """Requires that the block fails with an error of this code.

    Args:
        named: What the message must name, word by word: tables, files, figures.
        at: What the carets must be under; None: any place, or none.
    """
    with pytest.raises(SnapdbError) as caught:
        yield caught
    error = caught.value
    assert error.code == code, error
    assert [name for name in named if name not in error.message] == [], error
    if at is not None:
        assert error.span is not None, error
        assert (error.text or "")[error.span.start : error.span.stop] == at, error

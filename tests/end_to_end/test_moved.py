"""docs/moved.md names modules, names and pages that are there."""

from __future__ import annotations

import importlib
import re

from tests.support.places import ROOT

LINE = re.compile(r"^    (\S+) -> (\S+)$", re.MULTILINE)


def is_there(place: str) -> bool:
    """Whether there is such a file, module, or name of a module."""
    if "/" in place:
        return (ROOT / place.partition("#")[0]).exists()
    module, _, name = place.partition(":")
    try:
        found = importlib.import_module(module)
    except ModuleNotFoundError:
        return False
    return not name or hasattr(found, name)


def test_what_moved_is_where_the_page_says() -> None:
    text = (ROOT / "docs" / "moved.md").read_text("utf-8")
    moved = LINE.findall(text)
    assert len(moved) == text.count(" -> ") > 400
    assert [new for _, new in moved if not is_there(new)] == []
    assert len({old for old, _ in moved}) == len(moved)

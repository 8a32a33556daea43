"""The check of errors notices another code, another place, a name that is missing, another wording, and no error."""

from __future__ import annotations

import re

import pytest

import snapdb
from tests.support.refusals import HELD, TESTS, refused


def test_an_error_of_this_code_at_this_place_passes() -> None:
    with snapdb.connect() as db, refused("unknown-table", '"missing"', at="missing") as caught:
        db.execute("SELECT * FROM missing")
    assert isinstance(caught.value, snapdb.BindError)


@pytest.mark.parametrize(
    ("code", "named", "at"),
    [("unknown-column", (), None), ("unknown-table", (), "mis"), ("unknown-table", ('"other"',), None)],
)
def test_another_code_place_or_name_fails(code: str, named: tuple[str, ...], at: str | None) -> None:
    with snapdb.connect() as db, pytest.raises(AssertionError), refused(code, *named, at=at, recorded=False):
        db.execute("SELECT * FROM missing")


def test_a_wording_that_is_not_recorded_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.support.refusals.RECORD", False)
    with snapdb.connect() as db, pytest.raises(AssertionError, match=r"wording\.txt"), refused("unknown-table"):
        db.execute("SELECT * FROM absent")


def test_no_error_fails() -> None:
    with pytest.raises(pytest.fail.Exception, match="DID NOT RAISE"), refused("unknown-table"):
        pass


def test_the_page_of_wordings_names_tests_that_are_there() -> None:
    named = {test.partition("[")[0] for test in HELD}
    there = {
        f"{path.relative_to(TESTS)}::{name}"
        for path in TESTS.rglob("test_*.py")
        for name in re.findall(r"^def (test_\w+)", path.read_text(), re.MULTILINE)
    }
    assert sorted(named - there) == []

"""The runner of statement files notices what is wrong, and rewrites only what it may."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.slt import MODES, parse_slt, run_slt, write_slt

GOOD = """\
# a comment
statement ok
CREATE TABLE t (x INTEGER, y VARCHAR);

statement ok
INSERT INTO t VALUES (2, ''), (1, NULL);

restart

query IT rowsort
SELECT * FROM t;
----
2  (empty)
1  NULL

file f.csv
x,y
3,c

query T columns=y
SELECT * FROM '${TMP}/f.csv';
----
c

statement error missing
SELECT * FROM missing;
"""


def failures(text: str, folder: Path) -> list[str]:
    """The messages of the records that fail."""
    path = folder / "case.slt"
    path.write_text(text)
    (folder / "run").mkdir()
    return [str(error) for _, _, error in run_slt(path, folder / "run") if error is not None]


def test_a_file_whose_records_hold_passes(tmp_path: Path) -> None:
    assert failures(GOOD, tmp_path) == []


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("1  NULL", "1  (empty)"),
        ("1  NULL\n", ""),
        ("query IT", "query TT"),
        ("query IT", "query ITT"),
        ("statement error missing", "statement error no such words"),
        ("SELECT * FROM missing", "SELECT 1 AS missing"),
        ("INSERT INTO t ", "INSERT INTO u "),
        ("\nc\n", "\nd\n"),
    ],
)
def test_a_record_that_does_not_hold_is_reported_with_its_line(right: str, wrong: str, tmp_path: Path) -> None:
    assert right in GOOD
    (first, *_) = failures(GOOD.replace(right, wrong), tmp_path)
    assert "case.slt:" in first
    assert "expected:" in first
    assert "got:" in first


def test_an_unknown_record_is_refused_with_its_line() -> None:
    with pytest.raises(ValueError, match="line 2: not a record"):
        list(parse_slt("\nstatment ok\nSELECT 1;\n"))


def test_update_rewrites_the_results_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "case.slt"
    path.write_text(GOOD.replace("2  (empty)\n", "9  nine\n"))
    (tmp_path / "run").mkdir()
    write_slt(path, run_slt(path, tmp_path / "run"))
    assert path.read_text() == GOOD.replace("2  (empty)\n1  NULL", "1  NULL\n2  (empty)")


def test_a_record_may_run_in_some_modes_only(tmp_path: Path) -> None:
    path = tmp_path / "case.slt"
    path.write_text("onlyif optimizer\nquery I\nSELECT 1;\n----\n1\n\nskipif optimizer\nquery I\nSELECT 2;\n----\n2\n")
    ran = {}
    for number, mode in enumerate(MODES):
        (tmp_path / str(number)).mkdir()
        outcomes = run_slt(path, tmp_path / str(number), mode)
        assert [failure for _, _, failure in outcomes] == [None]
        ran[mode.optimizer, mode.threads] = outcomes[0][0].body
    assert {optimizer for optimizer, _ in ran} == {True, False}
    assert all(body == ("SELECT 1;" if optimizer else "SELECT 2;") for (optimizer, _), body in ran.items())


@pytest.mark.parametrize(
    ("expected", "fits"),
    [
        ("code=unknown-table at=missing", True),
        ("code=unknown-table", True),
        ("code=unknown-column at=missing", False),
        ("code=unknown-table at=mis", False),
    ],
)
def test_an_error_is_held_to_its_code_and_place(tmp_path: Path, expected: str, fits: bool) -> None:
    path = tmp_path / "one.slt"
    path.write_text(f"statement error {expected}\nSELECT * FROM missing\n")
    ((_, _, failure),) = run_slt(path, tmp_path)
    assert (failure is None) == fits


def test_a_message_that_follows_a_code_is_held_too(tmp_path: Path) -> None:
    path = tmp_path / "one.slt"
    path.write_text("statement error code=unknown-table\nSELECT * FROM missing\n----\nBindError: another wording\n")
    ((_, got, failure),) = run_slt(path, tmp_path)
    assert failure is not None
    assert got is not None
    assert got[0].startswith("BindError: table")

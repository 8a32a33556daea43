"""`\\plot` at the prompt, `snapdb plot` and `snapdb draw`."""

from __future__ import annotations

import io
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

import pytest
from rich.cells import cell_len

import snapdb
from snapdb_cli.plots import BarChart, draw, plot
from tests.support.inside.cli import (
    DatabaseNames,
    Diagnostics,
    ExitCode,
    Output,
    Preferences,
    ReplSession,
    run_command,
    suggest,
)
from tests.support.program import run
from tests.support.refusals import refused

SHOP = """
CREATE TABLE person AS SELECT i AS pid FROM range(4) r(i);
CREATE TABLE knows AS SELECT i AS a, (i + 1) % 4 AS b, i AS ts FROM range(4) r(i);
INSERT INTO knows SELECT i AS a, 0 AS b, 10 + i AS ts FROM range(3) r(i);
DELETE FROM knows WHERE ts = 3;
CREATE TABLE "my table" AS SELECT 1 AS a;
CREATE PROPERTY GRAPH social VERTEX TABLES (person KEY (pid)) EDGE TABLES (knows SOURCE KEY (a) REFERENCES person
  DESTINATION KEY (b) REFERENCES person EVENT TIME (ts));
CREATE SNAPSHOT now OF social;
CREATE SAMPLER train AS SAMPLE FROM now SEEDS (SELECT pid FROM person) AS person FANOUT (knows => [2, 2]);
"""


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    with snapdb.connect("shop.snapdb") as db:
        db.script(SHOP)
    return tmp_path / "shop.snapdb"


@pytest.fixture
def db(path: Path) -> Iterator[snapdb.Database]:
    with snapdb.connect(path) as database:
        yield database


class Terminal(io.StringIO):
    """A terminal of any encoding."""

    def __init__(self, encoding: str = "utf-8") -> None:
        super().__init__()
        self._encoding = encoding

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return self._encoding

    def isatty(self) -> bool:
        return True


class Prompt(NamedTuple):
    session: ReplSession
    out: io.StringIO
    err: io.StringIO

    def typed(self, text: str) -> str:
        """What a command shows."""
        self.out.seek(0)
        self.out.truncate()
        run_command(self.session, text)
        return self.out.getvalue()


def prompt(db: snapdb.Database, out: io.StringIO) -> Prompt:
    err = io.StringIO()
    return Prompt(ReplSession(db, Output(stream=out), Diagnostics(stream=err), Preferences()), out, err)


def numbers(db: snapdb.Database, name: str = "", element: str = "") -> dict[str, tuple[tuple[str, int | None], ...]]:
    return {chart.heading: chart.bars for chart in plot(db, name, element)}


def test_the_growth_of_tables_is_that_of_their_versions(db: snapdb.Database) -> None:
    growth = numbers(db)
    assert growth["Rows by table"] == (("knows", 6), ("person", 4), ("my table", 1))
    assert growth["knows: rows by version"] == (("2", 4), ("3", 7), ("4", 6), ("5", 6))
    for name in ("knows", "KNOWS"):
        assert numbers(db, name) == {"knows: rows by version": (("2", 4), ("3", 7), ("4", 6))}
    for version, rows in (("2", 4), ("3", 7), ("4", 6)):
        sql = f"SELECT count(*) FROM knows AT (VERSION => {version})"
        assert db.execute(sql).fetchall() == [(rows,)]


def test_the_charts_of_a_snapshot_are_what_summarize_knows(db: snapdb.Database) -> None:
    person, knows = db.execute("SUMMARIZE SNAPSHOT now").arrow().to_pylist()
    charts = numbers(db, "now")
    assert [count for _, count in charts["person: edges per vertex, number of vertices (logarithmic)"]] == person[
        "degrees"
    ]
    degrees = charts["knows: in-degrees, number of vertices (logarithmic)"]
    assert [count for _, count in degrees] == knows["degrees"] == [0, 3, 0, 1]
    assert [label for label, _ in degrees] == ["0", "1", "2", "3-4"]
    assert charts["knows: rows by event time"][-1] == ("12", 6)
    assert numbers(db, "now", "knows") == numbers(db, "now.knows")
    assert list(numbers(db, "now", "person")) == ["person: edges per vertex, number of vertices (logarithmic)"]


def test_an_unknown_name_is_corrected(db: snapdb.Database) -> None:
    with refused("unknown-table", "persn", 'did you mean "person"?'):
        plot(db, "persn")
    with refused("unknown-type", "know", 'did you mean "knows"?'):
        plot(db, "now", "know")
    with refused("unknown-type", "it has person, knows"):
        plot(db, "now", "zebra")
    with refused("unknown-type", "person is a table", 'leave out "pid"'):
        plot(db, "person", "pid")
    with refused("unknown-type", 'did you mean "knows"?'):
        plot(db, "NOW.know")
    with refused("unknown-table", "nothing.there"):
        plot(db, "nothing.there")


@pytest.mark.parametrize("width", [24, 40, 80, 200])
def test_charts_fit_the_terminal(width: int) -> None:
    chart = BarChart("表" * 30, tuple((f"{'label' * 20}{i}", 10**i) for i in range(12)))
    for line in draw([chart, chart], width).splitlines():
        assert cell_len(line) <= width


def test_bars_are_in_proportion() -> None:
    chart = BarChart("t", (("a", 100), ("b", 50), ("c", 0), ("d", None)))
    lengths = [line.count("#") for line in draw([chart], 60, unicode=False).splitlines()[1:]]
    assert lengths[1] == pytest.approx(lengths[0] / 2, abs=1)
    assert lengths[2:] == [0, 0]
    logarithmic = BarChart("t", (("0", 0), ("1", 1), ("2", 10), ("3-4", 100)), logarithmic=True)
    zero, one, ten, hundred = (line.count("#") for line in draw([logarithmic], 90, unicode=False).splitlines()[1:])
    assert zero == 0 < one
    assert ten - one == pytest.approx(hundred - ten, abs=1)


def test_hostile_names_cannot_control_the_terminal() -> None:
    chart = BarChart("\x1b[31mred\n[bold]b", (("[link=x]\x07\x1b]0;t\x07", 1),))
    shown = draw([chart], 100)
    assert "\x1b" not in shown
    assert "\x07" not in shown
    assert "[bold]b" in shown
    assert "[link=x]" in shown


def test_plot_at_a_terminal_has_colours_unless_they_are_off(
    db: snapdb.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setattr("shutil.get_terminal_size", lambda *_: os.terminal_size((60, 24)))
    shown = prompt(db, Terminal()).typed("\\plot knows")
    assert "\x1b[" in shown
    plain = re.sub(r"\x1b\[[\d;]*m", "", shown)
    assert "█" in plain
    assert max(map(cell_len, plain.splitlines())) == 60
    monkeypatch.setenv("NO_COLOR", "1")
    assert prompt(db, Terminal()).typed("\\plot knows") == plain
    ascii_only = prompt(db, Terminal("ascii")).typed("\\plot knows")
    assert ascii_only.isascii()
    assert "####" in ascii_only


def test_plot_takes_names_in_quotes_and_says_what_is_wrong(db: snapdb.Database) -> None:
    typed = prompt(db, io.StringIO())
    assert typed.typed('\\plot "my table";').startswith("my table: rows by version\n5 ")
    assert typed.typed("\\plot now knows") == typed.typed("\\plot now.knows")
    assert typed.typed("\\plot").startswith("Rows by table\n")
    assert "\x1b" not in typed.typed("\\plot now")
    assert typed.err.getvalue() == ""
    assert typed.typed("\\plot persn") == typed.typed("\\plot a b c") == ""
    assert 'no table or snapshot is named "persn"; did you mean "person"?' in typed.err.getvalue()
    assert "too many arguments" in typed.err.getvalue()
    with snapdb.connect() as empty:
        typed = prompt(empty, io.StringIO())
        assert typed.typed("\\plot") == ""
        assert typed.err.getvalue() == "the database has no rows to plot\n"


def test_plot_goes_to_the_file_of_results(db: snapdb.Database, tmp_path: Path) -> None:
    typed = prompt(db, io.StringIO())
    with typed.session.once(str(tmp_path / "chart.txt")):
        assert typed.typed("\\plot knows") == ""
    assert (tmp_path / "chart.txt").read_text("utf-8").startswith("knows: rows by version\n")


def test_completion_offers_tables_and_snapshots_and_elements(db: snapdb.Database) -> None:
    names = DatabaseNames.from_names(db.names())
    assert {"person", "knows", "now"} <= set(suggest("\\plot ", names))
    assert suggest("\\plot now.kn", names) == ["now.knows"]
    assert "train" not in suggest("\\plot ", names)


def test_snapdb_plot_writes_the_same(path: Path, db: snapdb.Database) -> None:
    shown = run("plot", path, "now", "knows")
    assert (shown.exit_code, shown.stderr) == (0, "")
    assert shown.stdout == draw(plot(db, "now", "knows"), 80, unicode="█" in shown.stdout) + "\n"
    assert run("plot", path).stdout.startswith("Rows by table\n")
    missing = run("plot", path, "persn")
    assert (missing.exit_code, missing.stdout) == (1, "")
    assert 'did you mean "person"?' in missing.stderr
    assert run("plot", "shpo.snapdb").exit_code == 1


def test_snapdb_draw_writes_a_picture(path: Path, db: snapdb.Database, tmp_path: Path) -> None:
    drawing = db.draw("train", 1, 1)
    done = run("draw", path, "train", "--batch", "1", "--seeds", "1", "-o", tmp_path / "x.svg")
    assert (done.exit_code, done.stdout, done.stderr) == (0, "", f"{drawing.caption}\n")
    tree = ElementTree.parse(tmp_path / "x.svg").getroot()
    assert ElementTree.tostring(tree) == ElementTree.tostring(ElementTree.fromstring(drawing.svg()))
    shown = run("draw", path, "SAMPLE USING train FANOUT (knows => [1])", "-q")
    assert (shown.exit_code, shown.stderr) == (0, "")
    ElementTree.fromstring(shown.stdout)


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("trian",), 1, 'sampler "trian" does not exist; did you mean "train"?'),
        (("train", "-o", "x.png"), 1, "a drawing is saved as .svg or .html"),
        (("train", "--batch", "99"), 1, "batch 99 does not exist"),
        (("train", "--seeds", "0"), 2, "0 is not in the range"),
    ],
)
def test_what_cannot_be_drawn(path: Path, words: tuple[str, ...], code: int, said: str) -> None:
    done = run("draw", path, *words)
    assert (done.exit_code, done.stdout) == (code, "")
    assert said in done.stderr


def test_a_command_of_a_script_runs_too(db: snapdb.Database, tmp_path: Path) -> None:
    (tmp_path / "report.sql").write_text("SELECT 1 AS a;\n\\plot knows\n")
    typed = prompt(db, io.StringIO())
    assert typed.session.run_file(str(tmp_path / "report.sql"), run_command) is ExitCode.OK
    assert "knows: rows by version" in typed.out.getvalue()

"""The configuration, named queries, and commands that keep or change something."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path

import pytest

import snapdb
from tests.support.inside.cli import (
    Diagnostics,
    NamedQueries,
    Output,
    Pager,
    PagerClosed,
    Preferences,
    ReplSession,
    _pager_command,
    _question,
    config_file,
    load,
    run_typed,
)


class Desk:
    """A session without a terminal, and what it wrote."""

    def __init__(self) -> None:
        self.out, self.err = io.StringIO(), io.StringIO()
        self.asked: list[str] = []
        self.answer = True
        output, diagnostics = Output(stream=self.out), Diagnostics(stream=self.err)
        self.session = ReplSession(snapdb.connect(), output, diagnostics, Preferences(format="csv"), ask=self._ask)

    def _ask(self, _question: str) -> bool:
        self.asked.append(_question)
        return self.answer

    def type(self, text: str) -> str:
        """What is shown and said when a line is typed."""
        run_typed(self.session, text)
        said = self.out.getvalue() + self.err.getvalue()
        for stream in (self.out, self.err):
            stream.seek(0)
            stream.truncate()
        return said


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    monkeypatch.setenv("SNAPDB_CONFIG", str(tmp_path / "config" / "config.toml"))
    monkeypatch.chdir(tmp_path)
    desk = Desk()
    yield desk
    desk.session.database.close()


def test_without_a_file_the_defaults_count(tmp_path: Path) -> None:
    assert load(tmp_path / "none.toml") == (Preferences(), [])


def test_what_a_file_says_counts_and_what_is_wrong_is_told(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text('max_rows = "all"\ntiming = true\npgaer = "off"\nexpanded = "maybe"\n')
    preferences, wrong = load(path)
    assert (preferences.max_rows, preferences.timing, preferences.expanded) == (None, True, False)
    assert 'setting pgaer does not exist; did you mean "pager"?' in wrong[0]
    assert "expanded cannot be 'maybe'; the values are on, off, auto" in wrong[1]


@pytest.mark.parametrize("text", ["max_rows = [", "\xff"])
def test_a_file_that_cannot_be_read_leaves_the_defaults(tmp_path: Path, text: str) -> None:
    path = tmp_path / "config.toml"
    path.write_bytes(text.encode("latin-1"))
    preferences, (complaint,) = load(path)
    assert preferences == Preferences()
    assert "the defaults apply" in complaint


@pytest.mark.parametrize(
    ("name", "given", "value"),
    [
        ("max_rows", 10, 10),
        ("max_rows", "0", None),
        ("expanded", "auto", None),
        ("confirm", "off", False),
        ("pager", "less -SR", "less -SR"),
        ("pager", True, "on"),
        ("keys", "VI", "vi"),
        ("null", "", ""),
    ],
)
def test_a_setting_takes_text_and_toml(name: str, given: object, value: object) -> None:
    assert getattr(Preferences().changed(name, given), name) == value


@pytest.mark.parametrize(("name", "given"), [("max_rows", -5), ("max_rows", True), ("timing", "si"), ("prompt", 3)])
def test_a_setting_refuses_what_it_cannot_be(name: str, given: object) -> None:
    with pytest.raises(ValueError, match=f"{name} cannot be"):
        Preferences().changed(name, given)


def test_the_file_is_looked_for_where_the_variables_say(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SNAPDB_CONFIG", "/etc/mine.toml")
    assert config_file() == Path("/etc/mine.toml")
    monkeypatch.delenv("SNAPDB_CONFIG")
    monkeypatch.setenv("XDG_CONFIG_HOME", "/etc/xdg")
    assert config_file() == Path("/etc/xdg/snapdb/config.toml")


def test_settings_are_listed_changed_and_set_back(desk: Desk) -> None:
    assert "max_rows = 40" in desk.type("\\set")
    assert desk.type("\\set max_rows all") == "max_rows is all\n"
    assert desk.session.shell.output.style.screen_rows is None
    assert desk.type("\\unset max_rows") == "max_rows is 40\n"
    assert desk.type("\\pset null (none)") == "null is (none)\n"
    assert desk.type("SELECT NULL AS a;") == "a\n(none)\n"
    desk.type(".headers off")
    assert desk.type("SELECT 1 AS a;") == "1\n"
    assert 'did you mean "confirm"?' in desk.type("\\set confrim off")


def test_a_named_query_is_kept_listed_run_and_forgotten(desk: Desk) -> None:
    assert "query twice was saved in" in desk.type("\\ns twice SELECT $1 * 2 AS double, '$1' AS said;")
    assert "twice" in desk.type("\\n")
    assert desk.type("\\n twice 21").startswith("double,said\n42,$1\n")
    assert "takes 1 arguments, found 0" in desk.type("\\n twice")
    assert 'did you mean "twice"?' in desk.type("\\n twcie 1")
    desk.type("\\nd twice")
    assert NamedQueries().texts() == {}
    assert "is not a valid name" in desk.type("\\ns ../evil SELECT 1")


def test_a_named_query_survives_the_session(desk: Desk) -> None:
    NamedQueries().save("kept", "SELECT 1")
    assert NamedQueries().filled("kept", "") == "SELECT 1"
    NamedQueries().save("turned", "SELECT $2, $1")
    assert NamedQueries().filled("turned", "a 'b c'") == "SELECT 'b c', a"


def test_the_last_statement_is_shown_and_run_again(desk: Desk, tmp_path: Path) -> None:
    assert "no statement has been run yet" in desk.type("\\g")
    desk.type("SELECT 1 AS a;")
    assert desk.type("\\p") == "SELECT 1 AS a;\n"
    assert desk.type("\\g") == "a\n1\n"
    assert desk.type("\\g out.csv") == ""
    assert (tmp_path / "out.csv").read_text() == "a\n1\n"
    assert desk.type("\\g") == "a\n1\n"


def test_a_command_may_stand_behind_a_statement(desk: Desk) -> None:
    desk.session.set("format", "table")
    assert "a | 1" in desk.type("SELECT 1 AS a \\gx")
    assert "run 2 of 2" in desk.type("SELECT 'x' AS a \\watch 0 2")
    assert desk.type("SELECT '\\g' AS a;").count("\\g") == 1


def test_once_sends_one_result_elsewhere(desk: Desk, tmp_path: Path) -> None:
    desk.type(".once one.csv")
    assert desk.type("SELECT 1 AS a;") == ""
    assert desk.type("SELECT 2 AS a;") == "a\n2\n"
    assert (tmp_path / "one.csv").read_text() == "a\n1\n"


def test_a_file_holds_commands_and_files_beside_it(desk: Desk, tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "outer.sql").write_text("-- first\n\\echo hello\nSELECT 1\n  AS a;\n\\i inner.sql\n")
    (tmp_path / "sub" / "inner.sql").write_text("SELECT 2 AS b")
    assert desk.type("\\i sub/outer.sql") == "a\n1\nb\n2\nhello\n"
    (tmp_path / "loop.sql").write_text("\\i loop.sql\n")
    assert "runs itself" in desk.type("\\i loop.sql")


def test_another_database_is_opened_and_a_bad_path_keeps_this_one(desk: Desk, tmp_path: Path) -> None:
    desk.type("CREATE TABLE t (a INTEGER);")
    (tmp_path / "file").write_text("no database")
    assert "DatabaseError" in desk.type("\\open file")
    assert desk.session.known().tables == ("t",)
    desk.type("\\open other.snapdb")
    assert desk.session.known().tables == ()
    assert "other.snapdb" in desk.type("\\conninfo")


def test_more_is_told_of_a_table_and_of_a_snapshot(desk: Desk) -> None:
    desk.type("CREATE TABLE p AS SELECT 1 AS id; CREATE PROPERTY GRAPH g VERTEX TABLES (p KEY (id));")
    desk.type("CREATE SNAPSHOT now OF g;")
    assert "rows_added" in desk.type("\\d+ p")
    assert "share" in desk.type("\\d+ now")
    assert "repeat" in desk.type("\\df repeat")


def test_tasks_are_listed_and_described_with_their_runs(desk: Desk) -> None:
    desk.type("CREATE TASK nightly SCHEDULE EVERY INTERVAL '1 day' AS SELECT 1; EXECUTE TASK nightly;")
    assert "EVERY INTERVAL '1 day'" in desk.type("\\dk n*")
    assert "catch_up" in desk.type("\\d nightly")
    assert "scheduled" in desk.type("\\d+ nightly")
    assert "1 task;" in desk.type("\\conninfo")


def test_a_drop_tells_what_goes_with_it(desk: Desk) -> None:
    desk.type("CREATE TABLE p AS SELECT 1 AS id; CREATE PROPERTY GRAPH g VERTEX TABLES (p KEY (id));")
    desk.type("CREATE SNAPSHOT now OF g; CREATE SNAPSHOT later OF g;")
    database = desk.session.database
    asked = {
        text: _question(database, snapdb.sql.parse(text)[0])
        for text in (
            "DROP TABLE p CASCADE",
            "DROP TABLE p",
            "DROP TABLE IF EXISTS q",
            "EXPIRE SNAPSHOTS RETAIN LAST 1",
            "EXPIRE SNAPSHOTS RETAIN LAST 5",
            "VACUUM DRY RUN",
            "SELECT 1",
        )
    }
    assert asked == {
        "DROP TABLE p CASCADE": "drop table p and its dependents (graph g, snapshot later, snapshot now)?",
        "DROP TABLE p": None,  # it is refused, and says why
        "DROP TABLE IF EXISTS q": None,
        "EXPIRE SNAPSHOTS RETAIN LAST 1": "expire 1 snapshot: now?",
        "EXPIRE SNAPSHOTS RETAIN LAST 5": None,
        "VACUUM DRY RUN": None,
        "SELECT 1": None,
    }


def test_what_is_typed_runs_only_when_it_is_agreed_to_and_files_are_not_asked_about(desk: Desk, tmp_path: Path) -> None:
    desk.type("CREATE TABLE a AS SELECT 1 AS x; CREATE TABLE b AS SELECT 1 AS x;")
    desk.answer = False
    assert "nothing was changed" in desk.type("DROP TABLE a;")
    assert desk.asked == ["drop table a?"]
    (tmp_path / "drop.sql").write_text("DROP TABLE b")
    desk.type("\\i drop.sql")
    assert desk.session.known().tables == ("a",)


def test_results_go_to_a_program_until_they_come_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    out = io.StringIO()
    screen = Pager(out)
    screen.pipe("sort -r > sorted")
    screen.write("a\nb\n")
    screen.flush()
    screen.pipe(None)
    screen.write("c\n")
    screen.flush()
    assert (tmp_path / "sorted").read_text() == "b\na\n"
    assert out.getvalue() == "c\n"
    screen.pipe("true")
    with pytest.raises(PagerClosed):
        screen.write("x" * 10_000_000)


def test_the_pager_is_what_the_person_wants(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PAGER", "most -w")
    monkeypatch.setenv("TERM", "xterm")
    assert _pager_command("auto") == "most -w"
    assert _pager_command("off") is None
    assert _pager_command("cat -n") == "cat -n"
    monkeypatch.setenv("TERM", "dumb")
    assert _pager_command("auto") is None
    assert _pager_command("on") == "most -w"


def test_a_folder_or_bytes_among_the_queries_hide_no_other(desk: Desk) -> None:
    kept = NamedQueries().save("kept", "SELECT 1")
    (kept.parent / "folder.sql").mkdir()
    (kept.parent / "bytes.sql").write_bytes(b"SELECT '\xff'")
    assert list(NamedQueries().texts()) == ["bytes", "kept"]
    assert "kept" in desk.type("\\n")

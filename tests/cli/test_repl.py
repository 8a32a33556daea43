"""The prompt, its commands and its completion, without a terminal."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, TextIO, cast

import pytest
from prompt_toolkit.application import create_app_session
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput

import snapdb
from snapdb_cli.repl.commands import COMMANDS
from snapdb_cli.repl.prompt import history
from tests.support.inside.cli import (
    Diagnostics,
    ExitCode,
    Leave,
    Output,
    Pager,
    Preferences,
    ReplSession,
    Shell,
    _history_file,
    _is_whole,
    ask,
    find,
    is_command,
    loop,
    run_command,
    run_typed,
)

GRAPH = """
CREATE TABLE person AS SELECT i AS pid FROM range(4) r(i);
CREATE TABLE knows AS SELECT i AS a, (i + 1) % 4 AS b, i AS ts FROM range(4) r(i);
CREATE PROPERTY GRAPH social VERTEX TABLES (person KEY (pid)) EDGE TABLES (knows SOURCE KEY (a) REFERENCES person
  DESTINATION KEY (b) REFERENCES person EVENT TIME (ts));
CREATE SNAPSHOT early OF social FOR EVENT_TIME AS OF 2;
"""


class Room(NamedTuple):
    """A session, its shell, and what it wrote."""

    session: ReplSession
    shell: Shell
    out: io.StringIO
    err: io.StringIO

    def said(self) -> str:
        """What was said since the last time."""
        text = self.err.getvalue()
        self.err.seek(0)
        self.err.truncate()
        return text

    def shown(self) -> str:
        """What was shown since the last time."""
        text = self.out.getvalue()
        self.out.seek(0)
        self.out.truncate()
        return text


@pytest.fixture
def room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Room]:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("SNAPDB_CONFIG", str(tmp_path / "config" / "config.toml"))
    out, err = io.StringIO(), io.StringIO()
    with snapdb.connect() as database:
        session = ReplSession(database, Output(stream=out), Diagnostics(stream=err), Preferences(format="csv"), ask=ask)
        yield Room(session, session.shell, out, err)


@pytest.fixture
def social(room: Room) -> Room:
    assert room.shell.execute(GRAPH) is ExitCode.OK, room.said()
    return room


def type_in(room: Room, keys: str) -> None:
    """Type at a fresh prompt, and leave with Ctrl-D."""
    room.session.history = history()
    with create_pipe_input() as pipe, create_app_session(input=pipe, output=DummyOutput()):
        pipe.send_text(keys + "\x04")
        loop(room.session)


def test_a_statement_may_take_several_lines(room: Room) -> None:
    type_in(room, "SELECT 1 AS a,\n  ';' AS b\n;\n")
    assert room.shown() == "a,b\n1,;\n"


def test_several_statements_on_a_line_all_run(room: Room) -> None:
    type_in(room, "SELECT 1 AS a; SELECT 2 AS b;\n")
    assert room.shown() == "a\n1\nb\n2\n"


def test_escape_enter_runs_what_stands_there(room: Room) -> None:
    type_in(room, "SELECT 1 AS a\x1b\r")
    assert room.shown() == "a\n1\n"


def test_ctrl_c_clears_the_line_and_the_session_goes_on(room: Room) -> None:
    type_in(room, "SELECT 'half\x03SELECT 3 AS c;\n")
    assert room.shown() == "c\n3\n"


def test_an_error_does_not_end_the_session(room: Room) -> None:
    type_in(room, "SELECT nope;\nSELEC 1;\nSELECT 4 AS d;\n")
    assert room.shown() == "d\n4\n"
    said = room.said()
    assert "nope" in said
    assert "ParseError" in said


@pytest.mark.parametrize("word", ["\\q", ".quit", ".exit", "exit", "quit;", "EXIT;"])
def test_words_that_leave(room: Room, word: str) -> None:
    type_in(room, f"{word}\nSELECT 1 AS not_reached;\n")
    assert room.shown() == ""


def test_an_empty_line_does_nothing(room: Room) -> None:
    type_in(room, "\n  \nSELECT 1 AS a;\n")
    assert room.shown() == "a\n1\n"
    assert room.said() == ""


def test_what_was_typed_is_kept_for_the_next_session(room: Room) -> None:
    type_in(room, "SELECT 1 AS a;\n")
    assert "SELECT 1 AS a;" in _history_file().read_text()
    assert _history_file().stat().st_mode & 0o077 == 0
    type_in(room, "\x1b[A\n")
    assert room.shown() == "a\n1\n" * 2


def test_a_home_that_cannot_be_written_keeps_the_prompt(room: Room, tmp_path: Path) -> None:
    (tmp_path / "state").write_text("a file where the folder should be")
    type_in(room, "SELECT 1 AS a;\n")
    assert room.shown() == "a\n1\n"


def test_a_dumb_terminal_is_enough(room: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "dumb")
    type_in(room, "SELECT 1 AS a,\n2 AS b;\n")
    assert room.shown() == "a,b\n1,2\n"


def test_d_lists_what_there_is(social: Room) -> None:
    run_command(social.session, "\\d")
    shown = social.shown()
    for name in ("person", "knows", "social", "early"):
        assert name in shown
    assert social.said() == ""


def test_d_in_an_empty_database_tells_how_to_begin(room: Room) -> None:
    run_command(room.session, "\\d")
    assert "CREATE TABLE" in room.said()


@pytest.mark.parametrize(
    ("name", "column"), [("person", "pid"), ("KNOWS", "ts"), ("social", "knows"), ("early", "knows")]
)
def test_d_describes_a_name(social: Room, name: str, column: str) -> None:
    run_command(social.session, f"\\d {name}")
    assert column in social.shown()
    assert social.said() == ""


def test_d_describes_an_element_of_a_snapshot(social: Room) -> None:
    run_command(social.session, "\\d early.knows")
    assert "e_id" in social.shown()


def test_d_with_an_unknown_name_says_what_is_near(social: Room) -> None:
    run_command(social.session, "\\d persn")
    assert social.said() == "no table, graph, snapshot, sampler, cache or task is named persn; did you mean person?\n"


def test_lists_take_a_pattern(social: Room) -> None:
    run_command(social.session, "\\dt p*")
    shown = social.shown()
    assert "person" in shown
    assert "knows" not in shown
    run_command(social.session, "\\dg")
    assert "social" in social.shown()
    run_command(social.session, ".snapshots")
    assert "early" in social.shown()


@pytest.mark.parametrize("nothing", [";", ";;", "-- a comment", "/* a\ncomment */;"])
def test_nothing_to_run_is_no_unfinished_statement(room: Room, nothing: str) -> None:
    type_in(room, f"SELECT 1 AS a;\n{nothing}\n\\g\n")
    assert room.shown() == "a\n1\n" * 2
    assert room.said() == ""


def test_half_a_character_is_told_and_does_not_hold_the_prompt(room: Room) -> None:
    assert not _is_whole("SELECT '\udcc3'")
    assert _is_whole("SELECT '\udcc3'; ")
    run_typed(room.session, "SELECT '\udcc3';")
    assert "half of a character" in room.said()


@pytest.mark.parametrize("word", ["help", "?", "HELP;"])
def test_words_that_help(room: Room, word: str) -> None:
    type_in(room, f"{word}\n")
    assert "\\watch" in room.said()


def test_help_for_what_no_command_does_says_so(room: Room) -> None:
    run_command(room.session, "\\? zebra")
    assert room.said() == "no command matches zebra; \\? lists all commands\n"
    run_command(room.session, "\\? audit")
    assert room.said().startswith("AUDIT\n")


@pytest.mark.parametrize("typed", ["create snapshot", "CREATE SNAP;", "create snapshot june of shop"])
def test_the_syntax_of_a_statement_is_shown_with_clauses_and_an_example(room: Room, typed: str) -> None:
    run_command(room.session, f"\\h {typed}")
    text = room.said()
    assert text.startswith("CREATE SNAPSHOT\n")
    assert "  CREATE [ OR REPLACE ] SNAPSHOT [ IF NOT EXISTS ] name OF name\n" in text
    assert "\n  where event_time is:\n" in text
    assert re.search(r"^  ELEMENTS \(…\) ", text, re.MULTILINE)
    assert "\n  CREATE SNAPSHOT may OF shop " in text
    assert "`" not in text
    assert "](" not in text


def test_statements_are_listed_and_a_misspelt_one_is_suggested(room: Room) -> None:
    run_command(room.session, "\\h")
    listed = room.said()
    assert all(re.search(rf"^  {name}  +\w", listed, re.MULTILINE) for name in ("ALTER TASK", "COMMIT", "SELECT"))
    assert listed.endswith("\\h STATEMENT shows a statement's syntax and clauses, and an example.\n")
    run_command(room.session, "\\h create")
    assert len(re.findall(r"^  CREATE ", room.said(), re.MULTILINE)) == 12
    run_command(room.session, "\\h craete snapshot")
    assert room.said() == '\\h: no statement begins with "craete snapshot"; did you mean CREATE SNAPSHOT?\n'


def test_timing_leaves_out_what_the_pager_took(social: Room) -> None:
    with io.StringIO() as screen:
        pager = Pager(stream=cast(TextIO, screen))
        pager.pipe("sleep 0.5; cat > /dev/null")
        social.shell.output = Output("csv", cast(TextIO, pager))
        social.shell.timing = True
        social.shell.execute("SELECT 1 AS a")
        pager.pipe(None)
        assert pager.waited > 0.3
    assert float(social.said().split()[1]) < 0.3


def test_a_command_of_another_shell_names_the_statement(room: Room) -> None:
    run_command(room.session, "\\copy a TO 'b'")
    assert room.said() == "unknown command \\copy; write COPY t TO 'file' or COPY t FROM 'file'\n"


@pytest.mark.parametrize("command", ["\\nd", "\\unset", "\\i", ".once"])
def test_a_command_without_what_it_needs_asks_for_it(room: Room, command: str) -> None:
    run_command(room.session, command)
    assert re.match(r"\S+: missing argument", room.said())


def test_another_database_is_called_new_where_it_is(room: Room, tmp_path: Path) -> None:
    run_command(room.session, f"\\open {tmp_path / 'other'}")
    assert room.said() == "connected to other, a new database\n"
    run_command(room.session, f"\\open {tmp_path / 'other'}")
    assert room.said() == "connected to other\n"


def test_a_table_goes_to_a_file_as_its_suffix_says(room: Room, tmp_path: Path) -> None:
    room.session.set("format", "table")
    run_typed(room.session, f"SELECT 1 AS a, NULL AS b \\g {tmp_path / 'one.jsonl'}")
    run_command(room.session, f"\\g {tmp_path / 'one.parquet'}")
    run_command(room.session, f"\\o {tmp_path / 'more.csv'}")
    run_command(room.session, "\\timing off")
    room.shell.execute("SELECT 3 AS d")
    run_command(room.session, "\\o")
    room.shell.execute("SELECT 2 AS c")
    assert (tmp_path / "one.jsonl").read_text() == '{"a": 1, "b": null}\n'
    assert (tmp_path / "one.parquet").read_bytes()[:4] == b"PAR1"
    assert (tmp_path / "more.csv").read_text() == "d\n3\n"
    assert room.shown().endswith("1 row\n")
    room.session.set("format", "tsv")
    run_command(room.session, f"\\g {tmp_path / 'two.csv'}")
    assert (tmp_path / "two.csv").read_text() == "a\tb\n1\t\n"


def test_an_unknown_command_says_what_is_near(room: Room) -> None:
    run_command(room.session, "\\timng")
    assert room.said() == "unknown command \\timng; did you mean \\timing?\n"
    run_command(room.session, ".zzzzzz")
    assert room.said() == "unknown command .zzzzzz; \\? lists the commands\n"


def test_timing_tells_how_long_a_statement_took(room: Room) -> None:
    run_command(room.session, "\\timing")
    room.shell.execute("SELECT 1 AS a")
    assert "Time: 0." in room.said()
    run_command(room.session, "\\timing off")
    room.shell.execute("SELECT 1 AS a")
    assert "Time" not in room.said()


def test_modes_change_how_results_look(room: Room) -> None:
    run_command(room.session, ".mode json")
    room.shell.execute("SELECT 1 AS a")
    assert room.shown() == '[\n  {"a": 1}\n]\n'
    run_command(room.session, ".mode xml")
    assert "format cannot be 'xml'" in room.said()
    assert room.shell.output.format == "json"


def test_expanded_display_gives_a_value_a_line(room: Room) -> None:
    run_command(room.session, ".mode table")
    run_command(room.session, "\\x")
    room.shell.execute("SELECT 1 AS a, NULL AS long_name")
    assert room.shown().splitlines()[1:] == ["a         | 1", "long_name | NULL", "1 row"]


def test_results_go_to_a_file_and_back(room: Room, tmp_path: Path) -> None:
    run_command(room.session, f"\\o {tmp_path / 'out.csv'}")
    room.shell.execute("SELECT 1 AS a")
    run_command(room.session, "\\o")
    room.shell.execute("SELECT 2 AS b")
    assert (tmp_path / "out.csv").read_text() == "a\n1\n"
    assert room.shown() == "b\n2\n"
    run_command(room.session, f"\\o {tmp_path}")
    assert "Is a directory" in room.said()


def test_a_file_runs_from_the_prompt(room: Room, tmp_path: Path) -> None:
    (tmp_path / "q.sql").write_text("SELECT 1 AS a; SELECT 2 AS b")
    run_command(room.session, f"\\i {tmp_path / 'q.sql'}")
    assert room.shown() == "a\n1\nb\n2\n"
    run_command(room.session, "\\i nope.sql")
    assert room.said() == "\\i: No such file or directory: nope.sql\n"


def test_the_help_lists_every_command(room: Room) -> None:
    run_command(room.session, "\\?")
    said = room.said()
    assert all(name in said for command in COMMANDS for name in command.names)
    assert room.shown() == ""


def test_each_name_is_one_command() -> None:
    names = [name for command in COMMANDS for name in command.names]
    assert len(names) == len(set(names))
    assert all(is_command(name) and find(name) is not None for name in names)
    assert not is_command("SELECT 1")


def test_leaving_is_a_command(room: Room) -> None:
    with pytest.raises(Leave):
        run_command(room.session, "\\q")


def test_names_follow_the_statements(room: Room) -> None:
    assert room.shell.names()["tables"] == []
    room.shell.execute("CREATE TABLE fresh (a INTEGER)")
    assert room.shell.names()["tables"] == ["fresh"]


def test_names_follow_other_processes_too(room: Room, tmp_path: Path) -> None:
    room.session.open(str(tmp_path / "shared"))
    assert room.session.known().tables == ()
    with snapdb.connect(tmp_path / "shared") as other:
        other.script("CREATE TABLE theirs (a INTEGER)")
    assert room.session.known().tables == ("theirs",)

"""The prompt in a pseudo-terminal, as a person has it."""

from __future__ import annotations

import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

import snapdb
from tests.support.terminal import Terminal, environment

pytestmark = pytest.mark.slow

GRAPH = """
CREATE TABLE person AS SELECT i AS pid FROM range(400) r(i);
CREATE TABLE knows AS SELECT i % 400 AS a, (i * 7 + 1) % 400 AS b, i AS ts FROM range(4000) r(i);
CREATE PROPERTY GRAPH social VERTEX TABLES (person KEY (pid)) EDGE TABLES (knows SOURCE KEY (a) REFERENCES person
  DESTINATION KEY (b) REFERENCES person EVENT TIME (ts));
CREATE SNAPSHOT early OF social FOR EVENT_TIME AS OF 2000;
"""
ENDLESS_SAMPLE = "SAMPLE FROM early SEEDS (SELECT pid FROM person) AS person FANOUT (knows => [3, 3]) EPOCHS 1000000;"
ENDLESS_SELECT = "SELECT count(*) FROM range(10000000) a, range(10000000) b WHERE a.range * b.range % 7 = 8;"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a database, and nothing else of a person's."""
    folder = tmp_path_factory.mktemp("home")
    with snapdb.connect(folder / "shop.snapdb") as database:
        database.script(GRAPH)
    return folder


@pytest.fixture(scope="module")
def shared(home: Path) -> Iterator[Terminal]:
    """One session for the tests that leave it as they found it."""
    editor = home / "editor.sh"
    editor.write_text("#!/bin/sh\nsed -i 's/before/after/' \"$1\"\n")
    editor.chmod(0o755)
    variables = environment(home, EDITOR=str(editor), PAGER="head -n 6; echo END OF PAGER")
    with Terminal(["shop.snapdb"], variables, home) as terminal:
        terminal.ready()
        yield terminal


@pytest.fixture
def prompt(shared: Terminal) -> Terminal:
    """The shared session at an empty prompt."""
    shared.forget()
    return shared


def test_a_prompt_creates_a_database_only_in_a_directory_that_exists(tmp_path: Path) -> None:
    with Terminal(["new.snapdb", "--no-config"], environment(tmp_path), tmp_path) as terminal:
        terminal.expect("new.snapdb does not exist, so a new database is created")
        terminal.run("SHOW TABLES;")
    assert (tmp_path / "new.snapdb" / "catalog.sqlite").exists()
    with Terminal(["no/new.snapdb", "--no-config"], environment(tmp_path), tmp_path) as terminal:
        terminal.expect("cannot create a database")
        assert terminal.end() == 1
    assert not (tmp_path / "no").exists()


def test_tab_completes_the_only_name_there_is(prompt: Terminal) -> None:
    prompt.ready()
    prompt.send("SELECT 'tab' AS t, count(*) FROM pers")
    prompt.expect(r"FROM pers")
    prompt.send("\t")
    prompt.expect(r"FROM person")
    prompt.send(";\r")
    prompt.expect(r"tab +│ +400")


def test_tab_offers_what_the_grammar_takes(prompt: Terminal) -> None:
    prompt.ready()
    prompt.send("REFRESH SNAPSHOT early ")
    prompt.expect(r"REFRESH SNAPSHOT early")
    prompt.send("\t")
    prompt.expect(r"DRY RUN")
    prompt.expect(r"FULL")
    prompt.send("\x03")


def test_a_statement_goes_on_until_its_semicolon(prompt: Terminal) -> None:
    prompt.send("SELECT 'several' AS x,\r  'lines' AS y\r;\r")
    prompt.expect(r"several +│ lines")
    assert "...> " in prompt.transcript


@pytest.mark.parametrize("statement", [ENDLESS_SELECT, ENDLESS_SAMPLE], ids=["select", "sample"])
def test_ctrl_c_stops_a_statement_and_the_next_one_runs(prompt: Terminal, statement: str) -> None:
    prompt.send(statement + "\r")
    prompt.expect(r"--:--|━|0:00:0")  # the line that moves tells that it runs
    prompt.send("\x03")
    prompt.expect("interrupted")
    prompt.line("SELECT 'alive' || 1 AS still;")
    prompt.expect("alive1")


def test_watch_repeats_until_ctrl_c(prompt: Terminal) -> None:
    prompt.send("SELECT 'seen' AS w \\watch 0.1\r")
    prompt.expect(r"every 0.1 s, run 3")
    prompt.send("\x03")
    prompt.expect(r"stopped after \d+ runs")
    prompt.line("SELECT 'alive' || 2 AS still;")
    prompt.expect("alive2")


def test_dropping_is_confirmed_with_all_that_goes(prompt: Terminal) -> None:
    prompt.send("DROP TABLE knows CASCADE;\r")
    prompt.expect(r"drop table knows and its dependents \(graph social, snapshot early\)\? \[y/N\]")
    prompt.send("\r")
    prompt.expect("nothing was changed")
    prompt.line("CREATE TABLE brief (a INTEGER);")
    prompt.line("DROP TABLE brief;")
    prompt.expect(r"drop table brief\? \[y/N\]")
    prompt.send("y\r")
    prompt.expect("table brief dropped")


def test_a_shell_command_runs(prompt: Terminal) -> None:
    prompt.send("\\! echo from the $((20 + 22)) shell\r")
    prompt.expect("from the 42 shell")


def test_the_last_statement_is_changed_in_an_editor(prompt: Terminal) -> None:
    prompt.send("SELECT 'before the edit' AS x;\r")
    prompt.line("\\e")
    prompt.expect(r"snapdb> SELECT 'after the edit' AS x;")
    prompt.send("\r")
    prompt.expect(r"│ after the edit")


def test_long_results_go_through_the_pager_and_tables_say_what_they_leave_out(prompt: Terminal) -> None:
    prompt.send("SELECT i FROM range(30) r(i);\r")
    prompt.expect("END OF PAGER")
    prompt.line("\\pager off")
    prompt.line("SELECT 'row ' || i AS r FROM range(30) r(i);")
    prompt.expect("row 29")
    prompt.line("SELECT i FROM range(1000) r(i);")
    prompt.expect(r"1,000 rows \(40 shown\); \\x, \\maxrows all and \\pager on show all")


@pytest.mark.skipif(shutil.which("less") is None, reason="less is not installed")
def test_a_wide_result_scrolls_sideways_in_less(home: Path) -> None:
    with Terminal(["shop.snapdb"], environment(home, PAGER="less"), home) as terminal:
        terminal.line("SELECT i, repeat('x', 100) AS x, 'end' || i AS far FROM range(30) r(i);")
        terminal.expect(r"│ i +│|│ +i │")
        assert "end0" not in terminal.text
        terminal.send("\x1b)" * 2)  # half a screen to the right each; three lead beyond the column
        terminal.expect("end0")
        terminal.send("q")
        terminal.line("SELECT repeat('x', 100) AS x, 'end' || 5 AS far;")
        terminal.expect("1 cell cut")
        terminal.line("\\pager on")
        terminal.line("SELECT repeat('x', 100) AS x, 'end' || 5 AS far;")
        terminal.expect(r"\(END\)")
        terminal.send("\x1b)" * 2)  # half a screen to the right each; three lead beyond the column
        terminal.expect("end5")
        terminal.send("q")
        terminal.line("\\q")
        assert terminal.end() == 0


def test_ctrl_z_is_no_character_of_a_statement(prompt: Terminal) -> None:
    prompt.send("SELECT 'half\x1away' AS x;\r")  # there is no shell here that it could go back to
    prompt.expect("│ halfway")


def test_history_outlives_the_session_and_an_open_transaction_does_not(prompt: Terminal, home: Path) -> None:
    prompt.send("SELECT 'kept' AS a,\r 'whole' AS b;\r")
    prompt.expect("kept +│ whole")
    with Terminal(["shop.snapdb"], environment(home), home) as terminal:
        terminal.ready()
        terminal.send("SELECT 'stopped' AS a;\r\x03")  # while it loads
        terminal.line("BEGIN;")
        terminal.ready(r"snapdb\*> ?")
        terminal.send("\x04")
        terminal.expect("roll it back")
        terminal.send("\r")
        terminal.line("ROLLBACK;")
        terminal.ready()
        terminal.send("\x12kept")  # Ctrl-R
        terminal.expect(r"SELECT 'kept' AS a,")
        terminal.send("\r\r")
        terminal.expect("kept +│ whole")
        terminal.line("BEGIN;")
        terminal.ready(r"snapdb\*> ?")
        terminal.process.kill(signal.SIGTERM)
        assert terminal.end() == 143
        assert "the open transaction was rolled back" in terminal.transcript


def test_a_dumb_terminal_gets_no_control_codes(home: Path) -> None:
    with Terminal([], environment(home, TERM="dumb"), home) as terminal:
        terminal.line("SELECT 'dumb' AS a,")
        terminal.send("'but' AS b;\r")
        terminal.expect("dumb +│ but")
        terminal.line("\\q")
        assert terminal.end() == 0
        assert b"\x1b[3" not in terminal.raw


def test_no_color_a_narrow_window_and_another_locale_are_enough(home: Path) -> None:
    variables = environment(home, NO_COLOR="1", LC_ALL="C", LANG="C", PYTHONUTF8="0", PYTHONCOERCECLOCALE="0")
    with Terminal([], variables, home, columns=20) as terminal:
        terminal.line("SELECT 1 AS a_rather_long_name, 2 AS b;")
        terminal.expect(r"1 row")
        terminal.line("SELECT 'n' || 7 AS c;")
        terminal.expect("n7")
        terminal.line("\\q")
        assert terminal.end() == 0
        assert b"\x1b[1m" not in terminal.raw
        assert b"38;5" not in terminal.raw

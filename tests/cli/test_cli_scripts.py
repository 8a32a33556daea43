"""What scripts lean on: parameters, output files, limits, signals, and streams that are not as they should be."""

from __future__ import annotations

import itertools
import json
import os
import shlex
import signal
import stat
import subprocess
import sys
import time
from contextlib import AbstractContextManager
from pathlib import Path

import click
import pytest

import snapdb
from snapdb_cli.commands.maintenance import bench
from snapdb_cli.main import main
from tests.support.cli_reference import reference
from tests.support.inside.cli import Diagnostics, ExitCode, _atomic_file
from tests.support.places import ROOT
from tests.support.processes import FreshProcess
from tests.support.program import run
from tests.support.refusals import refused
from tests.support.waiting import PATIENCE, spawned

PAGE = ROOT / "docs" / "command-line.md"
MARK = "<!-- generated from the program: SNAPDB_RECORD=1 pytest tests/cli/test_cli_scripts.py writes it anew -->\n"


def rows(*words: str | Path) -> list[dict[str, object]]:
    """The only result of a command line."""
    done = run("--format", "jsonl", *words)
    assert done.exit_code == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def process(*words: str | Path, **options: object) -> AbstractContextManager[subprocess.Popen[str]]:
    """The command line in a process of its own."""
    return spawned("-m", "snapdb_cli", *map(str, words), **options)


def usage_error(*words: str | Path) -> str:
    """What is said of a command line that makes no sense; nothing is run and nothing is shown."""
    done = run(*words)
    assert (done.exit_code, done.stdout) == (2, ""), done.stderr
    return done.stderr.partition("Error: ")[2].strip()


def test_parameters_are_typed_as_sql_would_read_them() -> None:
    given = {"i": "42", "d": "1.50", "f": "1e3", "t": "TRUE", "n": "null", "s": "'42'", "z": "007", "w": "it's"}
    marks = ", ".join(f"typeof(${name}) AS {name}" for name in given)
    words = [f"--param={name}={value}" for name, value in given.items()]
    (types,) = rows(*words, "-c", f"SELECT {marks}")
    assert list(types.values()) == [
        "INTEGER",
        "DECIMAL(3,2)",
        "DOUBLE",
        "BOOLEAN",
        '"NULL"',
        "VARCHAR",
        "VARCHAR",
        "VARCHAR",
    ]
    assert rows("--param", "w=it's; DROP TABLE t --", "-c", "SELECT $w AS w") == [{"w": "it's; DROP TABLE t --"}]
    assert rows("--param", "a==b", "-c", "SELECT $a AS a") == [{"a": "=b"}]


def test_a_parameter_that_is_a_date_compares_with_dates(tmp_path: Path) -> None:
    statements = [
        "-c",
        "CREATE TABLE sold AS SELECT DATE '2026-07-01' + i::INTEGER AS day FROM range(5) r(i)",
        "-c",
        "SELECT count(*) AS n FROM sold WHERE day >= $since; DELETE FROM sold WHERE day < $since",
    ]
    assert rows(tmp_path / "db", "--param", "since=2026-07-03", *statements) == [{"n": 3}]
    assert rows(tmp_path / "db", "-c", "SELECT count(*) AS n FROM sold") == [{"n": 3}]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("-c 'SELECT $day'", "$day has no value; add --param day=…"),
        ("-c 'SELECT $day' --param days=1", "$day has no value; add --param day=… (did you mean days?)"),
        (
            "-c 'SELECT $a' --param a=1 --param b=2",
            "no statement uses $b, which --param passes; their parameters are $a",
        ),
        ("-c 'SELECT 1' --param b=2", "no statement uses $b, which --param passes; they have no parameters"),
        ("-c 'SELECT ?' --param b=2", "? has no value on the command line; write $name, and pass --param name=value"),
        ("-c 'SELECT $1' --param b=2", "$1 has no value on the command line; write $name, and pass --param name=value"),
        ("-c 'SELECT $a' --param a=1 --param a=2", "--param a is specified twice"),
        ("-c 'SELECT $a' --param a", "--param must be name=value, found 'a'"),
        (
            "--format json --null -",
            "--null is supported only for table, csv, tsv, markdown, but json has its own representation of NULL",
        ),
        ("--no-header", "--no-header is supported only for csv and tsv, not for table"),
        ("--format csv --max-rows 5", "--max-rows is supported only for tables, not for csv; add LIMIT 5 to the query"),
        ("--null a,b", "--null must not contain a comma, tab, quote or line end"),
    ],
)
def test_options_that_make_no_sense_are_refused_before_anything_runs(words: str, said: str) -> None:
    assert usage_error(*shlex.split(words)) == said


def test_null_and_the_header_are_as_asked() -> None:
    query = ["-c", "SELECT NULL AS a, '' AS b, 'NA' AS c"]
    assert run("--format", "csv", "--null", "NA", "--no-header", *query).stdout == 'NA,,"NA"\n'
    assert run("--format", "tsv", "--null", r"\N", *query).stdout == "a\tb\tc\n\\N\t\tNA\n"
    assert run("--format", "markdown", "--null", "", *query).stdout.splitlines()[-1] == "|  |  | NA |"
    table = run("--null", "NA", *query).stdout.splitlines()[4]
    assert [cell.strip() for cell in table.strip("│").split("│")] == ["NA", "", "'NA'"]


def test_a_table_that_is_cut_says_so() -> None:
    query = ["-c", "SELECT i FROM range(5000) r(i)"]
    assert run("--max-rows", "3", *query).stdout.splitlines()[-2:] == ["└────────┘", "5,000 rows (3 shown)"]
    assert run(*query).stdout.splitlines()[-1] == "5,000 rows"


def test_a_script_shows_all_rows_on_a_terminal_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("snapdb_cli.output.Output.terminal", True)
    monkeypatch.setenv("NO_COLOR", "1")
    shown = run("-c", "SELECT i FROM range(500) r(i)").stdout.splitlines()
    assert shown[-1] == "500 rows"
    assert len(shown) == 506


def test_an_output_file_takes_the_format_of_its_suffix(tmp_path: Path) -> None:
    for name, start in (
        ("a.csv", "n\n1\n"),
        ("a.jsonl", '{"n": 1}\n'),
        ("a.md", "| n |\n"),
        ("a.txt", "┌"),
        ("a", "┌"),
    ):
        done = run("-c", "SELECT 1 AS n", "-o", tmp_path / name)
        assert (done.exit_code, done.stdout, done.stderr) == (0, "", "")
        assert (tmp_path / name).read_text().startswith(start)
    run("-c", "SELECT 1 AS n", "-o", tmp_path / "b.csv", "--format", "tsv", "-c", "SELECT 2 AS a, 3 AS b")
    assert (tmp_path / "b.csv").read_text() == "n\n1\na\tb\n2\t3\n"


@pytest.mark.parametrize("name", ["q.xls", "q.csv.gz", "q.XLS", "q.feather"])
def test_an_output_file_of_an_unknown_suffix_is_refused(name: str, tmp_path: Path) -> None:
    done = run("-c", "SELECT 1 AS n", "-o", tmp_path / name)
    assert (done.exit_code, done.stdout) == (2, "")
    assert "use one of .arrow, .arrows, .csv, .json" in done.stderr.replace("\n", " ")
    assert list(tmp_path.iterdir()) == []
    done = run("-c", "SELECT 1 AS n", "-o", tmp_path / name, "--format", "csv")
    assert (done.exit_code, (tmp_path / name).read_text()) == (0, "n\n1\n")


def test_an_output_file_stays_as_it_was_when_a_statement_fails(tmp_path: Path) -> None:
    path = tmp_path / "out.csv"
    path.write_text("before")
    path.chmod(0o640)
    late = "SELECT CASE WHEN i = 250000 THEN error('late') ELSE i END AS i FROM range(300000) r(i)"
    for texts in (["SELECT 1 AS n", "SELECT nope"], [late]):
        failed = run(*(word for text in texts for word in ("-c", text)), "-o", path)
        assert failed.exit_code == 1
        assert path.read_text() == "before"
    assert os.listdir(tmp_path) == ["out.csv"]
    continued = run("--on-error", "continue", "-c", "SELECT nope", "-c", "SELECT 1 AS n", "-o", path)
    assert (continued.exit_code, path.read_text()) == (1, "n\n1\n")
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert os.listdir(tmp_path) == ["out.csv"]


def test_a_link_is_followed_and_a_pipe_is_written_itself(tmp_path: Path) -> None:
    (tmp_path / "real.csv").write_text("before")
    (tmp_path / "link.csv").symlink_to("real.csv")
    assert run("-c", "SELECT 1 AS n", "-o", tmp_path / "link.csv").exit_code == 0
    assert (tmp_path / "link.csv").is_symlink()
    assert (tmp_path / "real.csv").read_text() == "n\n1\n"
    with _atomic_file(Path(os.devnull)) as target:
        assert target.path == Path(os.devnull)


def test_an_output_that_cannot_be_written_is_said_before_anything_runs(tmp_path: Path) -> None:
    assert "is a directory" in usage_error("-c", "SELECT 1", "-o", tmp_path)
    failed = run(tmp_path / "db", "-c", "CREATE TABLE t (a INTEGER)", "-o", tmp_path / "none" / "x.csv")
    assert failed.exit_code == 1
    assert "No such file or directory" in failed.stderr
    assert not (tmp_path / "db").exists()


def test_a_byte_order_mark_is_no_part_of_a_script() -> None:
    assert run("--format", "csv", stdin="SELECT 1 AS n".encode("utf-8-sig")).stdout == "n\n1\n"
    assert "stdin is not valid UTF-8" in run(stdin=b"SELECT '\xff'").stderr


@pytest.mark.parametrize("mode", ["stop", "continue"])
def test_a_long_script_is_read_in_one_go(mode: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("snapdb_cli.commands.batch.run", lambda *_: ExitCode.OK)
    script = tmp_path / "long.sql"

    def calls(statements: int) -> int:
        """How many functions it takes to read so many statements."""
        script.write_text("SELECT 1;\n" * statements + "SELEC 2;\n")
        count = itertools.count()
        sys.setprofile(lambda frame, event, argument: next(count) if event == "call" else None)
        try:
            failed = run("-f", script, "--on-error", mode)
        finally:
            sys.setprofile(None)
        assert failed.exit_code == 1
        assert f"line {statements + 1}" in failed.stderr
        return next(count)

    calls(1)  # imports what it takes
    assert calls(1200) < 3 * calls(600)


def test_a_disk_that_is_full_is_an_error_and_no_traceback() -> None:
    with Path("/dev/full").open("w") as full, process("-c", "SELECT 1 AS n", stdout=full) as failed:
        _, stderr = failed.communicate(timeout=PATIENCE)
    assert failed.returncode == 1
    assert "No space left on device" in stderr
    assert "Traceback" not in stderr


def test_sigterm_rolls_back_and_leaves_nothing_behind(tmp_path: Path) -> None:
    script = """BEGIN; CREATE TABLE t AS SELECT 1 AS a; SELECT 'begun' AS word;
        SELECT count(*) FROM range(10000000000) a, range(1000000) b; COMMIT"""
    (tmp_path / "spill").mkdir()
    room = os.environ | {"TMPDIR": str(tmp_path / "spill")}
    with process(tmp_path / "db", "--format", "csv", "-c", script, env=room) as running:
        assert running.stdout is not None
        assert running.stdout.readline() + running.stdout.readline() == "word\nbegun\n"
        time.sleep(0.3)
        running.send_signal(signal.SIGTERM)
        stdout, stderr = running.communicate(timeout=PATIENCE)
    said = f"created the database {tmp_path / 'db'}\nterminated\n"
    assert (running.returncode, stdout, stderr) == (143, "", said)
    assert os.listdir(tmp_path / "spill") == []
    with snapdb.connect(tmp_path / "db") as db:
        assert db.execute("SHOW TABLES").fetchall() == []


def test_a_terminal_that_is_closed_ends_a_temporary_database(tmp_path: Path) -> None:
    room = os.environ | {"TMPDIR": str(tmp_path)}
    words = [
        "--format",
        "csv",
        "-c",
        "SELECT 1 AS n",
        "-c",
        "SELECT count(*) FROM range(10000000000) a, range(999999) b",
    ]
    with process(*words, env=room) as running:
        assert running.stdout is not None
        assert running.stdout.readline() == "n\n"
        running.send_signal(signal.SIGHUP)
        running.communicate(timeout=PATIENCE)
    assert running.returncode == 129
    assert os.listdir(tmp_path) == []


def test_threads_are_as_many_as_asked() -> None:
    assert rows("--threads", "1", "-c", "SELECT 1 AS n") == [{"n": 1}]
    assert "0 is not in the range" in usage_error("--threads", "0", "-c", "SELECT 1")


def test_every_command_shows_examples() -> None:
    for name in ("", *main.commands):
        shown = run(*([name] if name else []), "--help").stdout
        assert "Examples:\n" in shown
        assert f"snapdb {name}".strip() in shown.partition("Examples:")[2]


def test_the_reference_in_the_docs_is_that_of_the_program() -> None:
    assert isinstance(main, click.Group)
    written, mark, _ = PAGE.read_text().partition(MARK)
    assert mark, "docs/command-line.md has no generated part"
    expected = f"{written}{mark}\n{reference(main)}"
    if os.environ.get("SNAPDB_RECORD"):
        PAGE.write_text(expected)
    assert PAGE.read_text() == expected


def test_help_shows_the_syntax_of_statements_and_the_help_of_commands() -> None:
    assert run("help", "create", "tag").stdout.startswith("CREATE TAG\n")
    assert "  CREATE TASK " in run("help").stdout
    assert run("help", "export").stdout.startswith("Usage: snapdb export ")
    assert "did you mean CREATE TAG?; snapdb help lists" in usage_error("help", "create", "tga")


def test_benchmarks_need_the_source_checkout(tmp_path: Path) -> None:
    with refused("benchmark", "make bench"):
        bench("tiny", None, "table", Diagnostics(quiet=True), tmp_path)


def test_the_tiny_graph_is_for_snapdb_alone() -> None:
    assert "the tiny graph has fewer seeds than one batch" in usage_error("bench", "--size", "tiny", "--against", "dgl")


def test_benchmarks_are_shown_as_one_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "benchmarks").mkdir()
    (tmp_path / "benchmarks" / "__init__.py").touch()
    program = """import json, sys
print("measuring", file=sys.stderr)
print(json.dumps([{"system": s, "graph": sys.argv[1], "batches_per_s": 2.5} for s in ["snapdb", *sys.argv[2:]]]))
"""
    (tmp_path / "benchmarks" / "quick.py").write_text(program)
    assert bench("tiny", "pyg", "csv", Diagnostics(quiet=True), tmp_path) is ExitCode.OK
    assert capsys.readouterr().out == "system,graph,batches_per_s\nsnapdb,tiny,2.5\npyg,tiny,2.5\n"
    (tmp_path / "benchmarks" / "quick.py").write_text('import sys; sys.exit("pyg is not installed")')
    with refused("benchmark", "pyg is not installed"):
        bench("tiny", "pyg", "csv", Diagnostics(quiet=True), tmp_path)


SWALLOWED = """
import os, signal, time
from snapdb_cli.diagnostics import terminable

class Loud:
    def __del__(self):
        os.kill(os.getpid(), signal.SIGTERM)
        for _ in range(1000):  # the handler runs in here, where Python drops what it raises
            pass

with terminable():
    Loud()
    time.sleep(600)
"""


def test_a_request_to_end_that_a_finalizer_swallows_is_not_lost(fresh_process: FreshProcess) -> None:
    done = fresh_process(SWALLOWED)
    assert (done.returncode, done.stderr) == (143, "")

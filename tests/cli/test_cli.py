"""The command line: what goes to stdout, what goes to stderr, and the exit code."""

from __future__ import annotations

import csv
import io
import json
import os
import signal
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from snapdb import Database, connect
from snapdb.error_codes import _example_database
from snapdb.errors import CommitConflict, LockedError
from snapdb.interrupts import interruptible
from snapdb.sql import parse
from snapdb_cli.main import FORMATS, main
from tests.support.inside.cli import _TEXTUAL, BINARY, Diagnostics, ExitCode, Progress, worse
from tests.support.refusals import refused
from tests.support.waiting import PATIENCE, spawned, until

SLOW = "SELECT count(*) FROM range(10000000000) a, range(1000000) b"

SAMPLE = "SAMPLE FROM s SEEDS (SELECT id FROM person) AS person FANOUT (knows => [2])"


def snapdb(*words: str | Path, stdin: str | bytes | None = None) -> Result:
    """The command line in this process."""
    return CliRunner().invoke(main, [str(word) for word in words], input=stdin)


def process(*words: str | Path, **options: object) -> AbstractContextManager[subprocess.Popen[str]]:
    """The command line in a process of its own."""
    return spawned("-m", "snapdb_cli", *map(str, words), **options)


def rows(result: Result) -> object:
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """A database with one table of three rows."""
    path = tmp_path / "shop.snapdb"
    made = snapdb(path, "-c", "CREATE TABLE item AS SELECT i AS id, 'item ' || i AS name FROM range(3) r(i)")
    assert made.exit_code == 0, made.stderr
    return path


def test_a_table_goes_to_stdout_and_nothing_to_stderr(shop: Path) -> None:
    shown = snapdb(shop, "-c", "SELECT * FROM item ORDER BY id")
    assert shown.exit_code == 0
    assert shown.stderr == ""
    assert "item 2" in shown.stdout
    assert shown.stdout.endswith("3 rows\n")


def test_a_table_that_nobody_watches_is_whole() -> None:
    shown = snapdb("-c", "SELECT i, repeat('x', 300) AS long FROM range(500) r(i)").stdout
    assert shown.endswith("\n500 rows\n")
    assert "499" in shown
    assert "…" not in shown


def test_statements_without_rows_leave_stdout_empty(tmp_path: Path) -> None:
    created = f"created the database {tmp_path / 'db'}\n"
    for statement in ("CREATE TABLE t (a INTEGER)", "INSERT INTO t VALUES (1)", "DROP TABLE t"):
        done = snapdb(tmp_path / "db", "-c", statement)
        assert (done.exit_code, done.stdout, done.stderr) == (0, "", created)
        created = ""


def test_csv_tells_null_from_an_empty_text() -> None:
    shown = snapdb("--format", "csv", "-c", "SELECT NULL AS a, '' AS b, 'x,\"y\"\nz' AS c, 1.50 AS d, 'é' AS e").stdout
    assert shown == 'a,b,c,d,e\n,"","x,""y""\nz",1.50,é\n'
    assert list(csv.reader(io.StringIO(shown)))[1] == ["", "", 'x,"y"\nz', "1.50", "é"]


def test_tsv_separates_by_tabs() -> None:
    assert snapdb("--format", "tsv", "-c", "SELECT 1 AS a, 'x y' AS b").stdout == "a\tb\n1\tx y\n"


def test_json_is_an_array_of_objects_for_each_result() -> None:
    shown = snapdb("--format", "json", "-c", "SELECT 1 AS a", "-c", "SELECT 2 AS b WHERE false; SELECT 3 AS c")
    decoder, text, found = json.JSONDecoder(), shown.stdout, []
    while text.strip():
        value, end = decoder.raw_decode(text.lstrip())
        text = text.lstrip()[end:]
        found.append(value)
    assert found == [[{"a": 1}], [], [{"c": 3}]]


def test_json_writes_every_type_without_loss() -> None:
    query = """SELECT 'nan'::DOUBLE AS nan, NULL AS nothing, '\\xDE'::BLOB AS blob, sum(i) AS total, 1.10 AS price,
        TIMESTAMP '2026-07-01 12:00:00' AS ts, [1, NULL] AS list, {'k': DATE '2026-07-01'} AS struct, true AS flag
        FROM range(4) r(i)"""
    assert rows(snapdb("--format", "json", "-c", query)) == [
        {
            "nan": None,
            "nothing": None,
            "blob": "de",
            "total": 6,
            "price": 1.10,
            "ts": "2026-07-01T12:00:00",
            "list": [1, None],
            "struct": {"k": "2026-07-01"},
            "flag": True,
        }
    ]


def test_jsonl_and_markdown_write_a_line_per_row() -> None:
    query = "SELECT i, 'a|b' AS t FROM range(2) r(i)"
    assert snapdb("--format", "jsonl", "-c", query).stdout == '{"i": 0, "t": "a|b"}\n{"i": 1, "t": "a|b"}\n'
    assert snapdb("--format", "markdown", "-c", query).stdout == "| i | t |\n|---:|---|\n| 0 | a\\|b |\n| 1 | a\\|b |\n"


def test_a_large_result_streams_whole() -> None:
    shown = snapdb("--format", "csv", "-c", "SELECT i FROM range(100000) r(i)").stdout.split()
    assert len(shown) == 100_001
    assert len(set(shown)) == 100_001


def test_a_warning_is_a_line_that_names_no_place_in_the_program() -> None:
    stream = io.StringIO()
    with Diagnostics(stream=stream).hears_warnings():
        warnings.simplefilter("always")
        thread = threading.Thread(target=warnings.warn, args=("cache c is filled no further", RuntimeWarning))
        thread.start()
        thread.join()
    assert stream.getvalue() == "warning: cache c is filled no further\n"


def test_the_formats_of_the_help_are_those_of_the_output() -> None:
    assert ("table", *_TEXTUAL, *BINARY) == FORMATS


def test_statements_come_from_stdin_when_none_are_given() -> None:
    assert rows(snapdb("--format", "json", stdin="SELECT 1 AS a;\n-- done\n")) == [{"a": 1}]
    assert rows(snapdb("--format", "json", "-f", "-", stdin="SELECT 2 AS a")) == [{"a": 2}]


def test_commands_and_files_run_in_the_order_given(tmp_path: Path) -> None:
    (tmp_path / "two.sql").write_text("SELECT 2 AS n;", encoding="utf-8-sig")
    (tmp_path / "four.sql").write_text("SELECT 4 AS n")
    shown = snapdb(
        "--format=jsonl",
        "-cSELECT 1 AS n",
        "-f",
        tmp_path / "two.sql",
        "--command",
        "SELECT 3 AS n",
        "-f",
        tmp_path / "four.sql",
        "-c",
        "SELECT 5 AS n",
    )
    assert shown.stdout == "".join(f'{{"n": {n}}}\n' for n in range(1, 6))


def test_options_may_stand_before_and_after_the_database(shop: Path) -> None:
    before = snapdb("--format", "csv", "-c", "SELECT count(*) AS n FROM item", shop)
    after = snapdb(shop, "-c", "SELECT count(*) AS n FROM item", "--format", "csv")
    assert before.stdout == after.stdout == "n\n3\n"


def test_a_missing_file_is_a_usage_error(tmp_path: Path) -> None:
    failed = snapdb("-f", tmp_path / "nope.sql")
    assert failed.exit_code == 2
    assert "nope.sql" in failed.stderr
    assert failed.stdout == ""


def test_a_file_that_is_not_text_is_a_usage_error(tmp_path: Path) -> None:
    (tmp_path / "q.sql").write_bytes(b"SELECT '\xff'")
    failed = snapdb("-f", tmp_path / "q.sql")
    assert failed.exit_code == 2
    assert "not valid UTF-8" in failed.stderr


@pytest.mark.parametrize(
    "words", [["--format", "xml"], ["--nope"], ["a", "b"], ["--read-only"], ["dmeo"], ["-q", "demo"]]
)
def test_a_command_line_without_sense_is_a_usage_error(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    failed = snapdb(*words, "-c", "SELECT 1")
    assert failed.exit_code == 2
    assert failed.stdout == ""
    assert failed.stderr.startswith("Usage: ")
    assert os.listdir() == []


def test_nothing_runs_when_a_later_text_cannot_be_read(tmp_path: Path) -> None:
    path = tmp_path / "db"
    failed = snapdb(path, "-c", "CREATE TABLE t (a INTEGER)", "-c", "CREATE SNAPSHOT s OFF g")
    assert failed.exit_code == 1
    assert failed.stderr.startswith("ParseError: ")
    assert "^^^" in failed.stderr
    assert not path.exists()


def test_what_fails_stops_what_follows(shop: Path) -> None:
    failed = snapdb(
        shop, "--format", "csv", "-c", "SELECT 1 AS a", "-c", "SELECT nope FROM item", "-c", "SELECT 2 AS b"
    )
    assert failed.exit_code == 1
    assert failed.stdout == "a\n1\n"
    assert "nope" in failed.stderr
    assert "Traceback" not in failed.stderr


def test_on_error_continue_runs_what_follows_and_still_fails(shop: Path) -> None:
    texts = ["-c", "SELECT nope FROM item; SELEC 1; SELECT 1 AS a", "-c", "SELECT 'open", "-c", "SELECT 2 AS b"]
    failed = snapdb(shop, "--format", "csv", "--on-error", "continue", *texts)
    assert failed.exit_code == 1
    assert failed.stdout == "a\n1\nb\n2\n"
    assert failed.stderr.count("ParseError: ") == 2
    assert "nope" in failed.stderr


def test_an_error_names_its_file_and_line(tmp_path: Path) -> None:
    path = tmp_path / "q.sql"
    path.write_text("SELECT 1;\n\nSELEC 2;\n")
    for mode in ("stop", "continue"):
        failed = snapdb("-f", path, "--on-error", mode)
        assert f"in {path}" in failed.stderr
        assert "line 3" in failed.stderr
        assert "SELEC 2" in failed.stderr


def test_a_path_that_cannot_be_a_database_fails_with_its_reason(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("hello")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "x").write_text("hello")
    for name in ("file", "full", "file/below"):
        failed = snapdb(tmp_path / name, "-c", "SELECT 1")
        assert (failed.exit_code, failed.stdout) == (1, "")
        assert name in failed.stderr
        assert "internal" not in failed.stderr


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    """A small database with a graph, a snapshot and a tag."""
    with connect(tmp_path_factory.mktemp("graph") / "world.snapdb") as db:
        db.script(_example_database())
        yield db


READING = (
    "SHOW TABLES",
    "SELECT 1",
    "EXPLAIN CREATE TABLE t (a INTEGER)",
    "CHECK DATABASE",
    "VACUUM DRY RUN",
    "BEGIN; SELECT 1; COMMIT",
    "COPY (SELECT 1) TO 'x.csv'",
    "",
    "SHOW TABLES; CREATE TABLE t (a INTEGER)",
)


@pytest.mark.parametrize("text", READING)
def test_a_first_statement_that_only_reads_creates_no_database(text: str, shop: Path, tmp_path: Path) -> None:
    (tmp_path / "s.sql").write_text(text)
    for words, stdin in ((("-c", text), None), (("-f", tmp_path / "s.sql"), None), ((), text)):
        failed = snapdb(tmp_path / "shp.snapdb", *words, stdin=stdin)
        assert (failed.exit_code, failed.stdout) == (1, "")
        there_is = f"DatabaseError: no database exists at {tmp_path / 'shp.snapdb'}; did you mean {shop}?\n"
        assert failed.stderr == there_is
    assert sorted(path.name for path in tmp_path.iterdir()) == ["s.sql", "shop.snapdb"]


@pytest.mark.parametrize(
    "text",
    [
        "CREATE TABLE t (a INTEGER)",
        "BEGIN; CREATE TABLE t (a INTEGER); COMMIT",
        "DROP TABLE IF EXISTS t",
        "EXPLAIN ANALYZE CREATE TABLE t (a INTEGER)",
    ],
)
def test_a_first_statement_that_writes_creates_the_database_and_says_so(text: str, tmp_path: Path) -> None:
    new = tmp_path / "new.snapdb"
    made = snapdb(new, "-c", text, "-c", "SELECT 1")
    assert (made.exit_code, made.stderr) == (0, f"created the database {new}\n")
    quiet = snapdb(tmp_path / "other.snapdb", "-q", "-c", text)
    assert (quiet.exit_code, quiet.stderr) == (0, "")


def test_a_directory_that_is_not_there_is_never_made(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    for statement in ("SHOW TABLES", "CREATE TABLE t (a INTEGER)"):
        for place, hint in (
            ("dta/x.snapdb", f"did you mean {tmp_path / 'data'}?"),
            ("no/such/x.snapdb", f"create it first: mkdir -p {tmp_path / 'no' / 'such'}"),
        ):
            failed = snapdb(tmp_path / place, "-c", statement)
            assert failed.exit_code == 1
            assert failed.stderr.endswith(f"directory {tmp_path / place.split('/')[0]} does not exist; {hint}\n")
    assert os.listdir(tmp_path) == ["data"]
    with refused("no-directory") as missing:
        connect(tmp_path / "no" / "x.snapdb")
    assert missing.value.code == "no-directory"
    with connect(tmp_path / "data" / "x.snapdb"):  # from Python, connect itself creates
        assert os.listdir(tmp_path / "data") == ["x.snapdb"]


@pytest.mark.parametrize(
    "text",
    [
        "SELECT 1",
        "FROM person",
        "SHOW TABLES",
        "DESCRIBE person",
        "SUMMARIZE SNAPSHOT s",
        SAMPLE,
        f"AUDIT {SAMPLE}",
        "DIFF TABLE person FROM VERSION 1",
        "DIFF GRAPH g FROM VERSION 4",
        "DIFF SNAPSHOT s WITH s",
        "CHECK DATABASE",
        "COPY person TO 'x.csv'",
        "COPY SNAPSHOT s TO 'x' (FORMAT npz)",
        f"COPY ({SAMPLE}) TO 'y'",
        "VACUUM",
        "VACUUM DRY RUN",
        "BACKUP DATABASE TO 'z'",
        "EXPLAIN DROP TAG june",
        "EXPLAIN ANALYZE SELECT 1",
        "EXPLAIN ANALYZE DROP TAG june",
        "REFRESH SNAPSHOT s",
        "REFRESH SNAPSHOT s DRY RUN",
        "EXPIRE SNAPSHOTS OF g RETAIN LAST 1 DRY RUN",
        "CREATE TABLE t (a INTEGER)",
        "CREATE TAG t",
        "DELETE FROM person",
        "UPDATE person SET age = 1",
        "INSERT INTO person VALUES (4, 'd', 1)",
        "DROP TAG june",
        f"CREATE SAMPLER m AS {SAMPLE}",
        "ALTER TABLE person ADD COLUMN x INTEGER",
    ],
)
def test_what_only_reads_is_told_alike_from_a_text_and_from_its_plan(text: str, graph: Database) -> None:
    (statement,) = parse(text)
    assert statement.only_reads() == graph.plan(statement).is_read()


def test_read_only_refuses_to_write_and_to_create(shop: Path, tmp_path: Path) -> None:
    assert snapdb(shop, "--read-only", "-c", "SELECT 1").exit_code == 0
    refused = snapdb(shop, "--read-only", "-c", "DROP TABLE item")
    assert refused.exit_code == 1
    assert "internal" not in refused.stderr
    assert snapdb(tmp_path / "none", "--read-only", "-c", "SELECT 1").exit_code == 1
    assert not (tmp_path / "none").exists()


def test_help_and_version_are_data() -> None:
    shown = snapdb("--help")
    assert shown.exit_code == 0
    assert shown.stderr == ""
    assert "snapdb shop.snapdb -c" in shown.stdout
    assert "demo" in shown.stdout
    assert snapdb("--version").stdout.startswith("snapdb ")
    assert snapdb("demo", "--help").stdout.startswith("Usage: snapdb demo")


@pytest.mark.parametrize("words", [["--help"], ["--version"], ["-c", "SELEC 1"], ["-c", "CREATE SNAPSHOT s OFF g"]])
def test_help_version_and_parse_errors_load_no_engine(words: list[str]) -> None:
    program = (
        "import atexit, sys\n"
        "heavy = ('torch', 'numba', 'duckdb', 'pyarrow', 'numpy', 'prompt_toolkit', 'rich')\n"
        "atexit.register(lambda: print('loaded:', [m for m in heavy if m in sys.modules], file=sys.stderr))\n"
        "from snapdb_cli.main import main\n"
        "main()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, *words], capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert done.stderr.endswith("loaded: []\n")


def test_what_can_be_retried_has_its_own_code() -> None:
    stream = io.StringIO()
    diagnostics = Diagnostics(stream=stream)
    for error in (CommitConflict("main moved: expected 7, found 9"), LockedError("another process held it")):
        assert diagnostics.report(error) is ExitCode.RETRYABLE
    assert stream.getvalue().splitlines()[0] == "CommitConflict: main moved: expected 7, found 9"
    assert worse(ExitCode.RETRYABLE, ExitCode.OK) == 3
    assert worse(ExitCode.RETRYABLE, ExitCode.FAILED) == 1


def test_what_nobody_foresaw_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.StringIO()
    assert Diagnostics(stream=stream).report(ZeroDivisionError("division\nby zero")) is ExitCode.FAILED
    assert stream.getvalue().startswith("internal error: ZeroDivisionError: division by zero (set SNAPDB_TRACEBACK=1")
    assert stream.getvalue().count("\n") == 1
    monkeypatch.setenv("SNAPDB_TRACEBACK", "1")
    Diagnostics(stream=stream).report(ZeroDivisionError("again"))
    assert "ZeroDivisionError: again" in stream.getvalue()


def test_narration_is_for_terminals() -> None:
    stream = io.StringIO()
    Diagnostics(stream=stream).narrate("3 rows inserted")
    assert stream.getvalue() == ""


def test_a_process_fails_with_its_code_and_no_traceback(shop: Path) -> None:
    with process(shop, "-c", "SELECT * FROM itemm") as failed:
        stdout, stderr = failed.communicate(timeout=PATIENCE)
    assert failed.returncode == 1
    assert stdout == ""
    assert "itemm" in stderr
    assert "Traceback" not in stderr


def test_an_interrupt_stops_the_statement() -> None:
    with process("--format", "csv", "-c", "SELECT 1 AS n", "-c", SLOW, "-c", "SELECT 'not reached'") as running:
        assert running.stdout is not None
        assert running.stdout.readline() + running.stdout.readline() == "n\n1\n"
        time.sleep(0.5)
        running.send_signal(signal.SIGINT)
        stdout, stderr = running.communicate(timeout=PATIENCE)
    assert running.returncode == 130
    assert stdout == ""
    assert stderr == "interrupted\n"


def test_a_reader_that_goes_away_is_no_error() -> None:
    with process("--format", "csv", "-c", "SELECT i, repeat('x', 100) AS x FROM range(10000000) r(i)") as running:
        assert running.stdout is not None
        assert running.stderr is not None
        assert running.stdout.readline() == "i,x\n"
        running.stdout.close()
        assert running.wait(PATIENCE) == 141
        assert running.stderr.read() == ""


def test_a_locale_without_utf8_keeps_texts_whole() -> None:
    plain = os.environ | {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONIOENCODING": "ascii"}
    with process("-c", "SELECT length('é') AS n, 'é' AS e", "--format", "csv", env=plain) as done:
        stdout, stderr = done.communicate(timeout=PATIENCE)
    assert (done.returncode, stdout, stderr) == (0, "n,e\n1,\\xe9\n", "")


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def test_narration_reaches_a_terminal_unless_quiet() -> None:
    stream = Terminal()
    Diagnostics(stream=stream).narrate("3 rows inserted")
    Diagnostics(stream=stream, quiet=True).narrate("not this")
    assert stream.getvalue() == "3 rows inserted\n"


def test_progress_shows_what_takes_long_and_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    stream = Terminal()
    with Progress(Diagnostics(stream=stream), "CREATE SNAPSHOT", delay=0.01) as progress:
        progress.update("building topology [knows]", 0.25)
        until(lambda: "25%" in stream.getvalue())
    assert "building topology [knows]" in stream.getvalue()
    assert stream.getvalue().endswith("\x1b[2K")
    progress.update("too late", None)
    assert "too late" not in stream.getvalue()


def test_progress_is_silent_for_short_work_and_without_a_terminal() -> None:
    for stream, delay in ((Terminal(), 60.0), (io.StringIO(), 0.0)):
        with Progress(Diagnostics(stream=stream), "SELECT", delay=delay) as progress:
            progress.update("reading", 0.5)
            time.sleep(0.05)
        assert stream.getvalue() == ""


def test_a_stop_is_requested_again_until_the_statement_ends() -> None:
    """A statement that begins only after the first request would miss it, and run to its end."""
    requests = threading.Semaphore(0)
    with interruptible(requests.release):
        os.kill(os.getpid(), signal.SIGINT)
        for _ in range(3):
            assert requests.acquire(timeout=300)


def test_one_interrupt_asks_and_a_second_insists() -> None:
    before = signal.getsignal(signal.SIGINT)
    stopped = threading.Event()

    def interrupted_twice() -> None:
        with interruptible(stopped.set) as pressed:
            os.kill(os.getpid(), signal.SIGINT)
            assert stopped.wait(PATIENCE)
            assert pressed.is_set()
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(PATIENCE)

    with pytest.raises(KeyboardInterrupt):
        interrupted_twice()
    assert signal.getsignal(signal.SIGINT) is before

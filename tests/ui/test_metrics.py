"""Metrics for Prometheus: they equal the system tables, and only those who may read them can."""

from __future__ import annotations

import builtins
import http.client
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from prometheus_client.parser import text_string_to_metric_families

import snapdb
from snapdb.errors import InputError, QueryError
from snapdb.storage.catalog_db.task_rows import RunRows, TaskRows
from snapdb_cli.main import main
from tests.support.daemon_world import HOUR, MINUTE, SECOND, World
from tests.support.inside import open_catalog_db
from tests.support.inside.ui import MetricsServer, down_text, metrics_text
from tests.support.places import ROOT
from tests.support.waiting import PATIENCE, until

TOKEN = "0123456789abcdef"
SETUP = """
CREATE TABLE t AS SELECT range AS a FROM range(5);
CREATE TABLE "odd ""name\\" AS SELECT 1 AS a;
CREATE TABLE e AS SELECT range AS a, (range + 1) % 5 AS b FROM range(4);
CREATE PROPERTY GRAPH g VERTEX TABLES (t KEY (a))
  EDGE TABLES (e SOURCE KEY (a) REFERENCES t DESTINATION KEY (b) REFERENCES t);
CREATE SNAPSHOT s OF g;
CREATE SNAPSHOT now OF g;
CREATE SAMPLER train AS SAMPLE FROM s SEEDS (SELECT a FROM t) AS t FANOUT (e => [2]) REFRESH FCR EVERY 2 BATCHES;
CREATE CACHE near ON SAMPLER train;
CREATE TASK good SCHEDULE EVERY INTERVAL '1 day' AS INSERT INTO t VALUES (100 + {run});
CREATE TASK bad SCHEDULE EVERY INTERVAL '1 day' WITH (notify = 'ops') AS SELECT * FROM nowhere;
EXECUTE TASK good;
EXECUTE TASK good;
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("made") / "shop.snapdb"
    with snapdb.connect(path) as db:
        db.script(SETUP)
        with pytest.raises(QueryError):
            db.execute("EXECUTE TASK bad")
    return path


@pytest.fixture
def shop(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "shop.snapdb"))


Values = dict[tuple[str, frozenset[tuple[str, str]]], float]


def parsed(text: bytes) -> Values:
    """The value of each sample by its name and its labels."""
    families = list(text_string_to_metric_families(text.decode()))
    assert all(family.documentation for family in families)
    samples = [sample for family in families for sample in family.samples]
    values = {(one.name, frozenset(one.labels.items())): one.value for one in samples}
    assert len(values) == len(samples)
    return values


def value(values: Values, metric: str, /, **labels: str) -> float:
    return values[f"snapdb_{metric}", frozenset(labels.items())]


def rows(db: snapdb.Database, query: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = db.execute(query).arrow().to_pylist()
    return found


def test_the_values_are_those_of_the_system_tables(shop: Path) -> None:
    with snapdb.connect(shop) as db:
        values = parsed(metrics_text(db))
        tables, snapshots = rows(db, "SELECT * FROM snapdb.tables"), rows(db, "SELECT * FROM snapdb.snapshots")
        runs = rows(db, "SELECT * FROM snapdb.task_runs ORDER BY started")
        (version,) = rows(db, "SELECT max(version) AS version FROM snapdb.versions")
        clock = time.time()
    assert len(tables) == 3
    for one in tables:
        assert value(values, "rows", table=one["name"]) == one["rows"]
        assert value(values, "bytes", kind="table", name=one["name"]) == one["bytes"]
    assert len(snapshots) == 2
    for one in snapshots:
        assert value(values, "snapshot_nodes", snapshot=one["name"]) == one["nodes"]
        assert value(values, "snapshot_edges", snapshot=one["name"]) == one["edges"]
        assert value(values, "bytes", kind="snapshot", name=one["name"]) == one["bytes"]
        age = clock - one["created"].timestamp()
        assert value(values, "snapshot_age_seconds", snapshot=one["name"]) == pytest.approx(age, abs=60)
    last = {run["task"]: run for run in runs}
    assert value(values, "task_runs_total", task="good", state="ok") == 2
    assert value(values, "task_runs_total", task="bad", state="failed") == 1
    ended = last["good"]["ended"].timestamp()
    assert value(values, "task_last_success_timestamp", task="good") == pytest.approx(ended, abs=1e-3)
    failed = last["bad"]["ended"].timestamp()
    assert value(values, "task_last_failure_timestamp", task="bad", state="failed") == pytest.approx(failed, abs=1e-3)
    for name, run in last.items():
        assert value(values, "task_last_run_duration_seconds", task=name) == pytest.approx(run["seconds"])
        assert value(values, "task_running", task=name) == 0
        assert value(values, "alerts_pending", task=name) == (name == "bad")
    assert ("snapdb_task_last_success_timestamp", frozenset({("task", "bad")})) not in values
    assert value(values, "version") == version["version"]
    assert value(values, "up") == 1
    assert not any(name.startswith(("python", "process")) for name, _ in values)


def test_a_cache_has_the_hit_ratio_that_its_streams_report(shop: Path) -> None:
    with snapdb.connect(shop) as db:
        assert ("snapdb_cache_hit_ratio", frozenset({("cache", "near")})) not in parsed(metrics_text(db))
        with db.stream("SAMPLE USING train BATCH 1", threads=0) as stream:
            for _ in range(20):
                for _ in stream:
                    pass
            until(lambda: db.execute("SELECT hit_rate FROM snapdb.caches").fetchall() != [(None,)])
            values = parsed(metrics_text(db))
            ((ratio, size),) = db.execute("SELECT hit_rate, bytes FROM snapdb.caches").fetchall()
        assert 0 <= value(values, "cache_hit_ratio", cache="near") <= 1
        assert value(values, "cache_hit_ratio", cache="near") == pytest.approx(ratio, abs=0.2)
        assert value(values, "cache_bytes", cache="near") == size


def test_an_empty_and_a_read_only_database_have_metrics(tmp_path: Path) -> None:
    with snapdb.connect(tmp_path / "d") as db:
        values = parsed(metrics_text(db))
        assert (value(values, "up"), value(values, "version")) == (1, 0)
    with snapdb.connect(tmp_path / "d", read_only=True) as db:
        assert parsed(metrics_text(db)) == values
    assert parsed(down_text()) == {("snapdb_up", frozenset()): 0}


def test_missed_runs_are_a_state_and_a_running_one_is_not_counted(tmp_path: Path) -> None:
    world = World(tmp_path / "d", 1_795_316_400 * SECOND)
    world.fate = lambda task, run: (5 * HOUR / SECOND, "ok")
    world.task("hourly", HOUR)
    world.for_(3 * HOUR + MINUTE)
    with snapdb.connect(world.path, read_only=True) as db:
        values = parsed(metrics_text(db))
    assert value(values, "task_runs_total", task="hourly", state="missed") == 2
    assert value(values, "task_running", task="hourly") == 1
    assert not any(("state", "ok") in labels for _, labels in values)


def test_the_runs_of_a_long_history_are_counted(shop: Path) -> None:
    catalog_db = open_catalog_db(shop)
    with catalog_db.writing() as connection:
        task = next(one for one in TaskRows(connection).read().values() if one.name == "good")
        for moment in range(6000):
            run = RunRows(connection).begin(task, "schedule", moment, "me", moment)
            RunRows(connection).end(run, "failed", moment + 1, error="no", log="")
            RunRows(connection).miss(task, moment + 1_000_000, "no scheduler")
    catalog_db.close()
    with snapdb.connect(shop, read_only=True) as db:
        values = parsed(metrics_text(db))
        assert db.execute("SELECT count(*) FROM snapdb.task_runs WHERE task = 'good'").fetchall() < [(12_000,)]
    assert [value(values, "task_runs_total", task="good", state=state) for state in ("ok", "failed", "missed")] == [
        2,
        6000,
        6000,
    ]


# The server.


@pytest.fixture
def server(shop: Path) -> Iterator[MetricsServer]:
    server = MetricsServer(shop, "127.0.0.1", 0)
    yield server
    server.close()


@pytest.fixture
def guarded(shop: Path) -> Iterator[MetricsServer]:
    server = MetricsServer(shop, "0.0.0.0", 0, TOKEN)  # with a token, other machines may read it
    yield server
    server.close()


def asked(
    port: int, path: str = "/metrics", method: str = "GET", headers: dict[str, str] | None = None
) -> tuple[int, bytes, dict[str, str]]:
    """Status, body and headers of a response."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    try:
        connection.request(method, path, headers=headers or {})
        response = connection.getresponse()
        return response.status, response.read(), {name.lower(): text for name, text in response.getheaders()}
    finally:
        connection.close()


def test_the_server_gives_the_metrics_as_they_are_now(server: MetricsServer, shop: Path) -> None:
    status, body, headers = asked(server.port)
    assert status == 200
    assert headers["content-type"].startswith("text/plain; version=")
    assert headers["cache-control"] == "no-store"
    assert value(parsed(body), "rows", table="t") == 7
    with snapdb.connect(shop) as db:
        db.execute("INSERT INTO t VALUES (1000)")
    assert value(parsed(asked(server.port, "/metrics?name[]=x")[1]), "rows", table="t") == 8


@pytest.mark.parametrize("path", ["/", "/metrics/", "/metric", "/../metrics"])
def test_there_is_no_other_path(server: MetricsServer, path: str) -> None:
    status, body, _ = asked(server.port, path)
    assert (status, body) == (404, b"")


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "HEAD", "OPTIONS"])
def test_there_is_no_other_method(server: MetricsServer, method: str) -> None:
    status, body, _ = asked(server.port, method=method)
    assert status == 501
    assert b"snapdb_" not in body


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1", "127.0.0.1:1", "localhost.example:{port}", ""])
def test_at_a_loopback_address_another_host_name_is_rejected(server: MetricsServer, host: str) -> None:
    status, body, _ = asked(server.port, headers={"Host": host.format(port=server.port)})
    assert (status, body) == (400, b"")


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "LOCALHOST", "[::1]"])
def test_the_names_of_this_machine_are_accepted(server: MetricsServer, host: str) -> None:
    assert asked(server.port, headers={"Host": f"{host}:{server.port}"})[0] == 200


@pytest.mark.parametrize("given", [None, "", TOKEN, "Bearer ", f"Bearer {TOKEN[:-1]}", f"Bearer {TOKEN} ", "Bearer é"])
def test_with_a_token_nothing_is_given_without_it(guarded: MetricsServer, given: str | None) -> None:
    headers = {} if given is None else {"Authorization": given}
    connection = http.client.HTTPConnection("127.0.0.1", guarded.port, timeout=PATIENCE)
    connection.putrequest("GET", "/metrics")
    for name, text in headers.items():
        connection.putheader(name, text.rstrip().encode("utf-8") + b"x" * text.endswith(" "))
    connection.endheaders()
    response = connection.getresponse()
    assert (response.status, response.read(), response.getheader("WWW-Authenticate")) == (401, b"", "Bearer")
    connection.close()


def test_with_the_token_other_machines_read_it(guarded: MetricsServer) -> None:
    headers = {"Authorization": f"Bearer {TOKEN}", "Host": f"db7.example:{guarded.port}"}
    status, body, _ = asked(guarded.port, headers=headers)
    assert status == 200
    assert value(parsed(body), "up") == 1


def test_without_a_token_it_listens_on_this_machine_only(shop: Path) -> None:
    with pytest.raises(ValueError, match="a token is required"):
        MetricsServer(shop, "0.0.0.0", 0)  # it must not listen there


def test_a_database_that_is_gone_is_down_and_comes_back(server: MetricsServer, shop: Path) -> None:
    assert value(parsed(asked(server.port)[1]), "up") == 1
    shop.rename(shop.with_name("away"))
    status, body, _ = asked(server.port)
    assert (status, parsed(body)) == (200, {("snapdb_up", frozenset()): 0})
    shop.with_name("away").rename(shop)
    assert value(parsed(asked(server.port)[1]), "up") == 1


def test_a_port_that_is_taken_is_an_error(server: MetricsServer, shop: Path) -> None:
    with pytest.raises(InputError, match=r"cannot listen at 127\.0\.0\.1") as error:
        MetricsServer(shop, "127.0.0.1", server.port)
    assert error.value.code == "cannot-listen"


# The command line.


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def run(shop: Path, *words: str) -> Any:
    return CliRunner().invoke(main, ["schedule", "run", str(shop), *words])


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--metrics", "9187"), "--metrics must be HOST:PORT, such as 127.0.0.1:9187"),
        (("--metrics", ":9187"), "--metrics must be HOST:PORT"),
        (("--metrics", "::1:9187"), "--metrics must be HOST:PORT"),
        (("--metrics", "127.0.0.1:x"), "--metrics must be HOST:PORT"),
        (("--metrics", "127.0.0.1:99999"), "--metrics must be HOST:PORT"),
        (("--metrics", "0.0.0.0:9187"), "add --token-file FILE"),
        (("--metrics", "db7.example:9187"), "add --token-file FILE"),
        (("--metrics", "[::]:9187"), "add --token-file FILE"),
        (("--token-file", "TOKEN"), "--token-file applies to --metrics"),
        (("--metrics", "127.0.0.1:0", "--token-file", "/no/such/file"), "does not exist"),
        (("--metrics", "127.0.0.1:0", "--token-file", "EMPTY"), "must have at least 16 ASCII characters"),
        (("--metrics", "127.0.0.1:0", "--token-file", "BINARY"), "it is not text"),
    ],
)
def test_a_command_line_without_sense_is_a_usage_error(
    shop: Path, tmp_path: Path, words: tuple[str, ...], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SNAPDB_METRICS_TOKEN", raising=False)
    for name, content in (("TOKEN", TOKEN.encode()), ("EMPTY", b"\n"), ("BINARY", b"\xff\xfe" * 20)):
        (tmp_path / name).write_bytes(content)
    given = [str(tmp_path / word) if (tmp_path / word).is_file() else word for word in words]
    done = run(shop, *given)
    assert (done.exit_code, done.stdout) == (2, "")
    assert said in " ".join(done.stderr.split())
    assert TOKEN not in done.stderr


def test_without_the_extra_the_error_says_what_to_install(shop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith(("prometheus_client", "snapdb_ui."))]:
        monkeypatch.delitem(sys.modules, name)
    found = builtins.__import__

    def imported(name: str, *rest: Any, **options: Any) -> Any:
        if name.partition(".")[0] == "prometheus_client":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return found(name, *rest, **options)

    monkeypatch.setattr(builtins, "__import__", imported)
    done = run(shop, "--metrics", "127.0.0.1:0")
    assert done.exit_code == 1
    assert "InputError: schedule run --metrics needs prometheus_client" in done.stderr
    assert "pip install 'snapdb[ui]'" in done.stderr


@pytest.mark.parametrize("by_file", [True, False])
def test_the_scheduler_serves_its_metrics_until_it_ends(shop: Path, tmp_path: Path, by_file: bool) -> None:
    port = free_port()
    command = [sys.executable, "-m", "snapdb_cli", "schedule", "run", str(shop), "--metrics", f"127.0.0.1:{port}"]
    environment = {name: text for name, text in os.environ.items() if name != "SNAPDB_METRICS_TOKEN"}
    if by_file:
        (tmp_path / "token").write_text(f"{TOKEN}\n")
        command += ["--token-file", str(tmp_path / "token")]
    else:
        environment["SNAPDB_METRICS_TOKEN"] = TOKEN
    with subprocess.Popen(command, cwd=ROOT, env=environment, stderr=subprocess.PIPE, text=True) as daemon:
        try:
            assert daemon.stderr is not None
            line = daemon.stderr.readline()
            assert "daemon.start" in line
            headers = {"Authorization": f"Bearer {TOKEN}"}
            assert asked(port)[0] == 401
            assert value(parsed(asked(port, headers=headers)[1]), "task_runs_total", task="good", state="ok") == 2
            daemon.send_signal(signal.SIGTERM)
            said = daemon.stderr.read()
            assert daemon.wait(PATIENCE) == 0
        finally:
            daemon.kill()
    assert TOKEN not in line + said
    assert "GET" not in said
    with pytest.raises(ConnectionRefusedError):
        asked(port)

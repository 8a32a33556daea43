"""`snapdb ui` as a process: the address, ports, hosts, tokens, signals and memory."""

from __future__ import annotations

import builtins
import http.client
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

import psutil
import pytest
from click.testing import CliRunner

import snapdb
from snapdb_cli.main import main
from tests.support.places import ROOT
from tests.support.waiting import PATIENCE, until


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("command") / "shop.snapdb"
    with snapdb.connect(path) as db:
        db.execute("CREATE TABLE t AS SELECT range AS a FROM range(5)")
    return path


@contextmanager
def serving(shop: Path, *words: str, before: tuple[str, ...] = ()) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A process and the address that it printed."""
    command = [*before, sys.executable, "-m", "snapdb_cli", "ui", str(shop), "--no-open", *words]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield process, process.stdout.readline().strip()
    finally:
        process.kill()
        process.communicate(timeout=PATIENCE)


def asked(address: str, headers: dict[str, str] | None = None) -> http.client.HTTPResponse:
    """The response to a GET, with its body read."""
    parts = urlsplit(address)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=PATIENCE)
    connection.request("GET", f"{parts.path}?{parts.query}" if parts.query else parts.path, headers=headers or {})
    response = connection.getresponse()
    response.body = response.read().decode()  # type: ignore[attr-defined]
    connection.close()
    return response


def entered(address: str) -> Any:
    """The first page, with the cookie that the token is exchanged for."""
    first = asked(address)
    assert first.status == 303
    cookie = (first.getheader("set-cookie") or "").split(";")[0]
    return asked(address.split("?", maxsplit=1)[0], {"cookie": cookie})


def ended(process: subprocess.Popen[str], number: int) -> tuple[int, str]:
    """The exit code after a signal, and what stderr said."""
    process.send_signal(number)
    _, said = process.communicate(timeout=PATIENCE)
    return process.returncode, said


def test_the_address_is_printed_once_the_pages_answer_and_ctrl_c_ends(shop: Path) -> None:
    with serving(shop, "--port", "8431") as (process, address):
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+/[\w-]{16}/\?token=[\w-]{43}", address)
        page = entered(address)
        assert page.status == 200
        assert "shop.snapdb" in page.body
        code, said = ended(process, signal.SIGINT)
    assert code == 130
    assert f"serving {shop} read-only" in said
    assert "Traceback" not in said
    assert urlsplit(address).query.removeprefix("token=") not in said


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_running_statement_does_not_keep_it_alive(shop: Path, number: int) -> None:
    endless = "SELECT count(*) FROM range(1000000000000) a, range(1000) b WHERE a.range % 7 = b.range"
    with serving(shop, "--timeout", "10000") as (process, address):
        first = asked(address)
        cookie = (first.getheader("set-cookie") or "").split(";")[0]
        parts = urlsplit(address)
        origin = f"http://{parts.netloc}"
        body = urlencode({"sql": endless})
        kind = "application/x-www-form-urlencoded"
        connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=PATIENCE)
        headers = {"cookie": cookie, "origin": origin, "content-type": kind}
        connection.request("POST", f"{parts.path}sql", body, headers)
        used = psutil.Process(process.pid)
        until(lambda: sum(used.cpu_times()[:2]) > 3)  # the statement is running
        code, said = ended(process, number)
        connection.close()
    assert code in (130, -signal.SIGTERM, 128 + signal.SIGTERM)
    assert "Traceback" not in said


def test_sigterm_ends_it_too(shop: Path) -> None:
    with serving(shop) as (process, address):
        assert entered(address).status == 200
        code, said = ended(process, signal.SIGTERM)
    assert code in (-signal.SIGTERM, 128 + signal.SIGTERM)
    assert "Traceback" not in said


def test_a_port_that_is_taken_is_left_to_the_other_program(shop: Path) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with serving(shop, "--port", str(port)) as (process, address):
            bound = urlsplit(address).port
            assert bound is not None
            assert port < bound < port + 20
            assert entered(address).status == 200
            _, said = ended(process, signal.SIGINT)
    assert f"port {port} is in use, using {bound}" in said


@pytest.mark.parametrize("host", ["0.0.0.0", "192.168.1.5", "example.com", "::", "127.0.0.2"])
def test_other_machines_are_not_served(shop: Path, host: str) -> None:
    result = CliRunner().invoke(main, ["ui", str(shop), "--host", host])
    assert result.exit_code == 2
    assert "ssh -L 8421:127.0.0.1:8421" in result.stderr


def test_a_loopback_address_of_ipv6_is_served(shop: Path) -> None:
    try:
        with socket.socket(socket.AF_INET6) as own:
            own.bind(("::1", 0))
    except OSError:
        pytest.skip("this machine has no IPv6")
    with serving(shop, "--host", "::1") as (_, address):
        assert address.startswith("http://[::1]:")
        assert entered(address).status == 200


def test_programs_read_metrics_with_the_token_of_a_file(shop: Path, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("0123456789abcdef\n")
    with serving(shop, "--token-file", str(tmp_path / "token")) as (_, address):
        metrics = f"http://127.0.0.1:{urlsplit(address).port}/metrics"
        assert asked(metrics).status == 401
        response = asked(metrics, {"authorization": "Bearer 0123456789abcdef"})
        assert response.status == 200
        assert 'snapdb_rows{table="t"} 5.0' in response.body  # type: ignore[attr-defined]
    (tmp_path / "token").write_text("short")
    result = CliRunner().invoke(main, ["ui", str(shop), "--token-file", str(tmp_path / "token")])
    assert result.exit_code == 2
    assert "at least 16" in result.stderr
    assert "short" not in result.stderr.replace("the token in", "")


def test_what_cannot_be_opened_is_an_error_before_an_address(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    for path in (tmp_path / "nothing.snapdb", tmp_path / "file", tmp_path):
        result = CliRunner().invoke(main, ["ui", str(path), "--no-open"])
        assert result.exit_code not in (0, 130)
        assert result.stdout == ""
        assert str(path) in result.stderr
        assert not isinstance(result.exception, OSError)
    assert not (tmp_path / "nothing.snapdb").exists()


def test_without_the_extra_the_error_says_how_to_get_it(shop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *args: Any, **kwargs: Any) -> Any:
        if name.partition(".")[0] in ("uvicorn", "starlette", "jinja2"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name.partition(".")[0])
        return real(name, *args, **kwargs)

    for name in [name for name in sys.modules if name.startswith("snapdb_ui")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(builtins, "__import__", without)
    result = CliRunner().invoke(main, ["ui", str(shop)])
    assert result.exit_code == 2
    assert "pip install 'snapdb[ui]'" in result.stderr


def test_it_works_without_a_network(shop: Path) -> None:
    without = ("unshare", "-rn")
    script = f"ip link set lo up && exec {sys.executable} -m snapdb_cli ui {shop} --no-open"
    try:
        probe = subprocess.run([*without, "ip", "link"], capture_output=True, timeout=PATIENCE, check=False)
    except FileNotFoundError:
        pytest.skip("unshare is not installed")
    if probe.returncode:
        pytest.skip("this machine does not let a process have a network of its own")
    process = subprocess.Popen([*without, "sh", "-c", script], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("http://127.0.0.1:")
    finally:
        process.kill()
        process.communicate(timeout=PATIENCE)


def test_importing_snapdb_and_its_help_load_none_of_it() -> None:
    code = (
        "import sys, snapdb, snapdb_cli.main; from click.testing import CliRunner;"
        "CliRunner().invoke(snapdb_cli.main.main, ['ui', '--help']);"
        "print([name for name in sys.modules if name.split('.')[0] in "
        "('snapdb_ui', 'starlette', 'uvicorn', 'jinja2', 'prometheus_client')])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE, check=True
    )
    assert done.stdout == "[]\n"

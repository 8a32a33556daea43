"""`snapdb schedule run --metrics`: the scheduler beside a server of its metrics."""

from contextlib import closing
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import click

from snapdb.daemon import serve
from snapdb.daemon.alerts import is_loopback
from snapdb.errors import InputError
from snapdb_cli.commands.tokens import metrics_token
from snapdb_cli.diagnostics import ExitCode


class _Address(NamedTuple):
    """An address to listen at."""

    host: str
    port: int


def run(path: Path, address: str, token_file: Path | None, **options: Any) -> ExitCode:
    """Run the scheduler, and serve its metrics until it ends.

    Raises:
        UsageError: The address or the token is not valid.
        InputError: prometheus_client is not installed, or the server cannot listen at the address.
    """
    host, port = _parsed(address)
    token = metrics_token(token_file)
    if token is None and not is_loopback(host):
        raise click.UsageError(
            f"other machines can reach {host}, so --metrics needs a token there: add --token-file FILE, or listen at "
            f"127.0.0.1:{port}"
        )
    with closing(_server()(path, host, port, token)):
        return ExitCode(serve(path, **options))


def _server() -> Any:
    """Return the class of the server."""
    try:
        return import_module("snapdb_ui.metrics_server").MetricsServer
    except ImportError as error:
        raise InputError(
            "schedule run --metrics needs prometheus_client; install it with: pip install 'snapdb[ui]'",
            code="needs-extra",
        ) from error


def _parsed(address: str) -> _Address:
    """Parse HOST:PORT.

    >>> _parsed("127.0.0.1:9187"), _parsed("[::1]:9187")
    (_Address(host='127.0.0.1', port=9187), _Address(host='::1', port=9187))
    """
    host, _, port = address.rpartition(":")
    bare = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    if not bare or (":" in bare and bare == host) or not port.isdecimal() or int(port) > 65535:
        raise click.UsageError(f"--metrics must be HOST:PORT, such as 127.0.0.1:9187 or [::1]:9187, found {address!r}")
    return _Address(bare, int(port))

"""Serves the metrics of a database at /metrics, in threads of the scheduler's process."""

import hmac
import socket
import threading
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from snapdb.daemon.alerts import is_loopback
from snapdb.database import Database, connect
from snapdb.errors import InputError, SnapdbError
from snapdb_ui.metrics import CONTENT_TYPE, down_text, metrics_text

_PATH = "/metrics"
_PATIENCE = 10.0
"""Seconds for which a connection may wait for its peer."""


class MetricsServer:
    """An HTTP server for one path, which reads the database through a connection of its own."""

    def __init__(self, path: Path, host: str, port: int, token: str | None = None) -> None:
        """Listen at an address, and serve in a thread.

        Args:
            path: The database, which is opened read-only at the first request.
            host: An address or host name of this machine.
            port: The port, or 0 for any free one.
            token: The token that requests must contain. It is required unless the host is a loopback address.

        Raises:
            InputError: The server cannot listen at this address.
            ValueError: The address can be reached from other machines, and there is no token.
        """
        if token is None and not is_loopback(host):
            raise ValueError("a token is required for an address that other machines can reach")
        self._path, self._token, self._host = path, token, host
        self._lock = threading.Lock()
        self._database: Database | None = None
        try:
            family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
            self._server = _listening(family, host, port, self)
        except (OSError, OverflowError, UnicodeError) as error:
            reason = getattr(error, "strerror", None) or error
            raise InputError(
                f"cannot listen at {shown(host, port)}: {reason}; choose another address or port", code="cannot-listen"
            ) from error
        self.port = int(self._server.server_address[1])
        """The port at which the server listens."""
        threading.Thread(target=self._server.serve_forever, name="snapdb-metrics", daemon=True).start()

    def close(self) -> None:
        """Stop listening, and close the database."""
        self._server.shutdown()
        self._server.server_close()
        with self._lock:
            self._forget()

    def refusal(self, host: str | None, authorization: str | None) -> int | None:
        """Return the HTTP status for a request that is not allowed, or None.

        A browser sends the name in the address bar as Host. At a loopback address, other names are rejected, so that a
        page of another site whose name resolves to this machine cannot read the metrics (DNS rebinding).
        """
        if is_loopback(self._host) and (host or "").lower() not in self._names():
            return 400
        if self._token is not None:
            given = (authorization or "").encode("latin-1", "replace")
            if not hmac.compare_digest(given, f"Bearer {self._token}".encode()):
                return 401
        return None

    def text(self) -> bytes:
        """Return the metrics, or only that the database cannot be read."""
        with self._lock:
            try:
                if self._database is None:
                    self._database = connect(self._path, read_only=True, threads=1)
                return metrics_text(self._database)
            except SnapdbError:
                self._forget()
                return down_text()

    def _names(self) -> set[str]:
        """Return the values of the Host header that name this server."""
        own = {"127.0.0.1", "localhost", "[::1]", shown(self._host)}
        return {f"{name}:{self.port}" for name in own} | (own if self.port == 80 else set())

    def _forget(self) -> None:
        """Close the database. The next request opens it again."""
        database, self._database = self._database, None
        if database is not None:
            with suppress(SnapdbError):
                database.close()


def shown(host: str, port: int | None = None) -> str:
    """Return an address as in a URL.

    >>> shown("127.0.0.1", 9187), shown("::1", 9187)
    ('127.0.0.1:9187', '[::1]:9187')
    """
    name = f"[{host}]" if ":" in host else host
    return name.lower() if port is None else f"{name}:{port}"


class _Server(ThreadingHTTPServer):
    """The server, whose threads end with the process."""

    daemon_threads = True
    metrics: MetricsServer


def _listening(family: int, host: str, port: int, metrics: MetricsServer) -> _Server:
    """Return a server that listens at an address."""
    kind = type("_Server", (_Server,), {"address_family": family, "metrics": metrics})
    server: _Server = kind((host, port), _Handler)
    return server


class _Handler(BaseHTTPRequestHandler):
    """Answers GET /metrics. Requests are not logged."""

    server: _Server
    timeout = _PATIENCE
    server_version = "snapdb"
    sys_version = ""

    def do_GET(self) -> None:
        """Answer with the metrics, or with an error that contains nothing of the database."""
        status = self.server.metrics.refusal(self.headers.get("Host"), self.headers.get("Authorization"))
        if status is None and self.path.partition("?")[0] != _PATH:
            status = 404
        if status is not None:
            self._answer(status, "text/plain; charset=utf-8", b"")
            return
        self._answer(200, CONTENT_TYPE, self.server.metrics.text())

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the parameter's name in the base class
        """Write nothing: the scheduler's log has only its own events."""

    def _answer(self, status: int, kind: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("X-Content-Type-Options", "nosniff")
        if status == 401:
            self.send_header("WWW-Authenticate", "Bearer")
        self.end_headers()
        self.wfile.write(body)

"""`snapdb ui`: binds a port of this machine, prints the address, and serves until Ctrl-C."""

from __future__ import annotations

import errno
import os
import socket
import sys
import webbrowser
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType

import uvicorn

from snapdb.errors import InputError
from snapdb_ui.app import application
from snapdb_ui.guard import Access
from snapdb_ui.reader import Reader

_PORTS = 20
"""The number of ports that are tried."""


def serve(
    path: Path,
    *,
    host: str,
    port: int,
    opens: bool,
    limit: int,
    timeout: float,
    folders: Sequence[Path],
    metrics_token: str | None,
    say: Callable[[str], None],
) -> None:
    """Serve the pages of a database until the process is interrupted.

    Args:
        path: The database directory.
        host: A loopback address.
        port: The port. If it is in use, the next free one is taken.
        opens: Whether to open the address in a browser.
        limit: The maximum number of rows of a result.
        timeout: The maximum number of seconds of a statement.
        folders: The folders whose files statements may read.
        metrics_token: The token for /metrics, or None if only the browser may read the metrics.
        say: Called with messages for the user.

    Raises:
        InputError: No port is free.
    """
    reader = Reader(path, folders, limit, timeout)
    with reader.database() as database:  # errors are reported before an address is printed
        database.names()
    listener = _listener(host, port)
    bound = listener.getsockname()[1]
    if bound != port:
        say(f"port {port} is in use, using {bound}")
    access = Access(metrics=metrics_token)
    name = "127.0.0.1" if host == "localhost" else host
    address = access.address(name, bound)
    config = uvicorn.Config(
        application(reader, access, bound), log_level="error", access_log=False, server_header=False, lifespan="off"
    )
    print(address, flush=True)
    say(f"serving {reader.shown} read-only to this machine; Ctrl-C stops")
    if opens and sys.stdout.isatty() and (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
        webbrowser.open(access.address_once(name, bound))
    try:
        _Server(config).run(sockets=[listener])
    finally:
        reader.close()


class _Server(uvicorn.Server):
    """A server that ends at Ctrl-C without waiting for statements that still run."""

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """End at once: the pages only read, so there is nothing to finish. The signal is raised again afterwards."""
        super().handle_exit(sig, frame)
        self.force_exit = True


def _listener(host: str, port: int) -> socket.socket:
    """Return a socket that listens at the first free port."""
    family = socket.AF_INET6 if host == "::1" else socket.AF_INET
    for candidate in range(port, min(port + _PORTS, 65536)):
        listener = socket.socket(family)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(("127.0.0.1" if host == "localhost" else host, candidate))
            listener.listen(128)
        except OSError as error:
            listener.close()
            if error.errno == errno.EADDRINUSE:
                continue
            raise InputError(
                f"cannot listen at {host}, port {candidate}: {error.strerror}; pass another one with --host or --port",
                code="cannot-listen",
            ) from error
        return listener
    raise InputError(
        f"cannot listen at the ports {port} to {port + _PORTS - 1}, which are in use; pass another one with --port",
        code="cannot-listen",
    )

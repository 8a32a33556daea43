"""`snapdb ui`: serves the pages of a database to this machine."""

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

import click

from snapdb_cli.commands.tokens import metrics_token
from snapdb_cli.diagnostics import Diagnostics, ExitCode

_HOSTS = ("127.0.0.1", "::1", "localhost")


def run(
    path: Path,
    token_file: Path | None,
    diagnostics: Diagnostics,
    *,
    host: str,
    port: int,
    opens: bool,
    limit: int,
    timeout: float,
    folders: Sequence[Path],
) -> ExitCode:
    """Serve the pages until Ctrl-C.

    Raises:
        UsageError: The host is another machine's, the token is not valid, or a package is not installed.
        InputError: No port is free.
    """
    if host not in _HOSTS:
        raise click.UsageError(
            f"the pages are for this machine, so --host must be {', '.join(_HOSTS[:-1])} or {_HOSTS[-1]}, found {host}"
            f"; from another machine, use: ssh -L {port}:127.0.0.1:{port} HOST"
        )
    token = metrics_token(token_file)
    try:
        server = import_module("snapdb_ui.server")
    except ModuleNotFoundError as error:
        raise click.UsageError(f"snapdb ui needs {error.name}; install it with: pip install 'snapdb[ui]'") from error
    server.serve(
        path,
        host=host,
        port=port,
        opens=opens,
        limit=limit,
        timeout=timeout,
        folders=folders,
        metrics_token=token,
        say=diagnostics.say,
    )
    return ExitCode.OK

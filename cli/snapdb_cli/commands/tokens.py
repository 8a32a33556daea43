"""The token with which programs read /metrics."""

import os
from pathlib import Path

import click

_VARIABLE = "SNAPDB_METRICS_TOKEN"
_FEWEST = 16
"""The minimum number of characters of a token."""


def metrics_token(file: Path | None) -> str | None:
    """Return the token from the file or from the environment, or None if there is neither. It is never shown.

    Raises:
        UsageError: The file cannot be read, or the token is too short.
    """
    if file is None and _VARIABLE not in os.environ:
        return None
    place = _VARIABLE if file is None else str(file)
    try:
        token = (os.environ[_VARIABLE] if file is None else file.read_text("utf-8")).strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise click.UsageError(f"cannot read the token from {place}: {reason}") from error
    if len(token) < _FEWEST or not token.isascii() or not token.isprintable() or " " in token:
        raise click.UsageError(
            f"the token in {place} must have at least {_FEWEST} ASCII characters and no spaces; create one with: "
            "openssl rand -hex 32"
        )
    return token

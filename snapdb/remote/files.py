"""Files that queries read by URL: file systems for DuckDB, and the identity of objects."""

from __future__ import annotations

import re
from importlib import import_module
from typing import Any, NamedTuple

from snapdb.errors import DatabaseError, InputError, SnapdbError
from snapdb.remote.stores import RETRY, reason_of

READ_SCHEMES = ("s3", "gs", "az", "https", "http")
"""The URL schemes from which queries can read files."""
_FILE_URL = re.compile(rf"({'|'.join(READ_SCHEMES)})://", re.IGNORECASE)
_NANOSECONDS = 1_000_000_000


class ObjectFacts(NamedTuple):
    """The identity of an object."""

    bytes: int
    modified: int
    """The time of its last write, in nanoseconds since 1970 UTC."""


def is_file_url(text: str) -> bool:
    """Return whether a path in a query is the URL of a file.

    >>> is_file_url("s3://bucket/day/*.parquet"), is_file_url("/data/day.parquet"), is_file_url("ftp://host/day.csv")
    (True, False, False)
    """
    return _FILE_URL.match(text) is not None


def schemes_in(text: str) -> set[str]:
    """Return the schemes of file URLs that a text may contain."""
    return {match[1].lower() for match in _FILE_URL.finditer(text)}


def file_system(scheme: str) -> Any:
    """Return a file system (fsspec) with which DuckDB reads the URLs of a scheme. Credentials are in the environment.

    Raises:
        InputError: The extra for object storage is not installed.
    """
    try:
        kind: Any = import_module("obstore.fsspec").FsspecStore
    except ImportError as error:
        raise InputError(
            f"{scheme}:// needs obstore; install it with: pip install 'snapdb[remote]'", code="needs-extra"
        ) from error

    class Store(kind):  # type: ignore[misc]
        """A store that matches globs as DuckDB passes them, which start with the scheme. Hidden files are skipped."""

        async def _glob(self, path: str, **options: Any) -> Any:
            names = await super()._glob(path.partition("://")[2] or path, **options)
            return [name for name in names if "/." in path or not name.rpartition("/")[2].startswith(".")]

    options = {"allow_http": True} if scheme == "http" else None
    return Store(scheme, client_options=options, retry_config=RETRY)


def url_error(trace: str) -> SnapdbError:
    """Return the error for a query that cannot read a URL, given the traceback in DuckDB's message."""
    trace = trace.replace("\\n", "\n").split("\n\nDebug", maxsplit=1)[0]  # the message may be JSON
    lines = [line.strip() for line in trace.splitlines() if line.strip()]
    name, _, reason = next((line for line in reversed(lines) if re.match(r"[\w.]+Error: ", line)), lines[-1]).partition(
        ": "
    )
    if re.search(r"Permission|Unauthenticated|AccessDenied|\b40[13]\b", f"{name} {reason}"):
        return DatabaseError(
            "access to a URL in the query is denied; check the credentials in the environment", code="storage-denied"
        )
    return DatabaseError(
        f"cannot read a URL in the query: {reason_of(reason)}; check the URL and the environment", code="storage-failed"
    )


def object_facts(url: str) -> ObjectFacts | None:
    """Return the identity of the object at a URL, or None if it does not exist."""
    try:
        info = file_system(url.partition("://")[0].lower()).info(url)
    except FileNotFoundError:
        return None
    return ObjectFacts(int(info["size"]), round(info["last_modified"].timestamp() * _NANOSECONDS))

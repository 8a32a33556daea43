"""Object stores: S3, Google Cloud and Azure by obstore, which only this module imports, and local folders."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import uuid
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple, Protocol
from urllib.parse import unquote, urlsplit

from snapdb.errors import DatabaseError, InputError, LockedError
from snapdb.remote.urls import check_url, shown

RETRY = {"max_retries": 5, "retry_timeout": timedelta(minutes=1)}
"""How often a failed request is repeated, with exponential backoff."""
_SECRETS = re.compile(r"(SECRET|TOKEN|KEY|PASSWORD|CREDENTIAL)", re.IGNORECASE)
"""Environment variables whose values must not appear in messages."""
_FEWEST = 6
"""The minimum length of a secret that is removed from messages. Shorter values would match ordinary words."""
_LOCK = ".lock"


class Stored(NamedTuple):
    """An object's content, and the tag of this version of it."""

    content: bytes
    tag: str


class Entry(NamedTuple):
    """An object in a list."""

    key: str
    size: int
    """The size in bytes."""
    modified: datetime


class ObjectStore(Protocol):
    """The objects below a URL, by key: their path relative to the URL. Threads can share a store.

    Every method raises:
        DatabaseError: The request is denied, or failed for another reason.
        LockedError: The storage did not respond after several attempts (code 'storage-busy').
    """

    url: str

    def get(self, key: str) -> Stored | None:
        """Return an object, or None if it does not exist."""

    def read(self, key: str, start: int, length: int) -> bytes | None:
        """Return `length` bytes of an object, or None if it does not exist."""

    def put(self, key: str, content: bytes | Path) -> None:
        """Write an object with this content, or with that of a file."""

    def replace(self, key: str, content: bytes, tag: str | None) -> bool:
        """Write an object if its current version has this tag, or if it does not exist and the tag is None.

        Returns whether the object was written. Of several writers with the same tag, only one succeeds.
        """

    def remove(self, keys: Sequence[str]) -> None:
        """Remove objects. Missing objects are ignored."""

    def entries(self) -> Iterator[Entry]:
        """Yield all objects."""


def open_store(url: str) -> ObjectStore:
    """Return the store of a URL. Credentials come from the environment.

    Raises:
        InputError: The URL is not valid, or the extra for object storage is not installed.
    """
    url = check_url(url)
    if url.startswith("file:"):
        return _Folder(url)
    return _Bucket(url)


class _Bucket:
    """Objects in S3, Google Cloud or Azure."""

    def __init__(self, url: str) -> None:
        try:
            self._obstore: Any = import_module("obstore")
        except ImportError as error:
            raise InputError(
                f"{url.partition('://')[0]}:// needs obstore; install it with: pip install 'snapdb[remote]'",
                code="needs-extra",
            ) from error
        self.url = url
        self._errors: Any = import_module("obstore.exceptions")
        from_url = import_module("obstore.store").from_url
        options = {"allow_http": True} if os.environ.get("AWS_ENDPOINT_URL", "").startswith("http://") else {}
        with self._translated("open", ""):
            self._store: Any = from_url(url, retry_config=RETRY, client_options=options)

    def get(self, key: str) -> Stored | None:
        with self._translated("read", key):
            try:
                found = self._obstore.get(self._store, key)
                return Stored(bytes(found.bytes()), str(found.meta["e_tag"]))
            except (self._errors.NotFoundError, FileNotFoundError):
                return None

    def read(self, key: str, start: int, length: int) -> bytes | None:
        if not length:
            return b""
        with self._translated("read", key):
            try:
                return bytes(self._obstore.get_range(self._store, key, start=start, length=length))
            except (self._errors.NotFoundError, FileNotFoundError):
                return None

    def put(self, key: str, content: bytes | Path) -> None:
        with self._translated("write", key):
            self._obstore.put(self._store, key, content)

    def replace(self, key: str, content: bytes, tag: str | None) -> bool:
        mode: Any = "create" if tag is None else {"e_tag": tag}
        with self._translated("write", key):
            try:
                self._obstore.put(self._store, key, content, mode=mode)
            except (self._errors.AlreadyExistsError, self._errors.PreconditionError):
                return False
            except self._errors.NotSupportedError as error:
                raise no_conditional_put(self.url) from error
        return True

    def remove(self, keys: Sequence[str]) -> None:
        with self._translated("remove", keys[0] if keys else ""):
            for start in range(0, len(keys), 1000):
                with contextlib.suppress(self._errors.NotFoundError, FileNotFoundError):
                    self._obstore.delete(self._store, list(keys[start : start + 1000]))

    def entries(self) -> Iterator[Entry]:
        with self._translated("list", ""):
            for part in self._obstore.list(self._store):
                for each in part:
                    yield Entry(str(each["path"]), int(each["size"]), each["last_modified"])

    @contextlib.contextmanager
    def _translated(self, what: str, key: str) -> Iterator[None]:
        """Raise the errors of obstore in the block as errors of snapdb, without credentials."""
        try:
            yield
        except (self._errors.PermissionDeniedError, self._errors.UnauthenticatedError):
            raise DatabaseError(
                f"cannot {what} {self._named(key)}: access is denied; check the credentials in the environment and the "
                "permissions of the bucket",
                code="storage-denied",
            ) from None  # its text can contain signed URLs
        except (self._errors.BaseError, FileNotFoundError) as error:  # the latter if a bucket does not exist
            reason = reason_of(str(error))
            if any(word in reason.lower() for word in ("retries", "timed out", "connect", "error sending request")):
                raise LockedError(
                    f"cannot {what} {self._named(key)}: the storage does not respond ({reason}); try again",
                    code="storage-busy",
                ) from None  # its text can contain signed URLs
            raise DatabaseError(
                f"cannot {what} {self._named(key)}: {reason}; check the URL and the environment", code="storage-failed"
            ) from None  # its text can contain signed URLs

    def _named(self, key: str) -> str:
        return f"{self.url}/{key}" if key else self.url


def no_conditional_put(url: str) -> DatabaseError:
    """Return the error for a store that cannot replace an object only if nobody else has replaced it."""
    return DatabaseError(
        f"{shown(url)} does not support conditional writes, so two publishers could overwrite each other; if only one "
        "process publishes there, write WITH (single_writer = true)",
        code="no-conditional-put",
    )


def reason_of(text: str) -> str:
    """Return the reason in an error of obstore in one line, without URLs' queries and values of secrets."""
    text = " ".join(text.split("\n\nDebug", maxsplit=1)[0].split())
    text = re.sub(r"\?[^\s\"')]*", "", text)
    text = re.sub(r" in [\d.]+m?s, after \d+ retries, max_retries: \d+, retry_timeout: \w+ +-", ":", text)
    text = re.sub(r"^Generic \w+ error: Error performing [A-Z]+ (\S+?):", r"\1:", text)
    for name, value in os.environ.items():
        if _SECRETS.search(name) and len(value) >= _FEWEST:
            text = text.replace(value, "…")
    return text if len(text) <= _LONGEST else text[:_LONGEST] + "…"


_LONGEST = 300
"""The maximum length of a reason in a message."""


class _Folder:
    """Objects in a local folder or on a shared disk."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._root = Path(unquote(urlsplit(url).path))

    def get(self, key: str) -> Stored | None:
        try:
            content = self._path(key).read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise self._failed("read", key, error) from error
        return Stored(content, _digest(content))

    def read(self, key: str, start: int, length: int) -> bytes | None:
        try:
            with open(self._path(key), "rb") as file:
                file.seek(start)
                return file.read(length)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise self._failed("read", key, error) from error

    def put(self, key: str, content: bytes | Path) -> None:
        path = self._path(key)
        staging = path.with_name(f".{uuid.uuid4().hex}")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with open(staging, "wb") as file:
                if isinstance(content, Path):
                    with open(content, "rb") as source:
                        while block := source.read(_BLOCK):
                            file.write(block)
                else:
                    file.write(content)
                file.flush()
                os.fsync(file.fileno())
            staging.rename(path)
            _sync_folder(path.parent)
        except OSError as error:
            with contextlib.suppress(OSError):
                staging.unlink()
            raise self._failed("write", key, error) from error

    def replace(self, key: str, content: bytes, tag: str | None) -> bool:
        # A lock of a process ends with the process, so a killed publisher blocks nobody.
        try:
            self._root.mkdir(parents=True, exist_ok=True)
            lock = os.open(self._root / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        except OSError as error:
            raise self._failed("write", key, error) from error
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            current = self.get(key)
            if (None if current is None else current.tag) != tag:
                return False
            self.put(key, content)
            return True
        finally:
            os.close(lock)

    def remove(self, keys: Sequence[str]) -> None:
        for key in keys:
            try:
                self._path(key).unlink(missing_ok=True)
            except OSError as error:
                raise self._failed("remove", key, error) from error

    def entries(self) -> Iterator[Entry]:
        for folder, _, names in os.walk(self._root):
            for name in names:
                path = Path(folder, name)
                with contextlib.suppress(FileNotFoundError):  # removed in the meantime
                    status = path.stat()
                    if name != _LOCK:
                        moment = datetime.fromtimestamp(status.st_mtime, UTC)
                        yield Entry(path.relative_to(self._root).as_posix(), status.st_size, moment)

    def _path(self, key: str) -> Path:
        return self._root / key

    def _failed(self, what: str, key: str, error: OSError) -> DatabaseError:
        return DatabaseError(
            f"cannot {what} {self._path(key)}: {error.strerror}; check the folder and its permissions",
            code="storage-failed",
        )


_BLOCK = 8 << 20
"""The number of bytes that are copied at once."""


def _digest(content: bytes) -> str:
    return sha256(content).hexdigest()


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

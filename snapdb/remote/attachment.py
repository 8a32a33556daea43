"""Attached copies of published databases. A file is fetched when it is first needed, and verified as it arrives.

    <cache>/<database>/files/tables/…     the files of all generations, under their names in the database
    <cache>/<database>/<catalog>/         a generation: a database directory whose folders are links to `files`
        catalog.sqlite, listing.json, attached.json

Several processes share a cache. Whoever needs a file first fetches it under a lock; the others wait for it.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections import deque
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Any

from snapdb.errors import BindError, CorruptError, DatabaseError
from snapdb.remote.eviction import make_room, note_use
from snapdb.remote.parquet import ColumnRanges, column_ranges, with_rest
from snapdb.remote.publication import Head, Listed, Listing, damaged_object, gone, read_head, verified
from snapdb.remote.stores import ObjectStore, open_store

MARKER = "attached.json"
"""The file in a generation's directory that describes where its files are fetched from."""
FILES = "files"
_MANIFEST = "manifest.json"
"""The file of a directory of arrays that is read first, and that its users lock."""
FOLDERS = ("tables", "ids", "topology", "features", "snapshots")
"""The folders of a database with immutable files."""
_PIECE = 64 << 20
"""The number of bytes per request of a large file."""
_AT_ONCE = 8
"""The maximum number of requests of one file in progress at once."""


@dataclass(frozen=True)
class Attachment:
    """A generation of a published database, as a directory of which files are fetched when they are needed."""

    root: Path
    """The directory of the generation."""
    url: str
    head: Head
    size: int | None
    """The maximum bytes of the files in the cache, or None for no limit."""
    listing: Listing = field(repr=False)

    @property
    def store(self) -> ObjectStore:
        """The object store."""
        return _store(self.url, os.getpid())

    def checked(self, name: str) -> Attachment:
        """Return this attachment if the generation has a file.

        Raises:
            BindError: The file is not part of the publication.
        """
        if name not in self.listing:
            raise BindError(
                f"a table that the query reads is not part of the publication at {self.url}; publish it WITH (tables = "
                "'all'), or pass seeds= to streams",
                code="not-published",
            )
        return self

    def fetch(self, name: str) -> None:
        """Fetch a file completely, unless it is in the cache or the generation does not have it.

        Raises:
            CorruptError: The object does not exist, or differs from what was published.
            DatabaseError: The request failed, or the disk is full.
        """
        if (file := self.listing.get(name)) is None:
            return
        with self._incomplete(name) as path:
            if path is None:
                return
            make_room(self, file.bytes)
            staging = path.with_name(f"{path.name}.part")
            digest = sha256()
            with open(staging, "wb") as out:
                for block in self._blocks(name, 0, file.bytes):
                    digest.update(block)
                    out.write(block)
            if digest.hexdigest() != file.sha256:
                staging.unlink()
                raise damaged_object(self.url, name)
            staging.rename(path)
            _state_path(path).unlink(missing_ok=True)

    def fetch_columns(self, name: str, columns: Collection[str]) -> None:
        """Fetch the chunks of some columns of a Parquet file.

        The file then has its full size, but is sparse: the chunks of other columns are holes.
        """
        file = self.listing.get(name)
        if file is None:
            return None
        if file.columns is None:
            return self.fetch(name)
        wanted = {column for column in file.columns if column in columns}
        path = self.root / name
        if path.exists() and wanted <= _columns_of(path, file):
            return None
        with self._locked(name) as path:
            held = _columns_of(path, file) if path.exists() else None
            if held is None:
                make_room(self, 0)
                self._fetch_rest(path, name, file)
                held = set()
            missing = wanted - held
            if not missing:
                return None
            ranges = column_ranges(path)
            make_room(self, sum(length for column in missing for _, length in ranges[column]))
            with open(path, "r+b") as out:
                for column in sorted(missing):
                    self._fetch_column(out, name, file, column, ranges)
                    held.add(column)
            _write_state(path, held, file)
        return None

    def _fetch_rest(self, path: Path, name: str, file: Listed) -> None:
        """Create a sparse file with all bytes outside of the columns' chunks."""
        staging = path.with_name(f"{path.name}.part")
        with open(staging, "wb") as out:
            out.truncate(file.bytes)
            digest = with_rest(out, file.bytes, lambda start, length: b"".join(self._blocks(name, start, length)))
        if digest != file.rest:
            staging.unlink()
            raise damaged_object(self.url, name)
        _write_state(path, set(), file)  # before the file has its name, because a file without a state is complete
        staging.rename(path)

    def _fetch_column(self, out: Any, name: str, file: Listed, column: str, ranges: ColumnRanges) -> None:
        assert file.columns is not None
        digest = sha256()
        for start, length in ranges[column]:
            out.seek(start)
            for block in self._blocks(name, start, length):
                digest.update(block)
                out.write(block)
        out.flush()
        if digest.hexdigest() != file.columns[column]:
            raise damaged_object(self.url, name)

    def _blocks(self, name: str, start: int, length: int) -> Iterator[bytes]:
        """Yield a part of an object in order, in blocks that several requests fetch ahead."""
        store = self.store
        pieces = [(at, min(_PIECE, start + length - at)) for at in range(start, start + length, _PIECE)]
        if len(pieces) <= 1:
            for at, size in pieces:
                yield self._piece(store, name, at, size)
            return
        with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="snapdb-fetch") as pool:
            waiting: deque[Any] = deque()
            for piece in pieces:
                waiting.append(pool.submit(self._piece, store, name, *piece))
                if len(waiting) == _AT_ONCE:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()

    def _piece(self, store: ObjectStore, name: str, start: int, length: int) -> bytes:
        content = store.read(name, start, length)
        if content is None:
            raise gone(self.url, name, self.head.generation)
        if len(content) != length:
            raise damaged_object(self.url, name)
        return content

    @contextmanager
    def _incomplete(self, name: str) -> Iterator[Path | None]:
        """Yield the path of a file that is not complete, under its lock, or None if it is complete."""
        path = self.root / name
        if _is_complete(path):
            yield None
            return
        with self._locked(name) as locked:
            yield None if _is_complete(locked) else locked

    @contextmanager
    def _locked(self, name: str) -> Iterator[Path]:
        """Hold the lock of a file, which other threads and processes that need it wait for."""
        path = self.root / name
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            # A lock ends with its process, so a killed process leaves only an incomplete `.part` file.
            descriptor = os.open(path.with_name(f".{path.name}.lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX)
                yield path
            finally:
                os.close(descriptor)
        except OSError as error:
            raise DatabaseError(
                f"cannot write {path} in the cache: {error.strerror}; free some space, or choose another cache",
                code="disk-full" if error.errno == 28 else "cannot-write",
            ) from error


def attach(url: str, cache: Path, size: int | None = None) -> Attachment:
    """Return the current generation of a published database, with its catalog in the cache.

    Args:
        url: The URL of the publication.
        cache: The directory of the cache, which is created if it does not exist.
        size: The maximum bytes of the files in the cache, or None for no limit.

    Raises:
        InputError: There is no publication at the URL.
        CorruptError: The catalog or the listing is damaged.
        DatabaseError: The request failed, or the cache cannot be written.
    """
    store = open_store(url)
    head = read_head(store)
    own = cache / head.database
    root = own / head.catalog[:16]
    if not (root / MARKER).exists():
        listing = verified(store, head.listing_key, head.listing, head.generation)
        catalog = verified(store, head.catalog_key, head.catalog, head.generation)
        _make_root(own, root, {"catalog.sqlite": catalog, "listing.json": listing})
    marker = {"url": store.url, "head": json.loads(head.encoded()), "cache_size": size}
    _replace(root / MARKER, json.dumps(marker, indent=1).encode())
    _opened.cache_clear()
    attachment = Attachment(root, store.url, head, size, read_listing_file(root))
    make_room(attachment, 0)
    return attachment


def cache_dir() -> Path:
    """Return the default directory of the cache."""
    if given := os.environ.get("SNAPDB_CACHE"):
        return Path(given).absolute()
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "snapdb"


def _make_root(own: Path, root: Path, files: dict[str, bytes]) -> None:
    """Create the directory of a generation. Its marker is written last."""
    try:
        root.mkdir(parents=True, exist_ok=True)
        for folder in FOLDERS:
            (own / FILES / folder).mkdir(parents=True, exist_ok=True)
            with suppress(FileExistsError):  # another process attaches the same generation
                (root / folder).symlink_to(Path("..") / FILES / folder)
        for name, content in files.items():
            _replace(root / name, content)
        (root / "readers.lock").touch()
    except OSError as error:
        raise DatabaseError(
            f"cannot create the cache {root}: {error.strerror}; choose another directory with cache=…",
            code="cannot-write",
        ) from error


def read_listing_file(root: Path) -> Listing:
    """Return the listing in the directory of a generation."""
    content = json.loads((root / "listing.json").read_bytes())
    return {path: Listed(*file) for path, file in content.items()}


def attachment_of(root: Path) -> Attachment | None:
    """Return the attachment whose generation has this directory, or None for other databases."""
    return _opened(root) if (root / MARKER).exists() else None


def provide(path: Path) -> None:
    """Fetch a missing file of an attached database. Does nothing for files that exist, or that belong to no attachment.

    The errors are those of `Attachment.fetch`.
    """
    if not _is_complete(path):
        _with_attachment(path, lambda attachment, name: attachment.fetch(name))
    elif path.name == _MANIFEST:  # every use of a directory begins with its manifest
        _with_attachment(path, lambda attachment, name: None)


def is_remote(path: Path) -> bool:
    """Return whether a file of an attached database has not been fetched yet."""
    roots = (folder.parent for folder in path.parents if folder.name in FOLDERS)
    return not path.exists() and any((root / MARKER).exists() for root in roots)


def provide_metadata(path: Path) -> bool:
    """Fetch the metadata of a Parquet file of an attached database. Returns whether the generation has the file.

    The errors are those of `Attachment.fetch`.
    """
    if not _is_complete(path):
        _with_attachment(path, lambda attachment, name: attachment.fetch_columns(name, ()))
    return path.exists()


def provide_columns(path: Path, columns: Collection[str]) -> None:
    """Fetch columns of a Parquet file of an attached database. An empty collection fetches only the metadata.

    Raises:
        BindError: The file is not part of the publication. Other errors are those of `Attachment.fetch`.
    """
    complete = _is_complete(path)
    _with_attachment(path, lambda a, name: None if complete else a.checked(name).fetch_columns(name, columns))


def _with_attachment(path: Path, fetch: Callable[[Attachment, str], None]) -> None:
    for folder in path.parents:
        if folder.name in FOLDERS and (attachment := attachment_of(folder.parent)) is not None:
            name = path.relative_to(folder.parent).as_posix()
            fetch(attachment, name)
            note_use(path)
            return


@lru_cache(maxsize=64)
def _opened(root: Path) -> Attachment:
    try:
        marker = json.loads((root / MARKER).read_bytes())
        fields = {name: value for name, value in marker["head"].items() if name != "format"}
        return Attachment(root, marker["url"], Head(**fields), marker["cache_size"], read_listing_file(root))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CorruptError(
            f"{root / MARKER} is damaged; remove {root} and connect again", code="damaged-file"
        ) from error


@lru_cache(maxsize=8)
def _store(url: str, process: int) -> ObjectStore:
    """Return the store of a URL in this process. A forked process opens its own connections."""
    return open_store(url)


# The state of a sparse Parquet file: which columns it has. A file without a state is complete.


def _is_complete(path: Path) -> bool:
    """Return whether a file exists with all its bytes. Only Parquet files can be sparse."""
    return path.exists() and not (path.suffix == ".parquet" and _state_path(path).exists())


def _state_path(path: Path) -> Path:
    return path.with_name(f".{path.name}.columns")


def _columns_of(path: Path, file: Listed) -> set[str]:
    """Return the columns whose chunks a file has."""
    try:
        return set(json.loads(_state_path(path).read_bytes()))
    except FileNotFoundError:
        return set(file.columns or ())
    except ValueError:
        return set()


def _write_state(path: Path, held: set[str], file: Listed) -> None:
    """Record the columns of a file, whose chunks have been written. All columns need no record."""
    if held >= set(file.columns or ()) and path.exists():
        _state_path(path).unlink(missing_ok=True)
    else:
        _replace(_state_path(path), json.dumps(sorted(held)).encode())


def _replace(path: Path, content: bytes) -> None:
    """Write a file atomically."""
    staging = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    staging.write_bytes(content)
    staging.rename(path)


def shown_place(root: Path) -> str:
    """Return the URL of an attached database, or the path of another one, for messages."""
    attachment = attachment_of(root)
    return str(root) if attachment is None else attachment.url

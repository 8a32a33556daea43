"""The database directory: creates a new one, and opens or rejects an existing one. Checks for network file systems."""

import os
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote as url_quote

from snapdb.errors import CorruptError, DatabaseError, FormatError
from snapdb.remote import attachment_of
from snapdb.storage.catalog_db.codec import MISREAD
from snapdb.storage.catalog_db.schema import APPLICATION_ID, FORMAT
from snapdb.storage.disk import Disk
from snapdb.types import nearest

_MOUNTS = Path("/proc/self/mountinfo")
"""The kernel's list of mounts."""
_NETWORK = frozenset(
    {"nfs", "nfs4", "cifs", "smb3", "smbfs", "afs", "ceph", "lustre", "glusterfs"}
    | {"fuse.sshfs", "fuse.s3fs", "fuse.gcsfuse", "fuse.glusterfs"}
)
"""Network file system types."""
_OCTAL = re.compile(r"\\([0-7]{3})")
"""An octal escape in the list of mounts."""

CATALOG = "catalog.sqlite"


def _file_system(path: str, mounts: str) -> str | None:
    r"""Return the type of the file system that contains an absolute path, or None if `mounts` does not list it.

    Args:
        path: The path.
        mounts: The text of /proc/self/mountinfo.

    >>> mounts = "22 1 8:1 / / rw shared:1 - ext4 /dev/sda1 rw\n31 22 0:9 / /my\\040data rw - nfs4 host:/x rw"
    >>> _file_system("/my data/shop.snapdb", mounts), _file_system("/my database", mounts)
    ('nfs4', 'ext4')
    """
    longest: tuple[int, str] | None = None
    for line in mounts.splitlines():
        before, _, after = line.partition(" - ")
        fields, kinds = before.split(" "), after.split(" ")
        if len(fields) < 5 or not kinds[0]:
            continue
        point = _OCTAL.sub(lambda octal: chr(int(octal[1], 8)), fields[4])
        inside = path == point or path.startswith(point if point.endswith("/") else f"{point}/")
        # Use the longest mount point that is a prefix of the path. If two mounts have the same mount point, the later
        # one hides the earlier one.
        if inside and (longest is None or len(point) >= longest[0]):
            longest = (len(point), kinds[0])
    return None if longest is None else longest[1]


def file_system(path: Path, mounts: Path = _MOUNTS) -> str | None:
    """Return the type of a path's file system, or None if the kernel lists no mounts. The path need not exist."""
    try:
        # Mount points are bytes. latin-1 maps each byte to one character, as the octal escapes do.
        text = mounts.read_bytes().decode("latin-1")
    except OSError:  # not Linux, or hidden by a container
        return None
    return _file_system(os.fsencode(os.path.realpath(path)).decode("latin-1"), text)


def _network_disk(path: Path, mounts: Path = _MOUNTS) -> str | None:
    """Return the type of a path's network file system, or None if the file system is local. The path need not exist."""
    kind = file_system(path, mounts)
    return kind if kind in _NETWORK else None


@dataclass(frozen=True, slots=True)
class DatabaseDir:
    """A directory that contains, or will contain, a database."""

    path: Path
    """The absolute path of the directory."""
    read_only: bool
    """Whether the database was opened read-only."""
    disk: Disk = field(default_factory=Disk)
    """The file operations of the database."""
    immutable: bool = False
    """Whether no process can write to the catalog while it is open. SQLite then needs neither locks nor additional
    files."""
    url: str | None = None
    """The URL of the published database of which this directory is an attached copy, or None."""

    @property
    def catalog(self) -> Path:
        return self.path / CATALOG

    def inside(self, path: str) -> Path:
        """Return the absolute path for a relative path in the catalog.

        Raises:
            CorruptError: The path is outside the database directory.
        """
        if path.startswith("/") or ".." in path.split("/") or "\0" in path:
            raise CorruptError(
                f"{self.catalog} is damaged: it refers to {path!r}, a path outside it; restore it from a backup",
                code="damaged-catalog",
            )
        return self.path / path

    @property
    def catalog_uri(self) -> str:
        """The URI with which SQLite opens the catalog. Only a writer creates a missing catalog."""
        uri = f"file:{url_quote(str(self.catalog))}?mode={'ro' if self.read_only else 'rwc'}"
        return f"{uri}&immutable=1" if self.immutable else uri  # otherwise SQLite would create a -shm file

    def check_format(self, version: int, application: int) -> None:
        """Check that this release can read a catalog with this format number and application id.

        Raises:
            FormatError: The catalog's format is newer or older (code 'old-format') than this release's, or the catalog
                does not belong to snapdb.
        """
        if version > FORMAT:
            raise FormatError(
                f"{self.path} has format {version}, but this snapdb supports formats up to {FORMAT}; install a newer "
                "snapdb",
                code="newer-format",
            )
        if 0 < version < FORMAT:
            raise FormatError(
                f"{self.path} has format {version} of an older snapdb, but this snapdb needs format {FORMAT}; run "
                f"`snapdb upgrade {self.path}`, which keeps a backup of the catalog",
                code="old-format",
            )
        if application not in (0, APPLICATION_ID):
            raise FormatError(
                f"{self.path} is not a snapdb database: {CATALOG} belongs to another application", code="not-a-database"
            )

    @contextmanager
    def raise_if_misread(self) -> Iterator[None]:
        """Raise CorruptError for errors in the block that come from decoding damaged rows."""
        try:
            yield
        except MISREAD as error:
            raise CorruptError(
                f"{self.catalog} is damaged ({error}); restore it from a backup", code="damaged-catalog"
            ) from error


def open_db_dir(
    path: Path,
    *,
    read_only: bool,
    make: bool = True,
    disk: Disk | None = None,
    older: bool = False,
    mounts: Path = _MOUNTS,
) -> DatabaseDir:
    """Open the database directory at `path`, or create it if it does not exist. Its parent directory must exist.

    Args:
        path: The path of the database.
        read_only: Whether to open it for reading only.
        make: Whether to create a missing database. Otherwise, or with `read_only`, a missing database is an error.
        disk: The file operations, or None for the system's.
        older: Whether to accept a database in an older format, in order to upgrade it.
        mounts: The kernel's list of mounts.

    Raises:
        DatabaseError: `path` is not valid UTF-8, is a file, does not exist, cannot be created, or is on a network disk.
        FormatError: The directory contains something that is not a database, or a database in a newer or older format.
    """
    path = Path(os.path.abspath(path))
    _check_name(path)
    if path.exists() and not path.is_dir():
        raise DatabaseError(
            f"{path} is a file; a snapdb database is a directory: choose another path", code="not-a-directory"
        )
    attached = attachment_of(path)
    if attached is not None and not read_only:
        raise DatabaseError(
            f"{path} is a copy of {attached.url}, which is read-only; open it with read_only=True (--read-only)",
            code="read-only-remote",
        )
    immutable = attached is not None or _immutable(path, read_only, mounts)
    url = None if attached is None else attached.url
    db_dir = DatabaseDir(path, read_only, disk or Disk(), immutable, url)
    if db_dir.catalog.exists():
        _check_catalog(db_dir, older)
    elif read_only or not make:
        raise no_database(path)
    else:
        _make(db_dir)
    if not read_only and not os.access(path, os.W_OK):
        raise DatabaseError(
            f"{path} is not writable; open it with read_only=True (--read-only) or fix its permissions",
            code="not-writable",
        )
    return db_dir


def _check_name(path: Path) -> None:
    """Check that a path is valid for DuckDB, which requires UTF-8, and for the kernel, which ends paths at NUL."""
    shown = os.fsencode(path).decode(errors="replace")
    if not _is_utf8(path):
        raise DatabaseError(
            f"the path {shown} is not valid UTF-8; rename the part with the replaced character, or choose another path",
            code="database-path",
        )
    if "\0" in str(path):
        raise DatabaseError(f"the path {shown!r} contains NUL; choose another path", code="database-path")


def _is_utf8(path: Path) -> bool:
    try:
        os.fsencode(path).decode()
    except UnicodeDecodeError:
        return False
    return True


def _immutable(path: Path, read_only: bool, mounts: Path) -> bool:
    """Return whether the catalog can be read as an immutable file.

    Raises:
        DatabaseError: The catalog would be shared with other processes over a network disk.
    """
    network = _network_disk(path, mounts)
    logged = (path / f"{CATALOG}-wal").exists()
    if network is not None and (not read_only or logged):
        raise DatabaseError(
            f"{path} is on a network disk ({network}): SQLite's write-ahead log needs shared memory, which is not "
            "available across machines; move the database to a local disk",
            code="network-disk",
        )
    return read_only and not logged and (network is not None or not os.access(path, os.W_OK))


def no_database(path: Path, whose: str = "") -> DatabaseError:
    """Return the error for a path without a database. It suggests a similarly named database in the same directory.

    Args:
        path: The path.
        whose: Text that follows the path in the message.
    """
    if (missing := _missing_directory(path)) is not None:
        hint = missing
    elif (near := _named_nearly(path)) is not None:
        hint = f"did you mean {near}?"
    else:
        hint = "check the path; the first statement that writes creates a database"
    return DatabaseError(f"no database exists at {path}{whose}; {hint}", code="no-database")


def _named_nearly(path: Path) -> Path | None:
    """Return the database in the same directory whose name, without its suffix, is most similar to that of `path`."""
    try:
        beside = {catalog.parent.stem: catalog.parent for catalog in sorted(path.parent.glob(f"*/{CATALOG}"))}
    except OSError:
        return None
    near = nearest(path.stem, beside)
    return None if near is None else beside[near]


def _missing_directory(path: Path) -> str | None:
    """Return the first missing directory above `path`, with a hint, or None if the parent directory exists."""
    parent = path.absolute().parent
    if os.path.isdir(parent):
        return None
    missing = next(place for place in (parent, *parent.parents) if os.path.isdir(place.parent))
    if missing.exists():
        return f"{missing} is a file, not a directory"
    try:
        near = nearest(missing.name, [place.name for place in missing.parent.iterdir() if place.is_dir()])
    except OSError:
        near = None
    hint = f"did you mean {missing.parent / near}?" if near else f"create it first: mkdir -p {parent}"
    return f"directory {missing} does not exist; {hint}"


def _make(db_dir: DatabaseDir) -> None:
    """Create the directory of a new database."""
    path = db_dir.path
    if (missing := _missing_directory(path)) is not None:
        raise DatabaseError(f"cannot create a database at {path}: {missing}", code="no-directory")
    if path.is_dir() and any(path.iterdir()):
        raise FormatError(
            f"{path} is not a snapdb database: it has no {CATALOG} and is not empty", code="not-a-database"
        )
    try:
        db_dir.disk.make(path)
    except OSError as error:
        raise DatabaseError(
            f"cannot create the database directory {path}: {error.strerror}", code="cannot-write"
        ) from error


def file_id(path: Path) -> tuple[int, int] | None:
    """Return the device and inode of a file, which writes do not change, or None if the file does not exist."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def check_in_place(path: Path, opened: tuple[int, int] | None = None) -> None:
    """Check that an open database is still at its path.

    Args:
        path: The path of the database directory.
        opened: The `file_id` of the catalog that was opened, if known.

    Raises:
        DatabaseError: The database was moved, removed or replaced by another one.
    """
    current = file_id(path / CATALOG)
    if current is None:
        raise DatabaseError(
            f"the database at {path} no longer exists: it was moved or removed while it was open; connect to its "
            "new path",
            code="database-gone",
        )
    if opened is not None and current != opened:
        raise DatabaseError(
            f"the database at {path} is not the one that was opened, which was moved, removed or replaced by a backup; "
            "connect to it again",
            code="database-gone",
        )


@contextmanager
def raise_if_replaced(path: Path) -> Iterator[None]:
    """If a file is missing because the database was moved or removed, report the move or removal instead of damage.

    Raises:
        DatabaseError: The database was moved, removed or replaced.
    """
    try:
        yield
    except CorruptError as error:
        try:
            check_in_place(path)
        except DatabaseError as gone:
            raise gone from error
        raise


def _check_catalog(db_dir: DatabaseDir, older: bool) -> None:
    """Reject a file that is not a snapdb catalog, or whose format is newer or (unless `older`) older."""
    try:
        size = db_dir.catalog.stat().st_size
    except OSError as error:
        raise DatabaseError(f"cannot read {db_dir.catalog}: {error.strerror}", code="cannot-read") from error
    if not size:  # another process is creating it right now, unless tables already exist
        if any((db_dir.path / folder).exists() for folder in ("tables", "ids", "snapshots")):
            raise CorruptError(
                f"{db_dir.catalog} is empty, but the directory contains tables; restore it from a backup",
                code="damaged-catalog",
            )
        return
    # Read the file through SQLite. When a process closes any descriptor of a file, POSIX releases all of the process's
    # locks on that file, including the locks of its open connections.
    try:
        with closing(sqlite3.connect(db_dir.catalog_uri, uri=True, isolation_level=None)) as connection:
            version, application = read_format(connection)
    except sqlite3.DatabaseError as error:
        if "not a database" not in str(error):
            return  # the problem is reported when the connection is opened
        raise FormatError(
            f"{db_dir.path} is not a snapdb database: {CATALOG} is not a SQLite file", code="not-a-database"
        ) from error
    db_dir.check_format(max(version, FORMAT) if older else version, application)


def read_format(connection: sqlite3.Connection) -> tuple[int, int]:
    """Return a catalog's format number (0 for a new file), and the id of the application that created it."""
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    return int(version), int(application)

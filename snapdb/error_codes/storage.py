"""Codes of what concerns the database directory: DatabaseError and its kinds, lost races, locks."""

from __future__ import annotations

from snapdb.error_codes.code import Code

_DATABASE, _FORMAT, _CORRUPT, _MOVED, _LOCKED = (
    "DatabaseError",
    "FormatError",
    "CorruptError",
    "CommitConflict",
    "LockedError",
)
_DISK = "It depends on the disk."
_DAMAGE = "A file must be damaged first."
_RACE = "Another writer must be faster."
_BACKUP = "Restore the database from a backup; CHECK DATABASE lists all damage."
_AGAIN = "Run the statement again."

STORAGE = (
    Code(
        "database",
        _DATABASE,
        "The database directory cannot be used.",
        "Read the message.",
        unshown="Every such error has a code of its own.",
    ),
    Code(
        "no-database",
        _DATABASE,
        "There is no database at this path.",
        "Check the path. A statement that writes, or connect in Python, creates one.",
        unshown=_DISK,
    ),
    Code(
        "no-directory",
        _DATABASE,
        "The directory that shall hold a new database does not exist.",
        "Check the path, or create the directory first.",
        unshown=_DISK,
    ),
    Code(
        "database-gone",
        _DATABASE,
        "The database directory, or its write-ahead log, was moved or removed while it was open, or another one took "
        "its place.",
        "Connect to it where it is now.",
        unshown=_DISK,
    ),
    Code(
        "other-database",
        _DATABASE,
        "A batch is replayed in a database that it is not of, or in an older copy.",
        "Say which one it is of: database=….",
        unshown=_DISK,
    ),
    Code(
        "database-path",
        _DATABASE,
        "The path of the database is not UTF-8, or holds NUL.",
        "Rename the folder, or choose another path.",
        unshown=_DISK,
    ),
    Code(
        "not-a-directory",
        _DATABASE,
        "The path is a file; a database is a directory.",
        "Choose another path.",
        unshown=_DISK,
    ),
    Code(
        "not-writable",
        _DATABASE,
        "The directory may not be written to.",
        "Open it with read_only=True (--read-only), or fix its permissions.",
        unshown=_DISK,
    ),
    Code(
        "network-disk",
        _DATABASE,
        "The directory is on a network disk, where the catalog's log cannot work.",
        "Put it on a local disk.",
        unshown=_DISK,
    ),
    Code(
        "read-only",
        _DATABASE,
        "The database is opened for reading only, and the statement writes.",
        "Open it without read_only (--read-only).",
        unshown="The database of the examples is opened for writing.",
    ),
    Code(
        "closed",
        _DATABASE,
        "The database was closed.",
        "Connect to it again.",
        unshown="It is about a call from Python.",
    ),
    Code(
        "cannot-write",
        _DATABASE,
        "A file cannot be written; nothing was changed.",
        "Look at the disk and its free space.",
        unshown=_DISK,
    ),
    Code("cannot-read", _DATABASE, "A file of the database cannot be read.", "Look at its permissions.", unshown=_DISK),
    Code(
        "disk-full",
        _DATABASE,
        "The disk is full; nothing was changed.",
        "Make room; EXPIRE SNAPSHOTS and VACUUM free some.",
        unshown=_DISK,
    ),
    Code("nothing-to-upgrade", _DATABASE, "The catalog is empty.", "Open the database to make it.", unshown=_DISK),
    Code(
        "format",
        _FORMAT,
        "The directory is of a format that cannot be read.",
        "Read the message.",
        unshown="Every such error has a code of its own.",
    ),
    Code("not-a-database", _FORMAT, "The directory holds something else.", "Choose another path.", unshown=_DISK),
    Code(
        "rng-scheme",
        _FORMAT,
        "A batch is replayed that was drawn by formulas which this snapdb does not have.",
        "Install the snapdb that made it.",
        unshown=_DISK,
    ),
    Code(
        "newer-format",
        _FORMAT,
        "The database, or an export, was written by a newer snapdb.",
        "Install that one.",
        unshown=_DISK,
    ),
    Code(
        "old-format",
        _FORMAT,
        "The database was written by an older snapdb.",
        "Run `snapdb upgrade`, which keeps a backup of the catalog.",
        unshown=_DISK,
    ),
    Code("corrupt", _CORRUPT, "What was read leads out of its arrays.", _BACKUP, unshown=_DAMAGE),
    Code(
        "damaged-catalog",
        _CORRUPT,
        "The catalog contradicts itself, or is no SQLite file any more.",
        _BACKUP,
        unshown=_DAMAGE,
    ),
    Code(
        "forked-history",
        _CORRUPT,
        "A version that was published is not in the catalog, so that its number would be given out twice.",
        "Restore the database from a backup. Where the copy at hand is the one to go on with, remove `versions.log`.",
        unshown=_DAMAGE,
    ),
    Code(
        "damaged-table", _CORRUPT, "A file of a table is missing, or not what was published.", _BACKUP, unshown=_DAMAGE
    ),
    Code(
        "damaged-snapshot",
        _CORRUPT,
        "A file of a snapshot is missing, or not what was published.",
        "Create the snapshot again.",
        unshown=_DAMAGE,
    ),
    Code("damaged-file", _CORRUPT, "A file is missing, or not what was published.", _BACKUP, unshown=_DAMAGE),
    Code(
        "missing-file", _CORRUPT, "A file went away while it was read.", "Create the snapshot again.", unshown=_DAMAGE
    ),
    Code("conflict", _MOVED, "Another writer was faster.", _AGAIN, unshown=_RACE),
    Code("table-moved", _MOVED, "A table was altered, dropped or replaced meanwhile.", _AGAIN, unshown=_RACE),
    Code(
        "rows-moved",
        _MOVED,
        "Rows that the statement removes or updates were removed by another meanwhile.",
        _AGAIN,
        unshown=_RACE,
    ),
    Code(
        "deletes-moved",
        _MOVED,
        "Rows of the table were removed meanwhile; the statement was tried again in vain.",
        _AGAIN,
        unshown=_RACE,
    ),
    Code(
        "ids-moved",
        _MOVED,
        "Rows or keys were added meanwhile; the statement was tried again in vain.",
        _AGAIN,
        unshown=_RACE,
    ),
    Code(
        "file-moved",
        _MOVED,
        "A file changed or went away while COPY … (NEW FILES ONLY) read it; nothing was loaded.",
        _AGAIN,
        unshown=_RACE,
    ),
    Code(
        "file-loaded",
        _MOVED,
        "Another process loaded a file meanwhile, with NEW FILES ONLY too; nothing was loaded twice.",
        _AGAIN,
        unshown=_RACE,
    ),
    Code("graph-moved", _MOVED, "A graph was made or dropped meanwhile.", _AGAIN, unshown=_RACE),
    Code("snapshot-moved", _MOVED, "A snapshot was refreshed, replaced or dropped meanwhile.", _AGAIN, unshown=_RACE),
    Code(
        "snapshot-replaced",
        _MOVED,
        "A snapshot was replaced again and again while it was opened.",
        _AGAIN,
        unshown=_RACE,
    ),
    Code("tag-moved", _MOVED, "A tag was made, replaced or dropped meanwhile.", _AGAIN, unshown=_RACE),
    Code("locked", _LOCKED, "A lock was not free in time.", _AGAIN, unshown=_RACE),
    Code("catalog-busy", _LOCKED, "Another process held the catalog for too long.", _AGAIN, unshown=_RACE),
    Code("sampler-moved", _MOVED, "A sampler was made, replaced or dropped meanwhile.", _AGAIN, unshown=_RACE),
    Code("cache-moved", _MOVED, "A cache was made, replaced or dropped meanwhile.", _AGAIN, unshown=_RACE),
    Code("task-moved", _MOVED, "A task was made, altered, replaced or dropped meanwhile.", _AGAIN, unshown=_RACE),
    Code(
        "run-lost",
        _MOVED,
        "A task's run was given up, so that it may publish nothing more.",
        "Look at SHOW TASK RUNS: another process has its record.",
        unshown=_RACE,
    ),
    Code(
        "wait-timeout",
        "WaitTimeout",
        "No newer publication of a snapshot came in time.",
        "Look whether a daemon runs, and at SHOW TASK RUNS; wait again.",
        unshown="It depends on what others do.",
    ),
    Code(
        "cannot-wait",
        _DATABASE,
        "A database is read as files that nobody changes, so that waiting would never end.",
        "Open it again once another process has it open for writing.",
        unshown=_DISK,
    ),
    Code(
        "task-running",
        _LOCKED,
        "A run of the task goes on, in this process or another one.",
        "Wait for its end; SHOW TASK RUNS tells of it.",
        unshown=_RACE,
    ),
    Code("leader-lost", _MOVED, "Another daemon leads the database.", "Leave it to that one.", unshown=_RACE),
)

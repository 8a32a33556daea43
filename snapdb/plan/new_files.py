"""COPY … (NEW FILES ONLY): which of the files behind a path are to be loaded, and what becomes of the others."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from snapdb.errors import CommitConflict, SnapdbError
from snapdb.plan.scope import Context
from snapdb.relational import Session, file_literal, files_behind, is_hidden
from snapdb.storage.changes import LoadedFile
from snapdb.storage.loaded import Memory, has_footer, loaded_files, look_at
from snapdb.types import Table

_NAMED = 5
"""Files of a kind that are named; of the rest it is told how many they are."""


@dataclass(frozen=True, slots=True)
class NewFiles:
    """The files behind a path or glob, as they were found."""

    names: tuple[str, ...]
    """Of those to be loaded, in order."""
    files: tuple[LoadedFile, ...]
    """The same, as they were then."""
    unfinished: tuple[str, ...] = ()
    """Those that are left for the next time, each with the reason."""
    changed: tuple[str, ...] = ()
    """Those that are no longer what was loaded, each with the version that loaded it."""

    def notes(self) -> str:
        """What a person should know of the others, as the end of a line.

        >>> NewFiles((), (), ("day3.parquet (half written)",)).notes()
        '; left for the next time: day3.parquet (half written)'
        """
        left = f"; left for the next time: {_some(self.unfinished)}" if self.unfinished else ""
        old = f"; not loaded again, though changed: {_some(self.changed)}" if self.changed else ""
        return left + old

    def check_unmoved(self) -> None:
        """Nothing when every file to be loaded is still as it was found; else CommitConflict names the first."""
        for name, file in zip(self.names, self.files, strict=True):
            if (found := look_at(name)) != file:
                how = "is gone" if found is None else "changed while it was read"
                raise CommitConflict(f"{name} {how}; nothing was loaded, run the statement again", code="file-moved")


def find_new_files(session: Session, context: Context, table: Table, path: str, format_: str) -> NewFiles:
    """The files behind a path or glob, in the order of their names: those that are whole and not in the table yet."""
    found = list(_deliveries(session, context, path))
    known = loaded_files(context.ledger, table.id, (file.path for _, file in found))
    known |= {file.path: Memory(file, 0) for owner, file in context.catalog.loading if owner == table.id}
    names, files, unfinished, changed = [], [], [], []
    for name, file in found:
        session.check_stopped()
        if (memory := known.get(file.path)) is not None:
            if memory.file != file:
                by = f"version {memory.version}" if memory.version else "this transaction"
                changed.append(f"{name} (since {by} loaded it)")
        elif why := _unfinished(session, name, file, format_):
            unfinished.append(f"{name} ({why})")
        else:
            known[file.path] = Memory(file, 0)  # another name may lead to it
            names.append(name)
            files.append(file)
    return NewFiles(tuple(names), tuple(files), tuple(unfinished), tuple(changed))


def _deliveries(session: Session, context: Context, path: str) -> Iterator[tuple[str, LoadedFile]]:
    """Each file behind a path or glob, and how it is now.

    What is hidden is passed over: it may be a file that is being written and gets its name when it is whole. So is
    what the database wrote for itself: to open the catalog would drop the locks that SQLite holds on it.
    """
    own = os.path.join(os.path.realpath(context.home.path), "")
    for name in files_behind(session, path):
        session.check_stopped()
        if is_hidden(name, path) or os.path.realpath(name).startswith(own):
            continue
        context.relational.check_folder(name)
        if (file := look_at(name)) is not None:  # else it went away since
            yield name, file


def _unfinished(session: Session, name: str, file: LoadedFile, format_: str) -> str | None:
    """Why a file cannot be whole yet; None where it may be. Text does not tell where it ends."""
    if not file.bytes:
        return "empty"
    if format_ == "parquet" and not (has_footer(name) and _is_readable(session, name)):
        return "half written"
    return None


def _is_readable(session: Session, name: str) -> bool:
    """Whether what the footer says of a Parquet file can be read."""
    try:
        session.describe(f"FROM read_parquet({file_literal(name)})")
    except SnapdbError as error:
        if error.code in {"interrupted", "folder-not-allowed"}:  # neither is about what the file holds
            raise
        return False
    return True


def _some(names: Sequence[str]) -> str:
    """Names in a row, the first few of them.

    >>> _some(["a", "b"]), _some("abcdefg")
    ('a, b', 'a, b, c, d, e and 2 more')
    """
    more = f" and {len(names) - _NAMED:,} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more

"""The folder that COPY SNAPSHOT … TO or COPY (SAMPLE …) TO writes: where it may be, and errors at its place."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from snapdb.errors import InputError, Span
from snapdb.execute.operator import Engine
from snapdb.storage.folder import FolderWriter
from snapdb.types.text import counted


@contextmanager
def export_folder(engine: Engine, path: str, span: Span, *, overwrite: bool) -> Iterator[FolderWriter]:
    """A folder to fill; it stands at the path when the block has called its `finish`, else nothing of it stays.

    Raises:
        InputError: nothing may be put there, or the disk refuses.
    """
    target = Path(os.path.expanduser(path))
    if Path(os.path.realpath(target)).is_relative_to(os.path.realpath(engine.home.path)):
        said = f"{path} lies in the database's own folder, which holds only what snapdb writes"
        raise InputError(said, span=span, code="unwritable-file")
    try:
        engine.relational.check_folder(target)
        with FolderWriter(target, engine.home.disk, overwrite=overwrite) as folder:
            yield folder
    except InputError as error:
        if error.code in ("unwritable-file", "folder-exists", "folder-not-allowed"):
            error.span = error.span or span
        raise


def size_words(size: int) -> str:
    """Bytes as a person says them.

    >>> size_words(1), size_words(999), size_words(123_456_789), size_words(2 * 10**12)
    ('1 byte', '999 bytes', '123.5 MB', '2.0 TB')
    """
    for unit, factor in (("TB", 10**12), ("GB", 10**9), ("MB", 10**6), ("KB", 10**3)):
        if size >= factor:
            return f"{size / factor:.1f} {unit}"
    return counted(size, "byte")

"""The folder that COPY SNAPSHOT … TO or COPY (SAMPLE …) TO writes: where it may be, and errors at its place."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from snapdb.errors import InputError, Span
from snapdb.execute.operator import Engine
from snapdb.storage.folder import FolderWriter


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

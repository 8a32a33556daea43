"""The directory of an export, which appears atomically."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from snapdb.errors import InputError, Span
from snapdb.execute.session import ExecutionContext
from snapdb.storage.manifests import FolderWriter


@contextmanager
def export_folder(context: ExecutionContext, path: str, span: Span, *, overwrite: bool) -> Iterator[FolderWriter]:
    """Yield a directory to fill, as a context manager. It is removed unless the block publishes it with `finish`.

    Raises:
        InputError: The path is not writable or not allowed, or the disk reports an error.
    """
    target = Path(os.path.expanduser(path))
    if Path(os.path.realpath(target)).is_relative_to(os.path.realpath(context.store.db_dir.path)):
        problem = f"{path} is in the database directory, which contains only files of snapdb; choose a path outside it"
        raise InputError(problem, span=span, code="unwritable-file")
    try:
        context.store.sql_engine.check_folder(target)
        with FolderWriter(target, context.store.disk, overwrite=overwrite) as folder:
            yield folder
    except InputError as error:
        if error.code in ("unwritable-file", "folder-exists", "folder-not-allowed"):
            error.span = error.span or span
        raise

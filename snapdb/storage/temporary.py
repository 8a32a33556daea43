"""Bytes in a file without a name, which may be more than memory holds and go with the process."""

from __future__ import annotations

import errno
import os
import tempfile
from pathlib import Path

import numpy as np
import numpy.typing as npt

from snapdb.errors import DatabaseError

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def temporary_bytes(folder: Path, size: int, what: str, remedy: str) -> npt.NDArray[np.uint8]:
    """So many zeros in a file that lies in the folder.

    Args:
        what: they are for, in words.
        remedy: what to do instead of making room.

    Raises:
        DatabaseError: the disk has no room for them, or no file can be made there.
    """
    if size == 0:
        return np.zeros(0, np.uint8)
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            if hasattr(os, "posix_fallocate"):  # a full disk is told here, and not by the end of the process
                os.posix_fallocate(file.fileno(), 0, size)
            return np.memmap(file, np.uint8, "r+", shape=(size,)).view(np.ndarray)
    except OSError as error:
        if error.errno not in _FULL:
            raise DatabaseError(
                f"cannot make a file of {size:,} bytes for {what} in {folder}: {error.strerror}; look at the folder, "
                "and at the limits of this process (ulimit -a)",
                code="cannot-write",
            ) from error
        raise DatabaseError(
            f"{folder} has no room for {what} ({size:,} bytes); make room there, or {remedy}", code="disk-full"
        ) from error

"""A file that is there whole or not at all."""

from __future__ import annotations

import contextlib
import stat
from collections.abc import Iterator
from pathlib import Path

from snapdb.storage.disk import hidden_beside


class Target:
    """Where to write, and whether what was written shall stay."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.kept = False


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[Target]:
    """A new file beside `path`, which takes its name and its rights when the block ends and `kept` is set.

    What is no plain file, such as a pipe, is written itself. Raises OSError where the file cannot be made.
    """
    real = path.resolve()
    known = real.stat().st_mode if real.exists() else None
    if known is not None and not stat.S_ISREG(known):
        yield Target(real)
        return
    target = Target(hidden_beside(real))
    try:
        target.path.touch(exist_ok=False)
        yield target
        if target.kept:
            if known is not None:
                target.path.chmod(stat.S_IMODE(known))
            target.path.replace(real)
    finally:
        target.path.unlink(missing_ok=True)

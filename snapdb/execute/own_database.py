"""The database as a task's run opens it for itself: all that a run needs of it."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Protocol

from snapdb.sql import ast
from snapdb.storage.disk import Disk

if TYPE_CHECKING:
    from snapdb.execute.operator import Engine
    from snapdb.execute.result import Result


class OwnDatabase(Protocol):
    """What `snapdb.Database` is, too."""

    def run(self, statement: ast.Statement) -> Result:
        """Run a statement that was parsed."""

    def reading(self, params: Any = None) -> AbstractContextManager[Engine]:
        """An engine at the head, for the block."""

    def interrupt(self) -> None:
        """Stop the running statement."""

    def close(self) -> None:
        """Let go of everything; what is open is rolled back."""


class Opener(Protocol):
    """Opens the database anew."""

    def __call__(self, *, folders: Sequence[str], disk: Disk) -> OwnDatabase:
        """Open it on a disk, so that it may read and write itself and some folders, and nothing else."""

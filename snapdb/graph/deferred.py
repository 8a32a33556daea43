"""A mapping of opened files, in which a file that is missing or damaged is an error only for those that read it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import TypeVar

from snapdb.errors import DatabaseError

V = TypeVar("V")


class DeferredErrors(Mapping[str, V]):
    """Values by name, opened at once, so that they outlive the directory; what fails is opened again when it is read.

    >>> squares = DeferredErrors({"seven": lambda: 49})
    >>> "seven" in squares, squares["seven"]
    (True, 49)
    """

    def __init__(self, openers: Mapping[str, Callable[[], V]]) -> None:
        """Openers must be picklable where a DataLoader's workers get the mapping."""
        self._openers = dict(openers)
        self._opened: dict[str, V] = {}
        for name, opener in self._openers.items():
            with suppress(DatabaseError):
                self._opened[name] = opener()

    def __getitem__(self, name: str) -> V:
        return self._opened[name] if name in self._opened else self._openers[name]()

    def __contains__(self, name: object) -> bool:
        return name in self._openers

    def __iter__(self) -> Iterator[str]:
        return iter(self._openers)

    def __len__(self) -> int:
        return len(self._openers)

    def __reduce__(self) -> tuple[object, ...]:
        """Pickled without what was opened: another process maps the files itself."""
        return DeferredErrors, (self._openers,)

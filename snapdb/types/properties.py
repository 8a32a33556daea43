"""Properties: which columns of its table an element shows, and under which names."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Property:
    """A column and the name that it is shown under."""

    column: str
    name: str


@dataclass(frozen=True, slots=True)
class Properties:
    """What an element shows beside the columns that it needs."""

    named: tuple[Property, ...] = ()
    excepted: tuple[str, ...] | None = None
    """All columns but these are shown under their own names too; None: only the named ones."""

    def shown(self, columns: Iterable[str], needed: Iterable[str]) -> list[tuple[str, str]]:
        """Each column that is shown and its name there, in the columns' order; the needed ones always are.

        >>> Properties((Property("b", "c"),)).shown(["id", "a", "b"], ["ID"])
        [('id', 'id'), ('b', 'c')]
        """
        always = {name.lower() for name in needed}
        hidden = {name.lower() for name in self.excepted or ()}
        taken = {p.name.lower() for p in self.named}
        found = []
        for column in columns:
            own = column.lower()
            whole = self.excepted is not None and own not in hidden and own not in taken
            if own in always or whole:
                found.append((column, column))
            names = [p.name for p in self.named if p.column.lower() == own]
            found += [(column, name) for name in names if own not in always or name.lower() != own]
        return found

    def __str__(self) -> str:
        """As a graph says them.

        >>> str(Properties((Property("b", "c"),))), str(Properties()), str(Properties(excepted=("a",)))
        ('b AS c', 'none', 'all columns except a')
        """
        said = [p.column if p.column == p.name else f"{p.column} AS {p.name}" for p in self.named]
        if self.excepted is not None:
            said.insert(0, f"all columns except {', '.join(self.excepted)}" if self.excepted else "all columns")
        return ", ".join(said) or "none"

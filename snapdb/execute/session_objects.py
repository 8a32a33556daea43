"""The objects that exist only in one session: prepared statements, and temporary views, macros and types."""

from dataclasses import dataclass, field, replace

from snapdb.catalog import Catalog
from snapdb.sql.syntax import Statement
from snapdb.types import Definition


@dataclass(slots=True)
class SessionObjects:
    """The objects of a session, which end with it. They are not transactional."""

    prepared: dict[str, Statement] = field(default_factory=dict)
    """The prepared statements by case-folded name."""
    definitions: dict[tuple[str, str], Definition] = field(default_factory=dict)
    """The temporary definitions by kind and case-folded name."""
    taken: dict[int, int] = field(default_factory=dict)
    """The last value that the session took from each sequence, by the id of its definition."""

    def added_to(self, catalog: Catalog) -> Catalog:
        """Return a catalog with the temporary definitions."""
        if not self.definitions:
            return catalog
        return replace(catalog, definitions={**catalog.definitions, **self.definitions})

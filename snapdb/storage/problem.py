"""What a check finds."""

from __future__ import annotations

from typing import Literal, NamedTuple

Kind = Literal["damaged", "missing", "chain", "catalog", "orphan"]


class Problem(NamedTuple):
    """One thing that is not as it was published."""

    kind: Kind
    """'orphan' is a note: a file that nothing points at. Everything else is damage."""
    path: str
    """Relative to the database directory."""
    problem: str
    remedy: str

    @property
    def is_damage(self) -> bool:
        """Whether something that was published is not as it was."""
        return self.kind != "orphan"

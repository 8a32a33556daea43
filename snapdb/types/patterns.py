"""What a path pattern selects: the search, the mode, and the order of event times."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Mode = Literal["WALK", "TRAIL", "ACYCLIC", "SIMPLE"]
"""Which repetitions a path may have: any, no edge twice, no vertex twice, or no vertex twice except first = last."""

Selects = Literal["all", "shortest", "cheapest", "earliest"]


@dataclass(frozen=True, slots=True)
class Search:
    """The paths that are selected for each pair of first and last vertex."""

    kind: Selects = "all"
    count: int = 1
    """The number of paths, or of distinct lengths if `groups`."""
    groups: bool = False

    def __str__(self) -> str:
        """Return the search as in a path pattern.

        >>> str(Search("shortest", 2)), str(Search("shortest", 1, groups=True)), str(Search("earliest"))
        ('SHORTEST 2', 'ALL SHORTEST', 'ANY EARLIEST')
        """
        if self.kind == "all":
            return "ALL"
        if self.kind != "shortest":
            return f"ANY {self.kind.upper()}"
        if self.groups:
            return "ALL SHORTEST" if self.count == 1 else f"SHORTEST {self.count} GROUP"
        return "ANY SHORTEST" if self.count == 1 else f"SHORTEST {self.count}"

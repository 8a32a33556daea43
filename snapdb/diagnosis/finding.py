"""One finding of a report."""

from dataclasses import dataclass
from typing import Literal

Section = Literal["versions", "machine", "kernels", "database"]


@dataclass(frozen=True, slots=True)
class Finding:
    """A fact about the installation, the machine or a database."""

    section: Section
    item: str
    """The name of the finding within its section."""
    value: str
    status: Literal["ok", "note", "problem"] = "ok"
    """`note` means slower than necessary or short of space. `problem` means that something does not work."""
    advice: str | None = None
    """The remedy, or None if the status is ok."""


def in_bytes(size: int) -> str:
    """Return a number of bytes as readable text, in binary units.

    >>> in_bytes(512), in_bytes(3 << 20), in_bytes(25_000_000_000)
    ('512 B', '3.0 MiB', '23.3 GiB')
    """
    if size < 1 << 10:
        return f"{size} B"
    for shift, unit in ((10, "KiB"), (20, "MiB")):
        if size < 1 << (shift + 10):
            return f"{size / (1 << shift):.1f} {unit}"
    return f"{size / (1 << 30):,.1f} GiB"

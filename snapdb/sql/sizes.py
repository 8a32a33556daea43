"""Sizes of memory as a person writes them."""

from __future__ import annotations

import re
from decimal import Decimal

UNITS = ("B", "KB", "MB", "GB", "TB", "KiB", "MiB", "GiB", "TiB")
"""KB is 1000 bytes and KiB 1024, as in DuckDB."""

_SIZE = re.compile(r"\s*(\d{1,18}(?:\.\d{1,18})?)\s*([A-Za-z]+)\s*", re.ASCII)


def size(text: str) -> int | None:
    """The bytes of a size such as '2GB' or '1.5 GiB'; None when it is none, or beyond 64 bits.

    >>> size("2GB"), size("1.5 kib"), size("2")
    (2000000000, 1536, None)
    """
    found = _SIZE.fullmatch(text)
    unit = found and next((unit for unit in UNITS if unit.lower() == found[2].lower()), None)
    if not found or not unit:
        return None
    power = "BKMGT".index(unit[0])
    bytes_ = int(Decimal(found[1]) * (1024 if "i" in unit else 1000) ** power)
    return bytes_ if bytes_ < 2**63 else None


def bytes_of(name: str, given: int | str | None) -> int | None:
    """The bytes that a Python argument says, as a number or as a size.

    Raises:
        ValueError: its text is no size.
    """
    if not isinstance(given, str):
        return given
    found = size(given)
    if found is None:
        raise ValueError(f"{name} is a number of bytes or a size such as '2GB' ({', '.join(UNITS)}), found {given!r}")
    return found

"""Checks of all stored data against the recorded sizes and hashes, and verified backups.

Its names are imported on first use (PEP 562), because most statements do not need them.
"""

from typing import TYPE_CHECKING

from snapdb.on_first_use import on_first_use

if TYPE_CHECKING:
    from snapdb.storage.check.database import catalog_damage, verify_files

__all__ = ["catalog_damage", "verify_files"]

__getattr__ = on_first_use(__name__, dict.fromkeys(__all__, ".database"))

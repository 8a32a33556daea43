"""Tables on disk: segments, commits, id maps, and compaction.

Names that only writers need are imported on first use (PEP 562).
"""

from typing import TYPE_CHECKING

from snapdb.on_first_use import on_first_use

if TYPE_CHECKING:
    from snapdb.storage.tables.compaction import Merge, compact, find_tiers
    from snapdb.storage.tables.id_maps import IdMaps, assign_ids

__all__ = ["IdMaps", "Merge", "assign_ids", "compact", "find_tiers"]

_NAMES = {".compaction": ("Merge", "compact", "find_tiers"), ".id_maps": ("IdMaps", "assign_ids")}

__getattr__ = on_first_use(__name__, {name: module for module, names in _NAMES.items() for name in names})

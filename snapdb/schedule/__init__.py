"""Schedules: fire times, catch-up of missed ones, and the snapshots that a retention policy keeps.

Times are integer microseconds since 1970 UTC. Nothing here reads a clock. Names are imported on first use (PEP 562).
"""

from typing import TYPE_CHECKING

from snapdb.on_first_use import on_first_use

if TYPE_CHECKING:
    from snapdb.schedule.fire_times import Decision, after_a_jump, count, decide, firings, newest, next_firing, stamp
    from snapdb.schedule.periods import add, kept

__all__ = ["Decision", "add", "after_a_jump", "count", "decide", "firings", "kept", "newest", "next_firing", "stamp"]

__getattr__ = on_first_use(
    __name__, {name: ".periods" if name in ("add", "kept") else ".fire_times" for name in __all__}
)

"""Schedules: when tasks come due, what becomes of those that were missed, what retention keeps. No clock is read here.

Moments are microseconds since 1970 UTC, as integers.
"""

from snapdb.schedule.fire_times import Decision, after_a_jump, count, decide, firings, newest, next_firing, stamp
from snapdb.schedule.periods import add, kept

__all__ = ["Decision", "add", "after_a_jump", "count", "decide", "firings", "kept", "newest", "next_firing", "stamp"]

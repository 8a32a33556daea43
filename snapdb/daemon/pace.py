"""How often the daemon does what, in seconds of its clock."""

from __future__ import annotations

from dataclasses import dataclass

from snapdb.storage.leader import LAPSE


@dataclass(frozen=True, slots=True)
class Pace:
    """The defaults let a second daemon take over within ten seconds of the first one's end."""

    beat: float = 1.5
    """From one beat of the leader to the next."""
    lapse: float = LAPSE
    """Without a beat for so long, a leader leads no longer."""
    poll: float = 1.0
    """The longest wait: so soon a task is seen that another process made."""
    gap: float = 10.0
    """Late by more, or moved by more than the time that went by, the clock was set, or the machine or the daemon was
    suspended: nobody led meanwhile."""
    look: float = 2.0
    """From one look for runs whose process is gone to the next."""
    kill: float = 10.0
    """A run that has not stopped so long after it was to stop is killed."""

"""What becomes of a schedule whose firings were considered up to a moment that the clock has yet to come to."""

from __future__ import annotations

from dataclasses import dataclass

from snapdb.schedule.periods import add
from snapdb.types import Schedule

_FAR = 3 * 3_600_000_000
"""Three hours, as for cron(8): a clock set back by more was wrong before."""


@dataclass(frozen=True, slots=True)
class Resumed:
    """From where firings are considered from now on."""

    considered: int
    anchor: int | None
    """From which the steps of EVERY are counted from now on; None: from the one that they were."""


def after_a_jump(schedule: Schedule, considered: int, now: int) -> Resumed:
    """How a schedule goes on when its firings were considered up to `considered` and the clock says `now`.

    Where the clock was not set back nothing changes. Where it was,

    - by at most three hours, a cron line waits until the clock has come to where it was: no firing runs twice. So do
      the steps of EVERY when it was set back by no more than one of them;
    - by more than three hours, the clock was wrong before: what was considered is forgotten, and a cron line may fire
      again at moments at which it fired by the wrong clock;
    - steps of EVERY that would wait longer than that are counted anew from now: a task of every two seconds does not
      stand still for an hour.
    """
    ahead = considered - now
    if ahead <= 0:
        return Resumed(considered, None)
    if schedule.every is None:
        return Resumed(now if ahead > _FAR else considered, None)
    if ahead <= min(_FAR, add(now, schedule.every) - now):
        return Resumed(considered, None)
    return Resumed(now, now)

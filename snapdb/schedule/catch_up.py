"""What becomes of firings that have come due: those that run now, and those that are missed by policy."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice, takewhile

from snapdb.schedule.firings import count, firings, newest, next_firing
from snapdb.types import CatchUp, Schedule

_LATE = 60_000_000
"""A minute: so late the last firing may be that still runs under catch_up = none."""
_WHY = "no daemon led when it came due"


@dataclass(frozen=True, slots=True)
class Missed:
    """A firing that does not run."""

    moment: int
    why: str


@dataclass(frozen=True, slots=True)
class Older:
    """Missed firings that are too many to be told one by one: those before the ones that are."""

    count: int
    first: int
    last: int
    why: str


@dataclass(frozen=True, slots=True)
class Decision:
    """What is to be done about all firings up to a moment."""

    run: tuple[int, ...]
    """Oldest first."""
    missed: tuple[Missed, ...]
    """Oldest first."""
    older: Older | None
    """Come before all in `missed`."""
    considered: int
    """The firings up to here are in this decision. It is before now where more are to run than one decision takes:
    ask again from here."""


def decide(
    schedule: Schedule, policy: CatchUp, considered: int, awake_since: int, now: int, *, cap: int = 1000
) -> Decision:
    """What becomes of the firings after `considered` and not after `now`, in microseconds since 1970 UTC.

    A daemon has led without a gap since `awake_since`. Firings from then on run, however late it is now. Of those
    before, which came due while nobody led,

    - all: all run;
    - last: the last one runs, and the others are missed;
    - none: all are missed, yet the last one runs when it is late by no more than a minute and no more than half of the
      time to the firing that follows it: a daemon that is started anew, or another that takes over, loses nothing.

    At most `cap` firings run by one decision, and at most `cap` missed ones are told one by one, the last ones.
    Neither a long absence nor a quick schedule makes it slow.
    """
    if now <= considered:
        return Decision((), (), None, considered)
    alone = max(considered, min(awake_since - 1, now))  # up to here nobody led
    if policy == "all":
        return _running((), schedule, considered, now, cap, (), None)
    gone = newest(schedule, considered, alone, cap + 2)
    saved = gone[-1:] if gone and (policy == "last" or _hardly_late(schedule, gone[-1], now)) else ()
    gone = gone[: len(gone) - len(saved)]
    told = gone[-cap:]
    more = count(schedule, considered, alone) - len(saved) - len(told)
    why = f"{_WHY}, and catch_up = last runs the last one only" if policy == "last" else _WHY
    first = next_firing(schedule, considered) if more else None
    older = None if first is None else Older(more, first, gone[-len(told) - 1], why)
    return _running(saved, schedule, alone, now, cap, tuple(Missed(moment, why) for moment in told), older)


def _running(
    saved: tuple[int, ...],
    schedule: Schedule,
    after: int,
    now: int,
    cap: int,
    missed: tuple[Missed, ...],
    older: Older | None,
) -> Decision:
    """The decision in which some firings run, and then all after a moment: as many of them as it takes."""
    due = takewhile(lambda moment: moment <= now, firings(schedule, after))
    run = (*saved, *islice(due, cap + 1 - len(saved)))
    if len(run) > cap:
        return Decision(run[:cap], missed, older, run[cap - 1])
    return Decision(run, missed, older, now)


def _hardly_late(schedule: Schedule, moment: int, now: int) -> bool:
    """Whether a firing is late by at most a minute and half of the time to the one that follows it."""
    late, following = now - moment, next_firing(schedule, moment)
    return late <= _LATE and (following is None or 2 * late <= following - moment)

"""Which of a task's firings that have come due run now, wait, or are missed."""

from __future__ import annotations

from snapdb.daemon.claims import Claim
from snapdb.daemon.log import iso
from snapdb.schedule import Decision, decide
from snapdb.types import Task


def placed(task: Task, was: int, awake_since: int, now: int, busy: str | None, free: bool) -> Claim | None:
    """What to settle of the firings after `was` and not after `now`; None: nothing yet.

    A firing that came due while somebody led is missed under overlap = skip where the run before it is not over, and
    waits for its end under overlap = queue. One that is made up for, having come due before, waits under both. All
    wait for a lane.

    Args:
        awake_since: Since then somebody has led without a gap.
        busy: Why no run of the task can begin now, as in "still went"; None: one can.
        free: Whether there is a lane for one more run.
    """
    decision = decide(task.schedule, task.catch_up, was, awake_since, now)
    missed = _missed(decision)
    run, considered = None, decision.considered
    for moment in decision.run:
        if busy is not None and task.overlap == "skip" and moment >= awake_since:
            missed.append((moment, f"the run before it {busy}, and overlap = skip"))
        elif busy is None and free:
            run, busy = moment, "had yet to begin"
        else:
            considered = moment - 1
            break
    return Claim(task, was, considered, tuple(missed), run) if missed or run is not None else None


def _missed(decision: Decision) -> list[tuple[int, str]]:
    told = [(one.moment, one.why) for one in decision.missed]
    older = decision.older
    if older is None:
        return told
    if older.count == 1:
        return [(older.last, older.why), *told]
    several = f"{older.count:,} firings from {iso(older.first)} to {iso(older.last)}"
    return [(older.last, f"{several}: {older.why}"), *told]

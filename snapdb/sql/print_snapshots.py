"""Statements that make, refresh and let go of snapshots, as text."""

from __future__ import annotations

from snapdb.sql.ast import CreateSnapshot, ExpireSnapshots, RefreshSnapshot, TimeBound, WindowBound
from snapdb.sql.print_parts import creation, listed, moment, name, named, said, statement, string, version


def print_create_snapshot(tree: CreateSnapshot) -> str:
    """CREATE SNAPSHOT."""
    kept = creation("SNAPSHOT", tree.name, or_replace=tree.or_replace, if_not_exists=tree.if_not_exists)
    return statement(
        f"{kept} OF {name(tree.graph)}",
        version(tree.at),
        tree.event_time and f"FOR EVENT_TIME {_time(tree.event_time)}",
        bool(tree.elements) and f"ELEMENTS {listed(tree.elements)}",
        tree.layout and f"WITH (layout = {string(tree.layout.form)})",
        said("WHERE", tree.where),
    )


def _time(bound: TimeBound | WindowBound) -> str:
    if isinstance(bound, WindowBound):
        ending = "" if bound.ending is None else f" ENDING {moment(bound.ending)}"
        return f"WINDOW {moment(bound.length, length=True)}{ending}"
    stop = moment(bound.stop)
    match bound.kind, bound.start:
        case "FROM", start if start is not None:
            return f"FROM {moment(start)} TO {stop}"
        case "BETWEEN", start if start is not None:
            return f"BETWEEN {moment(start)} AND {stop}"
        case _:
            return f"AS OF {stop}"


def print_refresh_snapshot(tree: RefreshSnapshot) -> str:
    """REFRESH SNAPSHOT."""
    return statement(f"REFRESH SNAPSHOT {name(tree.name)}", tree.full and "FULL", tree.dry_run and "DRY RUN")


def print_expire_snapshots(tree: ExpireSnapshots) -> str:
    """EXPIRE SNAPSHOTS."""
    return statement(
        "EXPIRE SNAPSHOTS",
        named("OF", tree.graph),
        tree.older and f"OLDER THAN {moment(tree.older, length=True)}",
        tree.last is not None and f"RETAIN LAST {tree.last}",
        tree.by_retention and "BY RETENTION",
        tree.dry_run and "DRY RUN",
    )

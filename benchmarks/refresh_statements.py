"""GraphSnapShot's acceptance criteria that are measured rather than tested, by number."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import fmean
from typing import Any

from benchmarks.refresh_strategies import STRATEGIES
from benchmarks.report import table

Rows = Sequence[dict[str, Any]]
Found = dict[str, Rows]
"""Part → its measurements. Only measured parts have a key."""

STRATEGY_NAMES = [strategy.name for strategy in STRATEGIES]


def statements_part(found: Found) -> str:
    """Return the part on the measured acceptance criteria, by number."""
    return "## Statements that are measured\n\nNumbers are those of GraphSnapShot's acceptance statements.\n\n" + table(
        ("number", "statement", "goal", "found", ""), [*_statements(found)]
    )


def _statements(found: Found) -> Iterator[tuple[str, ...]]:
    for row in found.get("costs", ()):
        yield from _visited(row) if row["what"] == "visited" else _refilled(row)
    yield from _disk_statements(found.get("disk", ()))
    if ratios := [row["refreshed_ratio"] for row in found.get("loader", ())]:
        yield _line(25, "ready batches, refreshes too, the slowest strategy and recipe, of FBL", 1.5, max(ratios))
    scores = found.get("accuracy", ())
    for graph in dict.fromkeys(row["graph"] for row in scores):
        means = {
            name: fmean(scores_of(scores, graph, name)) for name in STRATEGY_NAMES if scores_of(scores, graph, name)
        }
        worst = max(100 * (means["FBL"] - mean) for mean in means.values())
        yield _line(27, f"{graph}: points that the worst strategy is below FBL", 0.5, worst)


def _visited(row: dict[str, Any]) -> Iterator[tuple[str, ...]]:
    seconds = row["seconds"]
    here, grown = (seconds[f"OTF visited, {name}"] for name in ("as it is", "grown"))
    yield _line(19, "SCOPE VISITED, ten times the nodes and the same batches: time a batch", 1.3, grown / here)
    yield _line(19, "SCOPE VISITED, refreshes included, of an FBL batch", 2.0, here / seconds["FBL, as it is"])


def _refilled(row: dict[str, Any]) -> Iterator[tuple[str, ...]]:
    case = f"{row['size']} {tuple(row['fanouts'])}"
    sampled, refilled = row["sampled"], row["refilled"]
    fbl, fcr, drawing = sampled["FBL"], sampled["FCR"], refilled["FCR"]
    for name, held in row["held"].items():
        apart = abs(held["freed"] / held["counted"] - 1)
        yield _line(
            22, f"{name}, {case}: bytes of the cache as counted, and as the process gives back, apart", 0.1, apart
        )
    yield _line(24, f"sampling from full rows, {case}, of FBL", 0.9, fcr / fbl)
    yield _line(24, f"the same with a refresh every 50 batches, {case}", 1.0, (fcr + drawing / 50) / fbl)
    partial = refilled["OTF 15 %"] / drawing
    yield _line(24, f"drawing 15 % of the rows anew, {case}, of drawing all", 0.3, partial)
    yield _line(24, f"partial fetch, {case}, of FBL", 1.3, sampled["OTF 15 %, fetch 60 %"] / fbl)
    if fcr < fbl and row["foretold"]:
        measured = drawing / (fbl - fcr)
        off = abs(row["foretold"] / measured - 1)
        what = f"break-even period, {case}: EXPLAIN {row['foretold']:.0f}, measured {measured:.0f} batches: apart"
        yield _line(26, what, 0.3, off)
    else:
        yield ("26", f"break-even period, {case}", "", "there is none in memory: rows save no time here", "")


def _disk_statements(rows: Rows) -> Iterator[tuple[str, ...]]:
    yield from _held_statements(rows)
    for fanouts, limit in dict.fromkeys((tuple(row["fanouts"]), row["limit"]) for row in rows):
        of = {row["strategy"]: row for row in rows if (tuple(row["fanouts"]), row["limit"]) == (fanouts, limit)}
        case = f"{fanouts}, {limit:,} MiB"
        for name, row in of.items():
            if name.startswith("FCR"):
                yield _line(23, f"{name}, {case}: bytes of topology that a batch reads", 0.0, row["missed"])
        if "OTF 15 % shared" in of and "FCR shared" in of:
            one, whole = of["OTF 15 % shared"], of["FCR shared"]
            share = one["filled"] * one["every"] / whole["refilled"]
            yield _line(23, f"OTF 15 % shared, {case}: bytes of a period's refresh, of FCR's", 0.2, share)
        for what, taken in (("time of an epoch", epoch_seconds), ("bytes of the disk", epoch_bytes)):
            ratio, name = max(
                (taken(of["FBL"]) / taken(row), name) for name, row in of.items() if row["every"] and taken(row)
            )
            met = "met" if ratio >= 2 else "missed"
            yield ("", f"out of memory, {case}: {what}, FBL's over that of {name}", "≥ 2.00", f"{ratio:.2f}", met)


def _held_statements(rows: Rows) -> Iterator[tuple[str, ...]]:
    """Yield the share of the topology that a cache with AMPLIFY 2 holds."""
    held = [row for row in rows if row["strategy"] == "FCR shared" and row["fanouts"] == [10, 10]]
    for row in held[:1]:
        whole = row["topology"]
        said = "FCR shared, (10, 10), products, rows that alias the base counted: what the cache holds"
        yield _line("", f"{said}, of the edges", 0.27, row["held"] / whole["edges"], places=3)
        for what, size in (("with", whole["bytes"] + whole["ids"]), ("without", whole["bytes"])):
            share = f"{row['cache'] / size:.3f}"
            yield ("", f"{said}, of the bytes of bounds and neighbours, {what} edge ids", "", share, "")


def _line(number: int | str, what: str, goal: float, value: float, places: int = 2) -> tuple[str, ...]:
    found = f"{value:.{places}f}"
    return (str(number), what, f"≤ {goal:.2f}", found, "met" if value <= goal else "missed")


def epoch_seconds(row: dict[str, Any]) -> float:
    """Return the seconds of an epoch that does not fit in memory, including its share of redrawing all rows."""
    return float(row["epoch"] * (row["seconds"] + row["refreshing"]))


def epoch_bytes(row: dict[str, Any]) -> float:
    """Return the bytes that such an epoch reads from disk, including its share of redrawing all rows."""
    return float(row["epoch"] * (row["read"] + row["read_refreshing"]))


def scores_of(rows: Rows, graph: str, name: str) -> list[float]:
    """Return a strategy's test scores on a graph, one per seed."""
    return [row["score"] for row in rows if (row["graph"], row["strategy"]) == (graph, name)]

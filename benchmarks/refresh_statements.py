"""GraphSnapShot's statements of acceptance that are measured rather than tested, by number."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import fmean
from typing import Any

from benchmarks.refresh_strategies import STRATEGIES
from benchmarks.report import table

__all__ = ["epoch_seconds", "scores_of", "statements_part"]

Rows = Sequence[dict[str, Any]]
Found = dict[str, Rows]
"""Part → what it measured, of the parts that were."""

STRATEGY_NAMES = [strategy.name for strategy in STRATEGIES]


def statements_part(found: Found) -> str:
    """The statements of acceptance that are measured, by number."""
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
        if held["counted"]:
            apart = abs(held["grown"] / held["counted"] - 1)
            yield _line(22, f"{name}, {case}: bytes counted against memory grown, apart", 0.1, apart)
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
    for case in dict.fromkeys(tuple(row["fanouts"]) for row in rows):
        of = {row["strategy"]: row for row in rows if tuple(row["fanouts"]) == case}
        for name in ("FCR", "FCR shared"):
            if name in of:
                yield _line(23, f"{name}, {case}: bytes of topology that a batch reads", 0.0, of[name]["missed"])
        for name, whole in (("OTF 15 %", "FCR"), ("OTF 15 % shared", "FCR shared")):
            if name in of and whole in of:
                share = of[name]["filled"] * of[name]["every"] / of[whole]["refilled"]
                yield _line(23, f"{name}, {case}: bytes of a period's refresh, of {whole}'s", 0.2, share)
        times = {name: epoch_seconds(row) for name, row in of.items()}
        ratio, name = max((times["FBL"] / spent, name) for name, spent in times.items() if of[name]["every"])
        met = "met" if ratio >= 2 else "missed"
        yield ("", f"epoch out of memory, {case}: FBL over {name}", "≥ 2.00", f"{ratio:.2f}", met)


def _line(number: int, what: str, goal: float, value: float) -> tuple[str, ...]:
    return (str(number), what, f"≤ {goal:.2f}", f"{value:.2f}", "met" if value <= goal else "missed")


def epoch_seconds(row: dict[str, Any]) -> float:
    """An epoch out of memory, from what a batch takes, and its share of drawing all rows anew."""
    return float(row["epoch"] * (row["seconds"] + row["refreshing"]))


def scores_of(rows: Rows, graph: str, name: str) -> list[float]:
    """The test scores of a strategy on a graph, of all seeds."""
    return [row["score"] for row in rows if (row["graph"], row["strategy"]) == (graph, name)]

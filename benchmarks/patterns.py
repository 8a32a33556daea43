"""Measure GRAPH_TABLE against joins, igraph, networkx and DuckDB's recursive CTE, and write PATTERNS.md.

    python -m benchmarks.patterns [--scale 1] [--only NAME] [--rounds 3] [--scratch FOLDER] [--out FILE]

Each piece of work runs in a separate process on one core. The whole run takes about ten minutes. The result of a
trial (--only, or --scale below 1) is printed, and written only if --out is given.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from importlib.metadata import PackageNotFoundError, version
from math import comb
from pathlib import Path
from statistics import median

from benchmarks.patterns_searches import Setting, measure_costs, measure_shortest, measure_walks
from benchmarks.report import machine_table, table
from benchmarks.storage_bench import Bench, Goal, Section

RESULTS = Path(__file__).parent / "PATTERNS.md"
PAIRS = 11
"""The number of pairs of a pattern and its join."""
CONFIDENCE = 0.9
MOST = 1.05
"""The greatest time of a pattern against its joins. The goal is met if the whole interval is below it."""

_TOTALS = "SELECT count(*), sum(a), sum(c), sum(w){more} FROM "
_FIRST = "(a:person WHERE a.age < 10)-[e:knows]->"
FIXED = {
    "one hop": (
        _TOTALS.format(more="") + f"GRAPH_TABLE (s MATCH {_FIRST}(c:person) COLUMNS (a.id AS a, c.id AS c, e.w AS w))",
        _TOTALS.format(more="") + "(SELECT a.id AS a, e.dst AS c, e.w AS w FROM s.knows e JOIN s.person a "
        "ON a.id = e.src WHERE a.age < 10)",
    ),
    "two hops": (
        _TOTALS.format(more=", sum(v)") + f"GRAPH_TABLE (s MATCH {_FIRST}(b:person)-[f:knows]->(c:person) "
        "COLUMNS (a.id AS a, c.id AS c, e.w AS w, f.w AS v))",
        _TOTALS.format(more=", sum(v)") + "(SELECT a.id AS a, f.dst AS c, e.w AS w, f.w AS v FROM s.knows e "
        "JOIN s.person a ON a.id = e.src JOIN s.knows f ON f.src = e.dst WHERE a.age < 10)",
    ),
    "triangle": (
        _TOTALS.format(more=", sum(v)") + f"GRAPH_TABLE (s MATCH {_FIRST}(b:person)-[f:knows]->(c:person)"
        "-[g:knows]->(a) COLUMNS (a.id AS a, c.id AS c, e.w AS w, g.w AS v))",
        _TOTALS.format(more=", sum(v)") + "(SELECT a.id AS a, f.dst AS c, e.w AS w, g.w AS v FROM s.knows e "
        "JOIN s.person a ON a.id = e.src JOIN s.knows f ON f.src = e.dst JOIN s.knows g ON g.src = f.dst "
        "AND g.dst = a.id WHERE a.age < 10)",
    ),
}
"""Name → a pattern, and the joins over the element views of the same snapshot with the same columns."""

UNMEASURED = """
- Several threads. Searches run on one thread per core; the peers run on one thread.
- Reading from a cold disk: the files were read once before each run.
- Graphs with several vertex or edge types, conditions on the edges of a search, and TRAIL, ACYCLIC and SIMPLE.
- Peers written for parallel or weighted searches, such as NetworKit and graph-tool.
"""


def measure_fixed(setting: Setting) -> Section:
    """Measure fixed patterns against the joins that a user would write over the same snapshot."""
    graph = setting.graph("power law", setting.bench.count(1_000_000), setting.bench.count(5_000_000))
    figures = setting.run("pairs", graph, queries=FIXED, rounds=PAIRS)
    lines, goals = [], []
    for name in FIXED:
        spent = figures["spent"][name]
        ratio, low, high = interval([one / other for one, other, _ in spent])
        noise = interval([other / one for _, one, other in spent])
        lines.append(
            (
                name,
                f"{figures['rows'][name]:,}",
                f"{median(one for one, _, _ in spent):.3f}",
                f"{median(other for _, other, _ in spent):.3f}",
                f"{ratio:.3f}x ({low:.3f} to {high:.3f})",
                f"{noise[0]:.3f}x ({noise[1]:.3f} to {noise[2]:.3f})",
            )
        )
        measured = f"{ratio:.3f}x ({low:.3f} to {high:.3f})" + (", undecided" if low <= MOST < high else "")
        goals.append(Goal(f"{name}: its time against hand-written joins", f"≤ {MOST}x", measured, high <= MOST))
    heads = ("pattern", "rows", "pattern, s", "joins, s", "pattern / joins", "joins / the same joins")
    shown = "\n\n".join(f"-- {name}\n{one};\n{other};" for name, (one, other) in FIXED.items())
    text = (
        f"{graph.name}. Median processor seconds of {PAIRS} rounds, which run the pattern, the joins and the joins "
        "again, in alternating order. Ratios are those of a round: their median, and the order-statistic interval of "
        f"the median with at least {CONFIDENCE:.0%} confidence. The last column is the noise of the machine.\n\n"
        f"{table(heads, lines)}\nPeak RSS of all of them {figures['peak_rss'] / 2**20:,.0f} MiB.\n\n"
        f"```sql\n{shown}\n```\n"
    )
    return Section("Fixed patterns against joins", text, tuple(goals))


def interval(values: list[float]) -> tuple[float, float, float]:
    """Return the median of values, and its interval between order statistics with at least 90 % confidence.

    >>> interval([float(i) for i in range(1, 16)])
    (8.0, 4.0, 12.0)
    """
    ordered, count = sorted(values), len(values)
    outside = 0
    rank = 0
    while 2 * (outside + comb(count, rank)) <= (1 - CONFIDENCE) * 2**count:
        outside += comb(count, rank)
        rank += 1
    low = max(rank - 1, 0)
    return median(ordered), ordered[low], ordered[count - 1 - low]


MEASURES: dict[str, Callable[[Setting], Section]] = {
    "fixed": measure_fixed,
    "shortest": measure_shortest,
    "costs": measure_costs,
    "walks": measure_walks,
}
"""Name → the function that returns its section."""


def main() -> None:
    """Run the measurements, and write or print the report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=MEASURES, action="append", help="a measurement; can be repeated")
    parser.add_argument("--scale", type=float, default=1.0, help="the share of the full numbers of vertices and edges")
    parser.add_argument("--rounds", type=int, default=2, help="the number of rounds of snapdb, igraph and DuckDB")
    parser.add_argument("--scratch", type=Path, help="the folder of the graphs; a temporary folder by default")
    parser.add_argument("--out", type=Path, help=f"the path of the report; {RESULTS.name} for a full run")
    options = parser.parse_args()
    chosen = [name for name in MEASURES if name in (options.only or MEASURES)]
    began, load = time.perf_counter(), os.getloadavg()[0]
    with ExitStack() as stack:
        scratch = options.scratch or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="patterns-")))
        scratch.mkdir(parents=True, exist_ok=True)
        setting = Setting(Bench(options.scale, options.rounds, scratch.resolve()))
        sections = []
        for name in chosen:
            sections.append(MEASURES[name](setting))
            print(sections[-1].text, file=sys.stderr)
    report = _report(setting, chosen, sections, time.perf_counter() - began, load)
    full = len(chosen) == len(MEASURES) and options.scale >= 1
    if out := options.out or (RESULTS if full else None):
        out.write_text(report)
        print(f"wrote {out}")
    else:
        print(report)


def _report(setting: Setting, chosen: list[str], sections: list[Section], seconds: float, load: float) -> str:
    left = [name for name in MEASURES if name not in chosen]
    goals = [goal for section in sections for goal in section.goals]
    summary = [(goal.what, goal.goal, goal.measured, "yes" if goal.met else "**no**") for goal in goals]
    loads = [(each.name, f"{each_seconds:.1f}") for each, each_seconds in setting.created.items()]
    parts = [
        "# Graph patterns\n",
        "Generated by `python -m benchmarks.patterns`; do not edit. Read the ratios: times belong to the machine. "
        "Every process runs on one core, with one thread of snapdb and of DuckDB.\n",
        *([f"Not measured in this run: {', '.join(left)}.\n"] if left else []),
        "## Goals\n",
        table(("what", "goal", "measured", "met"), summary),
        *(f"## {section.title}\n\n{section.text}" for section in sections),
        "## Graphs\n\nEnds are drawn uniformly, or with degrees that follow a power law with exponent 2.5 on both "
        "sides. Loading contains the tables, the graph and CREATE SNAPSHOT, on all cores.\n",
        table(("graph", "loading into snapdb, s"), loads),
        "## Not measured\n" + UNMEASURED,
        "## Where and when\n",
        machine_table() + "".join(f"| {name} | {_version(name)} |\n" for name in ("igraph", "networkx")),
        f"Rounds: {setting.bench.rounds}. Generating, loading and measuring took {seconds / 60:.1f} minutes. The load "
        f"average before it was {load:.2f}.",
    ]
    return "\n".join(parts) + "\n"


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed, so not measured"


if __name__ == "__main__":
    main()

"""Path searches against igraph and networkx, and walks against DuckDB's recursive CTE."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from importlib.util import find_spec
from statistics import median
from typing import Literal

from benchmarks.patterns_data import GraphFiles, short
from benchmarks.report import table
from benchmarks.storage_bench import Bench, Figures, Goal, Section, fresh, memory_cells

SOURCES = 1000
"""The number of sources, and of targets."""
IGRAPH_SOURCES = 5
NETWORKX_SOURCES = 2
COST_SOURCES = 100
"""The numbers of sources of igraph, of networkx, and of ANY CHEAPEST, which search from one source after the other."""

_ENDS = "(a:person WHERE a.id % $step = 0)-[e:knows{cost}]->*(b:person WHERE b.id % $step = 1)"
_QUERY = "SELECT a, b, n FROM GRAPH_TABLE (s MATCH p = {prefix} {ends} COLUMNS (a.id AS a, b.id AS b, {value} AS n))"


def _query(prefix: str, value: str, cost: str = "") -> str:
    return _QUERY.format(prefix=prefix, ends=_ENDS.format(cost=cost), value=value)


LENGTHS = _query("ANY SHORTEST", "path_length(p)")
PATHS = _query("ANY SHORTEST", "vertices(p)")
COSTS = _query("ANY CHEAPEST", "coalesce(sum(e.w), 0)::BIGINT", " COST e.w").replace(
    "a.id % $step", "a.id % ($step * 10)"
)
EARLIEST = _query("ANY EARLIEST", "path_length(p)")
WALKS = """SELECT count(*), sum(n) FROM GRAPH_TABLE (s
  MATCH p = (a:person WHERE a.id % $step = 0)-[e:knows]->{1,3}(b:person) COLUMNS (path_length(p) AS n))"""
RECURSIVE = """WITH RECURSIVE walks(dst, n) AS (
  SELECT dst, 1 FROM knows WHERE src % $step = 0
  UNION ALL SELECT knows.dst, n + 1 FROM walks JOIN knows ON knows.src = walks.dst WHERE n < 3
) SELECT count(*), sum(n) FROM walks"""

Row = tuple[str, ...]
_HEADS = (
    "paths",
    "system",
    "sources measured",
    "processor ms per source",
    "wall-clock ms per source",
    "of snapdb's processor time",
    "seconds before the search",
    "peak RSS, MiB",
    "peak PSS, MiB",
)


@dataclass(frozen=True, slots=True)
class Setting:
    """The scale, the folder, and the graphs that were generated."""

    bench: Bench
    created: dict[GraphFiles, float] = field(default_factory=dict)
    """Graph → the seconds of loading it into snapdb."""

    def graph(self, degrees: Literal["uniform", "power law"], nodes: int, edges: int) -> GraphFiles:
        """Return a graph, which is generated on first use."""
        files = GraphFiles(self.bench.folder, degrees, nodes, edges)
        if files not in self.created:
            self.bench.place(files.root.name)
            figures = fresh(
                "create",
                module="benchmarks.patterns_work",
                folder=files.folder,
                degrees=degrees,
                nodes=nodes,
                edges=edges,
            )
            self.created[files] = figures["seconds"]
        return files

    def run(self, work: str, graph: GraphFiles, /, **arguments: object) -> Figures:
        """Run a piece of work on a graph in a new process and return its figures."""
        figures = fresh(work, module="benchmarks.patterns_work", warm=(graph.root,), root=graph.root, **arguments)
        print(f"{graph.name}: {work}: {figures['seconds']:.2f} s", file=sys.stderr)
        return figures

    def goal(self, what: str, goal: str, ratio: float, met: bool) -> Goal:
        """Return a goal for a ratio."""
        return Goal(what, goal, f"{ratio:.2f}x", met)


@dataclass(frozen=True, slots=True)
class Searches:
    """The searches on one graph: the sources and targets, and the pieces of work of each system."""

    setting: Setting
    graph: GraphFiles

    @property
    def step(self) -> int:
        """The step between the ids of sources, and of targets."""
        return self.graph.nodes // SOURCES

    def snapdb(self, sql: str, sources: int = SOURCES) -> Figures:
        """Run a query from a number of sources."""
        figures = self.setting.run("query", self.graph, sql=sql, nodes=self.graph.nodes, step=self.step)
        return {**figures, "sources": sources}

    def peer(self, name: str, count: int, spread: int = 1, **arguments: object) -> Figures:
        """Run a peer from the first sources, or from every `spread`-th one."""
        targets = list(range(1, self.graph.nodes, self.step))[:SOURCES]
        sources = list(range(0, self.graph.nodes, self.step * spread))[:count]
        return self.setting.run(name, self.graph, nodes=self.graph.nodes, sources=sources, targets=targets, **arguments)


def interleaved(rounds: int, *cases: Callable[[], Figures]) -> list[Figures]:
    """Run the cases in turns, and return the medians of each, with the largest peak memory."""
    turns = [[case() for case in cases] for _ in range(rounds)]
    return [_middle(runs) for runs in zip(*turns, strict=True)]


def _middle(runs: Iterable[Figures]) -> Figures:
    rows = list(runs)
    middle = {name: median(row[name] for row in rows) for name, v in rows[0].items() if isinstance(v, int | float)}
    peaks = {name: max(row[name] for row in rows) for name in ("peak_rss", "peak_pss")}
    return {**rows[0], **middle, **peaks}


def check(ours: Figures, peer: Figures, what: str) -> None:
    """Stop if the paths of a peer have other lengths or costs in sum than those of snapdb."""
    different = {s: (ours["sums"].get(s), total) for s, total in peer["sums"].items() if ours["sums"].get(s) != total}
    if different:
        raise SystemExit(f"{what}: sums of snapdb and of the peer differ, by source: {different}")


def line(paths: str, system: str, figures: Figures, sources: int, ours: Figures, prefix: str = "") -> Row:
    """Return a line of the table of searches."""
    cpu, mine = figures[f"{prefix}cpu"] / sources, ours["cpu"] / ours["sources"]
    return (
        paths,
        system,
        f"{sources:,}",
        f"{1e3 * cpu:.2f}",
        f"{1e3 * figures[f'{prefix}seconds'] / sources:.2f}",
        f"{cpu / mine:.1f}x",
        f"{figures['opening_seconds']:.1f}",
        *memory_cells(figures),
    )


def measure_shortest(setting: Setting) -> Section:
    """Measure ANY SHORTEST with lengths and with paths against igraph and networkx, on two graphs."""
    nodes, edges = setting.bench.count(1_000_000), setting.bench.count(10_000_000)
    text, goals = [], []
    for degrees in ("uniform", "power law"):
        searches = Searches(setting, setting.graph(degrees, nodes, edges))
        lines, own = _shortest(searches)
        text.append(f"### {searches.graph.name}\n\n" + table(_HEADS, lines))
        goals += own
    text.append(f"```sql\n{LENGTHS};\n{PATHS};\n```\n")
    head = (
        f"From {SOURCES:,} sources to {SOURCES:,} targets. igraph runs `distances([v], targets)` and "
        "`get_shortest_paths(v, to=targets)`, networkx `single_source_shortest_path_length` and "
        "`single_source_shortest_path`, for each source. Their time is proportional to the number of sources, so they "
        "run from a part of them, and networkx on the first graph only. Paths were measured in one "
        "round. Time of snapdb starts at `execute`: it contains opening the snapshot and the rows in Arrow. Before the "
        "search, igraph and networkx build their graph from an array, and snapdb opens the database. "
        "The sums of the lengths from each source are those of the peers.\n"
    )
    return Section("ANY SHORTEST against igraph and networkx", "\n".join([head, *text]), tuple(goals))


def _shortest(searches: Searches) -> tuple[list[Row], list[Goal]]:
    """Return the lines and goals of one graph."""
    lines: list[Row] = []
    goals: list[Goal] = []
    setting, name = searches.setting, searches.graph.degrees
    other = searches.peer("networkx", NETWORKX_SOURCES) if name == "uniform" and find_spec("networkx") else None
    for task, prefix, sql in (("lengths", "lengths_", LENGTHS), ("paths", "paths_", PATHS)):
        cases = [partial(searches.snapdb, sql)]
        if find_spec("igraph"):
            cases.append(partial(searches.peer, "igraph", IGRAPH_SOURCES, task=task))
        ours, *peers = interleaved(1 if task == "paths" else setting.bench.rounds, *cases)
        lines.append(line(task, "snapdb", ours, SOURCES, ours))
        for peer in peers:
            check(ours, peer, f"igraph, {task}")
            lines.append(line(task, "igraph", peer, IGRAPH_SOURCES, ours))
            ratio = peer["cpu"] / IGRAPH_SOURCES / (ours["cpu"] / SOURCES)
            goals.append(setting.goal(f"{name}, {task}: igraph's time per source and core", "≥ 1x", ratio, ratio >= 1))
        if other is not None:
            check(ours, other, f"networkx, {task}")
            lines.append(line(task, "networkx", other, NETWORKX_SOURCES, ours, prefix))
            ratio = other[f"{prefix}cpu"] / NETWORKX_SOURCES / (ours["cpu"] / SOURCES)
            what = f"{name}, {task}: networkx's time per source and core"
            goals.append(setting.goal(what, "≥ 5x", ratio, ratio >= 5))
    return lines, goals


def measure_costs(setting: Setting) -> Section:
    """Measure ANY CHEAPEST against igraph, and ANY EARLIEST, on a smaller graph."""
    searches = Searches(
        setting,
        setting.graph("uniform", max(setting.bench.count(100_000), 2 * SOURCES), setting.bench.count(1_000_000)),
    )
    cases = [partial(searches.snapdb, COSTS, COST_SOURCES), partial(searches.snapdb, EARLIEST)]
    if find_spec("igraph"):
        cases.append(partial(searches.peer, "igraph", COST_SOURCES, 10, task="costs"))
    ours, early, *peers = interleaved(setting.bench.rounds, *cases)
    lines = [line("ANY CHEAPEST", "snapdb", ours, COST_SOURCES, ours)]
    goals = []
    for peer in peers:
        check(ours, peer, "igraph, costs")
        lines.append(line("ANY CHEAPEST", "igraph", peer, COST_SOURCES, ours))
        ratio = peer["cpu"] / ours["cpu"]
        goals.append(setting.goal("cheapest: igraph's time per source and core", "≥ 1x", ratio, ratio >= 1))
    lines.append(line("ANY EARLIEST", "snapdb", early, SOURCES, early))
    text = (
        f"{searches.graph.name}, with integer costs from 1 to 10 and times within a year. igraph runs "
        "`distances([v], targets, weights=…)` for each source, which returns costs without paths. ANY EARLIEST has no "
        f"peer.\n\n{table(_HEADS, lines)}\n```sql\n{COSTS};\n{EARLIEST};\n```\n"
    )
    return Section("ANY CHEAPEST and ANY EARLIEST", text, tuple(goals))


def measure_walks(setting: Setting) -> Section:
    """Measure walks of up to three edges against a recursive CTE of DuckDB over a table in memory."""
    lines, goals = [], []
    for degrees in ("uniform", "power law"):
        nodes, edges = setting.bench.count(1_000_000), setting.bench.count(10_000_000)
        searches = Searches(setting, setting.graph(degrees, nodes, edges))
        ours, peer = interleaved(
            setting.bench.rounds,
            partial(searches.snapdb, WALKS),
            partial(setting.run, "duckdb", searches.graph, sql=RECURSIVE, step=searches.step),
        )
        if ours["sums"] != peer["sums"]:
            raise SystemExit(f"walks: snapdb counts {ours['sums']}, and DuckDB {peer['sums']}")
        walks = f"{ours['sums'][0]:,}"
        for system, each in (("snapdb", ours), ("DuckDB", peer)):
            row = line(degrees, system, each, SOURCES, ours)
            lines.append((row[0], walks, *row[1:2], *row[3:]))
        ratio = peer["cpu"] / ours["cpu"]
        goals.append(setting.goal(f"{degrees}, walks: DuckDB's time", "≥ 1x", ratio, ratio >= 1))
    heads = ("graph", "walks", *_HEADS[1:2], *_HEADS[3:])
    text = (
        f"Walks of one to three edges from {SOURCES:,} sources, {short(edges)} edges, counted. DuckDB reads the edges "
        f"from a table in memory, which is filled before.\n\n{table(heads, lines)}\n"
        f"```sql\n{WALKS};\n{RECURSIVE};\n```\n"
    )
    return Section("Walks against a recursive CTE", text, tuple(goals))

"""The tables of ready batches: snapdb against its peers, its goals and the lower bound set by memory bandwidth."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from statistics import median

from benchmarks.floor import batch_bytes
from benchmarks.report import machine_table, table

PEERS = ("pyg", "dgl", "graphbolt")
SAID = {"snapdb": "snapdb", "pyg": "PyG NeighborLoader", "dgl": "DGL DataLoader", "graphbolt": "DGL GraphBolt"}
MODES = {
    ("ready", False, False): "ready",
    ("ready", True, False): "ready, user's edge ids read",
    ("ready", False, True): "ready, int32 ids and float16 features",
    ("sample", False, False): "sampling and relabelling alone, one thread",
}
MAIN = (15, 10, 5)


@dataclass(frozen=True, slots=True)
class Setting:
    """The setting with which a system is run."""

    workers: int
    threads: int
    keeping: bool
    """Whether malloc retains freed memory."""

    def __str__(self) -> str:
        return f"{self.workers} workers, {self.threads} threads, malloc {'keeps' if self.keeping else 'as it is'}"


@dataclass(frozen=True, slots=True)
class Row:
    """One measurement."""

    size: str
    fanouts: tuple[int, ...]
    turn: int
    """The number of the round, or -1 for a trial of a setting."""
    setting: Setting
    memory: int
    """The highest sum of the proportional set sizes of all processes, in bytes."""
    width: int
    """The number of bytes of a node's features."""
    system: str
    mode: str
    edge_ids: bool
    layout: str
    narrow: bool
    batches: int
    seconds: float
    cpu_seconds: float
    nodes: float
    edges: float
    expanded: float
    version: str

    @property
    def rate(self) -> float:
        return self.batches / self.seconds

    @property
    def cpu_rate(self) -> float:
        return self.batches / max(self.cpu_seconds, 1e-9)


@dataclass(frozen=True, slots=True)
class _Case:
    """The rows for one graph and one list of fanouts."""

    size: str
    fanouts: tuple[int, ...]
    rows: tuple[Row, ...]

    def all(
        self, system: str, mode: str, edge_ids: bool = False, layout: str = "", *, narrow: bool = False
    ) -> list[Row]:
        kind = (system, mode, edge_ids, layout, narrow)
        return [row for row in self.rows if (row.system, row.mode, row.edge_ids, row.layout, row.narrow) == kind]

    def ratio(
        self,
        figure: Callable[[Row], float],
        peers: Sequence[str],
        mode: str,
        edge_ids: bool = False,
        *,
        narrow: bool = False,
    ) -> float:
        """Return the ratio of snapdb's figure to the best peer's for the same work, or 0 without a peer."""
        layout = "NODES" if "pyg" in peers else "BLOCKS"
        ours = _best(figure, self.all("snapdb", mode, edge_ids, layout, narrow=narrow))
        theirs = max(_best(figure, self.all(peer, mode, edge_ids, narrow=narrow)) for peer in peers)
        return ours / theirs if theirs else 0.0

    def floor(self, row: Row) -> float:
        """Return the share of a batch's time that the memory accesses alone would take."""
        threads = max(row.setting.workers, 1)
        free = _best(_rate, [f for f in self.all("floor", "floor") if f.setting.workers == threads])
        moved = batch_bytes(row.nodes, row.edges, row.expanded, row.width, sampled_only=row.mode == "sample")
        return moved / free * row.rate if free else 0.0


TRIED = """### Reading this

- The row of PyG names its sampler: pyg-lib, which is compiled, or torch-sparse, which is several times slower and
  flatters the ratios. The goals are those beside pyg-lib.
- With int32 and float16 GraphBolt has both; DGL's DataLoader has float16 features and int64 ids, as DGL 2.1 samples
  wrong batches from an int32 graph.
- The floor takes every byte of a batch at the rate of random lines of 64 bytes. Rows of features are several
  lines that lie together, and what is written lies in order: both go faster than random lines: a ready batch
  can be beyond 100 %. Sampling alone is the honest share: what it touches is single lines.
- snapdb's own rates vary by a quarter from hour to hour on a machine whose memory is shared; peers that compute
  more for a byte vary less.
- Gathers of two threads at once wait for the same memory: streams let one thread sample while another gathers, a fifth
  more batches a second. Eight KiB of rows prefetched instead of four: a twentieth less time in the gather.
- Tried for the goals beside DGL: 64-byte streaming stores with lines spliced over rows (a quarter to a third
  less time in the gather), bounds kept from the counting pass for the drawing pass and a filter before the
  search for duplicates (a tenth less time in sampling), big pages under mapped topologies and features (a fifth
  less). Without gain: 16-byte streaming stores, prefetches past the caches, drawing a block ahead of the one
  being numbered, other block sizes.
"""


def ready_report(rows: Sequence[Row]) -> str:
    """Return all tables as Markdown."""
    turns = [row for row in rows if row.turn >= 0]
    kinds = dict.fromkeys((row.size, row.fanouts) for row in turns)
    cases = [_Case(*kind, tuple(row for row in turns if (row.size, row.fanouts) == kind)) for kind in kinds]
    parts = [
        "## Ready batches beside PyG and DGL\n",
        "Sampled uniformly without replacement, relabelled, features and labels gathered; batch 1,024, int64 ids "
        "except where noted. "
        "PyG expands the nodes that are new in a hop, DGL all nodes of the batch: snapdb does each one's work beside "
        "it (the default, and `LAYOUT BLOCKS`). Ratios are snapdb's rate over the peer's.\n",
        "### Goals\n",
        table(("work", "against", "goal", "found", "missed by"), list(_goals(cases))),
        *(_case(case) for case in cases),
        TRIED,
        "### Settings that peers tried\n",
        _tries([row for row in rows if row.turn < 0]),
        "### Where and when\n",
        machine_table(),
        f"Versions: {', '.join(dict.fromkeys(row.version for row in turns if row.version))}. Best of "
        f"{1 + max(row.turn for row in turns)} rounds, in which all systems took turns.",
    ]
    return "\n".join(parts) + "\n"


def _goals(cases: Iterable[_Case]) -> Iterable[tuple[str, ...]]:
    """Yield the rows of the goals that these figures decide."""
    main = {case.size: case for case in cases if case.fanouts == MAIN}
    wanted = {"products": (13.0, 4.5, 6.0), "arxiv": (7.0, 4.5, 0.0)}
    for size, (pyg, dgl, narrow) in wanted.items():
        if size not in main:
            continue
        case = main[size]
        what = f"ready batches, {size}, 15, 10, 5, by the clock"
        yield _goal(what, "PyG", pyg, case.ratio(_rate, ["pyg"], "ready"))
        yield _goal(what, "DGL, the faster loader", dgl, case.ratio(_rate, ["dgl", "graphbolt"], "ready"))
        if narrow:
            ratio = case.ratio(_rate, ["dgl", "graphbolt"], "ready", narrow=True)
            yield _goal(f"{what}, int32 ids and float16 features", "DGL, the faster loader", narrow, ratio)
    for size, case in main.items():
        what = f"sampling and relabelling, {size}, by CPU time"
        yield _goal(what, "PyG", 12.0, case.ratio(_cpu_rate, ["pyg"], "sample"))
        yield _goal(what, "DGL, the faster sampler", 6.5, case.ratio(_cpu_rate, ["dgl", "graphbolt"], "sample"))
        share = _best(case.floor, case.all("snapdb", "ready", False, "NODES"))
        yield _goal(f"ready batches, {size}", "what memory alone takes", 0.75, share, "{:.0%}")
        ours, theirs = (
            _middle(_memory, rows) for rows in (case.all("snapdb", "ready", False, "NODES"), case.all("pyg", "ready"))
        )
        most = 0.4 if size == "products" else 1.0
        yield _goal(f"peak memory, {size}", "PyG", most, ours / theirs if theirs else 0.0, "{:.2f}x", at_most=True)


def _goal(
    what: str, against: str, goal: float, found: float, form: str = "{:.1f}x", at_most: bool = False
) -> tuple[str, ...]:
    """Return a row of the table of goals. A figure that was not measured is marked as such."""
    said = f"{'≤' if at_most else '≥'} {form.format(goal)}"
    if not found:
        return (what, against, said, "not measured", "")
    missed = found - goal if at_most else goal - found
    return (what, against, said, form.format(found), form.format(missed) if missed > 0 else "met")


def _case(case: _Case) -> str:
    """Return the measurements for one graph and one list of fanouts."""
    lines = []
    for (mode, edge_ids, narrow), said in MODES.items():
        for system in ("snapdb", *PEERS):
            for layout in ("NODES", "BLOCKS") if system == "snapdb" else ("",):
                if found := case.all(system, mode, edge_ids, layout, narrow=narrow):
                    lines.append((said, *_line(case, found)))
    heads = (
        "work",
        "system",
        "expands",
        "batches/s",
        "per CPU s",
        "CPU/clock",
        "snapdb, clock",
        "snapdb, CPU",
        "of the floor",
        "edges",
        "peak PSS, MiB",
    )
    return f"### {case.size}, fanouts {', '.join(map(str, case.fanouts))}\n\n" + table(heads, lines)


def _line(case: _Case, found: list[Row]) -> tuple[str, ...]:
    one, system = found[0], found[0].system
    mine = system == "snapdb"
    layout = "NODES" if system == "pyg" else "BLOCKS"
    beside = [] if mine else case.all("snapdb", one.mode, one.edge_ids, layout, narrow=one.narrow)
    expands = one.layout or ("NODES" if system == "pyg" else "BLOCKS")
    rate, cpu_rate = _best(_rate, found), _best(_cpu_rate, found)
    return (
        SAID[system] + (f" ({one.version.partition(' with ')[2].partition(',')[0]})" if system == "pyg" else ""),
        "new nodes" if expands == "NODES" else "all nodes",
        f"{rate:.2f}",
        f"{cpu_rate:.2f}",
        f"{_middle(_load, found):.2f}",
        f"{_best(_rate, beside) / rate:.1f}x" if beside else "",
        f"{_best(_cpu_rate, beside) / cpu_rate:.1f}x" if beside else "",
        f"{_best(case.floor, found):.0%}" if mine else "",
        f"{_middle(_edges, found):,.0f}",
        f"{_middle(_memory, found) / 2**20:,.0f}",
    )


def _tries(rows: Sequence[Row]) -> str:
    heads = ("graph", "system", "workers", "torch threads", "malloc", "batches/s", "per CPU s", "peak PSS, MiB")
    lines = [
        (
            row.size,
            SAID[row.system],
            str(row.setting.workers),
            str(row.setting.threads),
            "keeps" if row.setting.keeping else "as it is",
            f"{row.rate:.2f}",
            f"{row.cpu_rate:.2f}",
            f"{row.memory / 2**20:,.0f}",
        )
        for row in rows
    ]
    return table(heads, lines)


def _middle(figure: Callable[[Row], float], rows: Sequence[Row]) -> float:
    return median([figure(row) for row in rows]) if rows else 0.0


def _best(figure: Callable[[Row], float], rows: Sequence[Row]) -> float:
    return max(map(figure, rows), default=0.0)


def _load(row: Row) -> float:
    """Return the CPU seconds per second."""
    return row.cpu_seconds / row.seconds


def _rate(row: Row) -> float:
    return row.rate


def _cpu_rate(row: Row) -> float:
    return row.cpu_rate


def _edges(row: Row) -> float:
    return row.edges


def _memory(row: Row) -> float:
    return float(row.memory)

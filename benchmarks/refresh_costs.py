"""The cost of the refresh itself: measurements for acceptance criteria 19, 22, 24 and 26 of GraphSnapShot.

    python -m benchmarks.refresh_costs '{"what": "visited"}'

prints one line of JSON.
"""

from __future__ import annotations

import gc
import json
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import snapdb
from benchmarks.graphs import DATA, SIZES
from benchmarks.refresh_loader import endless, refilled, samples
from benchmarks.refresh_strategies import FBL, STRATEGIES, asked, define, full, linked, run_apart, stats_of

PERIOD = 50
FANOUTS = ((5, 5, 5), (10, 10, 10))
TURNS = 5
GROWN = 10
"""The factor by which the number of nodes is increased. The additional nodes have no edges, so the batches are
unchanged."""

LOAD = """
CREATE TABLE node AS
  SELECT id, train FROM '{folder}/node.parquet' UNION ALL SELECT range, false FROM range({low}, {high});
CREATE TABLE edge AS SELECT src, dst FROM '{folder}/edge.parquet';
CREATE PROPERTY GRAPH bench VERTEX TABLES (node KEY (id))
  EDGE TABLES (edge SOURCE KEY (src) REFERENCES node (id) DESTINATION KEY (dst) REFERENCES node (id));
CREATE SNAPSHOT whole OF bench
"""


def cost_rows(*, quick: bool) -> list[dict[str, Any]]:
    """Return one row per measurement."""
    rows = [run_apart("refresh_costs", {"what": "visited"})[0]]
    size = "arxiv" if quick else "products"
    with linked(size) as path:
        for fanouts in FANOUTS:
            wish = {"what": "refills", "path": str(path), "fanouts": fanouts}
            rows.append({"size": size, **run_apart("refresh_costs", wish)[0]})
            print(rows[-1], flush=True)
    return rows


def main() -> None:
    """Run the requested measurement."""
    wish = asked()
    found = _visited() if wish["what"] == "visited" else _refills(Path(wish["path"]), wish["fanouts"])
    print(json.dumps({"what": wish["what"], "fanouts": wish.get("fanouts"), **found}))


def _visited() -> dict[str, Any]:
    """Return the CPU seconds per batch under SCOPE VISITED and FBL, on a graph and on that graph with more nodes."""
    load_of, nodes = DATA / "arxiv-1", SIZES["arxiv"].nodes
    visited = next(strategy for strategy in STRATEGIES if strategy.name == "OTF visited")
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="snapdb-bench-", dir=DATA)))
        sources: dict[str, Iterator[int]] = {}
        for name, high in (("as it is", nodes), ("grown", GROWN * nodes)):
            database = stack.enter_context(snapdb.connect(folder / f"{name}.snapdb"))
            database.script(LOAD.format(folder=load_of, low=nodes, high=high))
            for strategy in (visited, FBL):
                sampler = define(database, strategy, (10, 10), every=5)
                stream = stack.enter_context(database.stream(sampler, threads=0))
                sources[f"{strategy.name}, {name}"] = batches = endless(stream)
                next(batches)
                full(stream)
        return {"seconds": _alternately(sources, 10)}


def _refills(path: Path, fanouts: list[int]) -> dict[str, Any]:
    """Return the CPU time of sampling a batch and of drawing rows, the caches' bytes, and EXPLAIN's prediction."""
    with snapdb.connect(path) as database, ExitStack() as stack:
        chosen = {s.name: s for s in STRATEGIES if s.name in ("FBL", "FCR", "OTF 15 %", "OTF 15 %, fetch 60 %")}
        names = {name: define(database, strategy, fanouts, every=PERIOD) for name, strategy in chosen.items()}
        streams = {}
        for name, sampler in names.items():
            streams[name] = stream = stack.enter_context(database.stream(sampler, threads=0))
            next(endless(stream))
            full(stream)
        sampled = _alternately({name: samples(stream) for name, stream in streams.items()}, 2)
        redrawn = {name: _busy(partial(refilled, stream, PERIOD)) for name, stream in streams.items() if name != "FBL"}
        plan = database.execute(f"EXPLAIN (FORMAT json) SAMPLE USING {names['FCR']}").arrow()
        held = {name: _held(database, names[name], stream) for name, stream in streams.items() if name != "FBL"}
        return {"sampled": sampled, "refilled": redrawn, "held": held, "foretold": _break_even(plan)}


def _held(database: snapdb.Database, sampler: str, stream: snapdb.BatchStream) -> dict[str, int]:
    """Return the bytes of a stream's cache: as reported by the engine, and the memory freed when it is dropped."""
    counted = stats_of(stream).bytes
    stream.close()
    before = _anonymous()
    database.execute(f"DROP CACHE {sampler}_rows")
    gc.collect()
    return {"counted": counted, "freed": before - _anonymous()}


def _alternately(sources: dict[str, Iterator[int]], batches: int) -> dict[str, float]:
    """Return, by name, the process's CPU time per batch, as the median over turns that all sources take."""
    spent: dict[str, list[float]] = {name: [] for name in sources}
    for _ in range(TURNS):
        for name, source in sources.items():
            spent[name].append(_busy(partial(_drain, source, batches)) / batches)
    return {name: median(each) for name, each in spent.items()}


def _drain(batches: Iterator[int], count: int) -> None:
    for _ in range(count):
        next(batches)


def _busy(work: Callable[[], object]) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began


def _anonymous() -> int:
    """Return the bytes of anonymous memory."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith("RssAnon:"))


def _break_even(plan: Any) -> float | None:
    """Return the period in batches from which drawing rows pays off, or None if EXPLAIN does not report it."""
    found = [plan.column(name).to_pylist()[0] for name in plan.column_names]
    period: float | None = _first(json.loads(next(text for text in found if isinstance(text, str))), "break_even")
    return period


def _first(tree: Any, key: str) -> Any:
    """Return the first value with this key at any depth."""
    if isinstance(tree, dict):
        return tree[key] if key in tree else next((v for each in tree.values() if (v := _first(each, key))), None)
    return next((v for each in tree if (v := _first(each, key))), None) if isinstance(tree, list) else None


if __name__ == "__main__":
    main()

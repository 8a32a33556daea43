"""Measure embeddings that Node2Vec learns from walks, and write EMBEDDINGS.md.

    python -m benchmarks.embeddings [--runs 3] [--out FILE]

The labels of blogcatalog are predicted by the vectors of node2vec, and the links of collegemsg by those of walks that
respect time, and of walks that do not. A run takes about ten minutes.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import mean, stdev

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import torch
from torch import Tensor
from torch.nn import functional

import snapdb
from benchmarks.report import machine_table, table
from benchmarks.storage_bench import Section
from snapdb.arrays import Int64s

DATA = Path(os.environ.get("SNAPDB_DATA", Path(__file__).resolve().parents[2] / "shared" / "data"))
RESULTS = Path(__file__).parent / "EMBEDDINGS.md"
WIDTH = 128

CREATE = """
CREATE TABLE node AS SELECT id FROM '{nodes}';
CREATE TABLE edge AS FROM edges;
CREATE PROPERTY GRAPH g VERTEX TABLES (node KEY (id)) EDGE TABLES (edge
  SOURCE KEY (src) REFERENCES node (id) DESTINATION KEY (dst) REFERENCES node (id){time});
CREATE SNAPSHOT now OF g;
"""

COMMUNITIES = """WALK FROM now SEEDS (SELECT id FROM node) AS node LENGTH 80 PER SEED 10 DIRECTION BOTH{bias}
  WINDOW 10 NEGATIVES 5 BATCH 64 REPEATABLE ({seed})"""
BIASES = {"p = q = 1 (DeepWalk)": "", "p = 0.25, q = 0.25": " RETURN 0.25 INOUT 0.25"}
SHARES = (0.1, 0.5, 0.8)
"""The shares of the vertices whose labels train the classifier. The others are the test set."""
PUBLISHED = (0.491, 0.611, 0.672)
"""DeepWalk's micro-F1 on the same data with 8 %, 40 % and 80 % of the labels, in the paper of AANE (Huang, Li and Hu,
2017). It is quoted from memory."""

LINKS = """WALK FROM now SEEDS (SELECT src AS id, ts AS seed_time FROM edge UNION ALL SELECT dst, ts FROM edge) AS node
  LENGTH 20 DIRECTION BOTH{clock} WINDOW 5 NEGATIVES 5 ALLOW DUPLICATES BATCH 1024 REPEATABLE ({seed})"""
CLOCKS = {
    "static": "",
    "respecting time": " TEMPORAL <= SEED_TIME TIME RESPECTING BACKWARD",
    "within 7 days before the seed's time": " TEMPORAL <= SEED_TIME WITHIN 604800",
}
EARLY = 0.75
"""The share of the messages on which embeddings are trained."""


def measure_communities(runs: int) -> Section:
    """Measure how well node2vec's embeddings of blogcatalog predict labels, by the share of labels that are known."""
    nodes = DATA / "blogcatalog/nodes.parquet"
    labels = torch.from_numpy(pq.read_table(nodes, columns=["label"]).column(0).to_numpy().copy()).long()
    edges = pq.read_table(DATA / "blogcatalog/edges.parquet")
    lines = []
    for name, bias in BIASES.items():
        scores: dict[float, list[float]] = {share: [] for share in SHARES}
        began, pairs = time.process_time(), 0
        for seed in range(runs):
            with _snapshot(nodes, edges) as db:
                vectors, pairs = _train(db, COMMUNITIES.format(bias=bias, seed=seed), seed)
            for share in SHARES:
                scores[share].append(_accuracy(vectors, labels, share, seed))
            print(f"{name}: {[f'{scores[share][-1]:.3f}' for share in SHARES]}", file=sys.stderr)
        spent = (time.process_time() - began) / runs
        lines.append((name, *(_spread(scores[share]) for share in SHARES), f"{pairs / 1e6:.0f} M", f"{spent:.0f}"))
    lines.append(("published for DeepWalk", *(f"{value:.3f}" for value in PUBLISHED), "", ""))
    heads = ("walks", *(f"{share:.0%} of labels" for share in SHARES), "pairs", "processor s per run")
    text = (
        f"Micro-F1, which equals accuracy since each vertex has one label, of a multinomial logistic regression on "
        f"vectors of width {WIDTH}: mean and standard deviation over {runs} runs with other walks, vectors and random "
        "splits. One epoch. The published figures are those of the paper of AANE (Huang, Li and Hu, 2017) for 8 %, "
        "40 % and 80 % of the labels, quoted from memory; node2vec's paper measured another data set named "
        f"BlogCatalog, which has 39 overlapping classes.\n\n{table(heads, lines)}\n"
        f"```sql\n{COMMUNITIES.format(bias=BIASES['p = 0.25, q = 0.25'], seed=0)};\n```\n"
    )
    return Section("node2vec on blogcatalog", text)


def measure_links(runs: int) -> Section:
    """Measure how well embeddings of the first messages of collegemsg predict who writes to whom later."""
    nodes = DATA / "collegemsg/nodes.parquet"
    edges = pq.read_table(DATA / "collegemsg/edges.parquet")
    edges = edges.take(pc.sort_indices(edges, [("ts", "ascending")]))
    early, late = edges.slice(0, int(EARLY * len(edges))), edges.slice(int(EARLY * len(edges)))
    number = {key: place for place, key in enumerate(pq.read_table(nodes, columns=["id"]).column(0).to_pylist())}
    lines = []
    for name, clock in CLOCKS.items():
        scores, pairs = [], 0
        for seed in range(runs):
            with _snapshot(nodes, early, " EVENT TIME (ts)") as db:
                vectors, pairs = _train(db, LINKS.format(clock=clock, seed=seed), seed)
            scores.append(_link_auc(vectors, _pairs(early, number), _pairs(late, number), seed))
            print(f"{name}: {scores[-1]:.3f}", file=sys.stderr)
        lines.append((name, _spread(scores), f"{pairs / 1e6:.1f} M"))
    text = (
        f"The first {EARLY:.0%} of the messages train vectors of width {WIDTH}. The positives are the pairs that write "
        "to each other only later, among people with a message before. As many random pairs without any message are "
        "the negatives. A logistic regression on the product of the two vectors, element by element, learns from half "
        f"of them; the figure is its AUC on the other half: mean and standard deviation over {runs} runs.\n\n"
        f"{table(('walks', 'AUC', 'pairs'), lines)}\n"
        f"```sql\n{LINKS.format(clock=CLOCKS['respecting time'], seed=0)};\n```\n"
    )
    return Section("Links of collegemsg", text)


@contextmanager
def _snapshot(nodes: Path, edges: pa.Table, time_clause: str = "") -> Iterator[snapdb.Database]:
    """Yield a database with a snapshot of the graph."""
    with tempfile.TemporaryDirectory() as folder, snapdb.connect(Path(folder) / "walks.snapdb") as db:
        db.register("edges", edges)
        db.script(CREATE.format(nodes=nodes, time=time_clause))
        yield db


def _train(db: snapdb.Database, query: str, seed: int) -> tuple[Tensor, int]:
    """Return [nodes, width] vectors trained for one epoch, in the order of the keys, and the number of pairs."""
    with db.stream(query) as stream:
        model = snapdb.train.Node2Vec.of(stream, width=WIDTH, seed=seed)
        history = model.fit(stream)
        keys = model.table(stream)
    order = np.argsort(keys.column(0).to_numpy())
    return model.vectors()[torch.from_numpy(order)], history.pairs


def _accuracy(vectors: Tensor, labels: Tensor, share: float, seed: int) -> float:
    """Return the accuracy on a random test set, after a share of the labels trained the classifier."""
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(seed))
    known, rest = order[: int(share * len(order))], order[int(share * len(order)) :]
    scores = _classify(vectors[known], labels[known], vectors[rest])
    return (scores.argmax(1) == labels[rest]).double().mean().item()


def _classify(examples: Tensor, labels: Tensor, others: Tensor, penalty: float = 1.0) -> Tensor:
    """Return [others, classes] scores of a multinomial logistic regression with an L2 penalty, fitted by L-BFGS."""
    weights = torch.zeros(int(labels.max()) + 1, examples.shape[1], dtype=torch.float64, requires_grad=True)
    bias = torch.zeros(len(weights), dtype=torch.float64, requires_grad=True)
    center, scale = examples.double().mean(0), examples.double().std(0) + 1e-9
    inputs = (examples.double() - center) / scale
    optimizer = torch.optim.LBFGS([weights, bias], max_iter=200, line_search_fn="strong_wolfe")

    def loss() -> Tensor:
        optimizer.zero_grad()
        fit = functional.cross_entropy(inputs @ weights.T + bias, labels, reduction="sum")
        total = fit + penalty / 2 * (weights**2).sum()
        total.backward()  # type: ignore[no-untyped-call]
        return total

    optimizer.step(loss)  # type: ignore[no-untyped-call]
    with torch.no_grad():
        return ((others.double() - center) / scale) @ weights.T + bias


def _pairs(edges: pa.Table, number: dict[int, int]) -> set[tuple[int, int]]:
    """Return the undirected pairs of a table of edges, as vertex numbers in ascending order."""
    ends = zip(edges.column("src").to_pylist(), edges.column("dst").to_pylist(), strict=True)
    return {(min(number[a], number[b]), max(number[a], number[b])) for a, b in ends if a != b}


def _link_auc(vectors: Tensor, early: set[tuple[int, int]], late: set[tuple[int, int]], seed: int) -> float:
    """Return the AUC of a classifier of new pairs, for people who were there before."""
    known = {end for pair in early for end in pair}
    there = sorted(known)
    positive = sorted(pair for pair in late - early if known.issuperset(pair))
    rng = np.random.default_rng(seed)
    negative: set[tuple[int, int]] = set()
    while len(negative) < len(positive):
        a, b = sorted(int(there[i]) for i in rng.integers(0, len(there), 2))
        if a != b and (a, b) not in early and (a, b) not in late:
            negative.add((a, b))
    ends: Int64s = np.array([*positive, *sorted(negative)], np.int64)
    labels = torch.cat([torch.ones(len(positive)), torch.zeros(len(negative))]).long()
    inputs = vectors[torch.from_numpy(ends[:, 0])] * vectors[torch.from_numpy(ends[:, 1])]
    order = torch.from_numpy(rng.permutation(len(labels)))
    half = len(labels) // 2
    scores = _classify(inputs[order[:half]], labels[order[:half]], inputs[order[half:]])
    return snapdb.train.roc_auc(labels[order[half:]], scores)


def _spread(values: list[float]) -> str:
    return f"{mean(values):.3f} ± {stdev(values):.3f}"


def main() -> None:
    """Run the measurements, and write the report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=3, help="the number of runs with other walks, vectors and splits")
    parser.add_argument("--out", type=Path, default=RESULTS, help="the path of the report")
    options = parser.parse_args()
    began = time.perf_counter()
    sections = [measure_communities(options.runs), measure_links(options.runs)]
    parts = [
        "# Embeddings\n",
        "Generated by `python -m benchmarks.embeddings`; do not edit.\n",
        *(f"## {section.title}\n\n{section.text}" for section in sections),
        "## Where and when\n",
        machine_table(),
        f"The run took {(time.perf_counter() - began) / 60:.1f} minutes.",
    ]
    options.out.write_text("\n".join(parts) + "\n")
    print(f"wrote {options.out}")


if __name__ == "__main__":
    main()

"""REFRESH.md, generated from the measurements: strategies, goals, acceptance criteria, and GraphSnapShot's figures."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean, median, stdev
from typing import Any

from benchmarks.refresh_published import CLAIMS, EPOCHS, LOADER
from benchmarks.refresh_statements import epoch_bytes, epoch_seconds, scores_of
from benchmarks.refresh_strategies import STRATEGIES
from benchmarks.report import table
from benchmarks.welch import welch

Rows = Sequence[dict[str, Any]]
Found = dict[str, Rows]
"""Part → its measurements. Only measured parts have a key."""

ORDER = {strategy.name: i for i, strategy in enumerate(STRATEGIES)}
GOALS = {strategy.name: 1.3 if strategy.partial_fetch else 1.15 for strategy in STRATEGIES}
MIB = 2**20

SUMMARY_SAID = """## Strategies

Batches without a model: the `products` graph, fanouts 10, 10, in memory, and under a limit of {limit:,} MiB, of which
each strategy's cache takes its part. Epochs in memory, and their peak: a model on the `arxiv` graph. Scores: models of
real graphs. What is empty was not measured, or is the same as FBL's.

"""

LOADER_SAID = """## Batches without a model, in memory

Ready batches (sampled, features and labels gathered) on one thread, all strategies in turns in one process. *Over
whole epochs* is the time by the clock of an epoch's batches, with the refreshes that fall into it: the cache's thread
draws rows on the other core meanwhile. *Caches full* is that of single batches between refreshes. *Processor time*
adds to what the thread of the batches takes what that of the cache does, so much a batch. *Sampling* is the
neighbourhood alone. Ratios are medians over the turns of a strategy's time to FBL's in the same turn. *Held* counts
every edge that the cache holds, rows that alias the base included: *of edges* against the edges of the topology,
*of bytes* against its bounds, neighbours and edge ids, for a drawn row holds positions beside neighbours.

"""

EPOCH_SAID = """## Epochs with a model, in memory

GraphSAGE of two layers, 64 hidden, fanouts 10, 10, features gathered, one thread that makes batches; after an epoch
that is not timed. Peak memory counts all that the process holds: files that are mapped, caches, buffers, the model.

"""

DISK_SAID = """## Batches out of memory

The `products` graph, {files:,.0f} MiB of topology, features and labels on the disk, in a control group (cgroup v1,
memory.limit_in_bytes) in which the interpreter, caches, buffers and pages of files count. The files' pages were
dropped before; batches were made, without being measured, until the pages in memory were those that stay there. Two
threads make ready batches, without a model, under a malloc that gives back what is freed. *An epoch* is that of all
training seeds, told from the batches that were measured; to it and to *disk* belongs, under FCR, the share of a period
in which all rows are drawn anew, as if no batch were made meanwhile. *Topology beside the cache* is as the engine
counts it, *disk* is /proc/self/io, features included.

A cache takes memory from pages of features and gives back that of the topology: it pays where the features fit beside
it, and the topology does not fit beside them. With less memory than that, features are what is read.

"""

ACCURACY_SAID = """## Accuracy

Test scores in points over {seeds} seeds, each of the model and of the draws, the mean of the last third of the epochs:
none is chosen. On tolokers a GraphSAGE of two layers, fanouts 10, 10, tested on neighbours drawn under FBL; on cora the
GCN of the examples, fanouts 3, 3, tested on all neighbours. Periods are AUTO.

"""

PUBLISHED_SAID = """## What GraphSnapShot published

Time of loading over FBL's, ogbn-products and our graph of its size. Theirs is the time between two yields over 579
batches, in which its caches are drawn once, before the clock runs, and never refreshed; ours too has full caches,
refreshed in the background as the period asks.

"""


def summary_part(found: Found) -> str:
    """Return a table of the strategies with loading time, epoch time, memory, bytes read and accuracy."""
    loader = {row["strategy"]: row for row in _of(found, "loader", size="products", fanouts=[10, 10])}
    limit = max((row["limit"] for row in _of(found, "disk", fanouts=[10, 10])), default=0)
    disk = {row["strategy"]: row for row in _of(found, "disk", fanouts=[10, 10], limit=limit)}
    lines = []
    for name in ORDER:
        epochs = _of(found, "epoch", size="arxiv", strategy=name)
        lines.append(
            (
                name,
                _said(loader.get(name), lambda row: f"{1e3 * row['epoch_seconds']:.1f} ms, {row['epoch_ratio']:.2f}x"),
                _said(epochs, lambda rows: f"{median(r['seconds'] for r in rows):.1f} s"),
                _said(epochs, lambda rows: f"{max(r['pss'] for r in rows) / MIB:,.0f} MiB"),
                _said(disk.get(name), lambda row: f"{epoch_seconds(row):.0f} s"),
                _said(disk.get(name), lambda row: f"{epoch_bytes(row) / row['epoch'] / 1e6:.0f} MB a batch"),
                *(_score(found, graph, name) for graph in ("tolokers", "cora")),
            )
        )
    heads = (
        "strategy",
        "batch, memory",
        "epoch, memory",
        "peak memory",
        "epoch, disk",
        "read of the disk",
        "tolokers, AUC",
        "cora, accuracy",
    )
    return SUMMARY_SAID.format(limit=limit) + table(heads, lines)


def loader_part(rows: Rows) -> str:
    """Return the part on batches without a model."""
    parts = [LOADER_SAID]
    heads = (
        "strategy",
        "ms a batch, over whole epochs",
        "of FBL",
        "goal",
        "caches full, of FBL",
        "processor time, of FBL",
        "sampling, of FBL",
        "cache, MB",
        "held, of edges",
        "of bytes",
        "of bytes without ids",
        "period",
    )
    for size, fanouts in dict.fromkeys((row["size"], tuple(row["fanouts"])) for row in rows):
        here = [row for row in rows if (row["size"], tuple(row["fanouts"])) == (size, fanouts)]
        parts += [f"### {size}, fanouts {', '.join(map(str, fanouts))}\n", table(heads, [_loader(r) for r in here])]
    return "\n".join(parts)


def _loader(row: dict[str, Any]) -> tuple[str, ...]:
    whole, goal = row["topology"], GOALS[row["strategy"]]
    held = (
        f"{row['bytes'] / 1e6:,.0f}",
        f"{row['edges'] / whole['edges']:.1%}",
        f"{row['bytes'] / (whole['bytes'] + whole['ids']):.1%}",
        f"{row['bytes'] / whole['bytes']:.1%}",
    )
    return (
        row["strategy"],
        f"{1e3 * row['epoch_seconds']:.1f}",
        f"{row['epoch_ratio']:.2f}x",
        "" if row["strategy"] == "FBL" else f"≤ {goal:.2f}x: {'met' if row['epoch_ratio'] <= goal else 'missed'}",
        f"{row['ratio']:.2f}x",
        f"{row['refreshed_ratio']:.2f}x",
        f"{row['sample_ratio']:.2f}x",
        *(held if row["bytes"] else ("",) * 4),
        str(row["every"] or ""),
    )


def epoch_part(rows: Rows) -> str:
    """Return the part on epochs with a model, in memory."""
    heads = ("graph", "strategy", "epoch, s", "of FBL", "model alone, s", "waiting, s", "peak PSS, MiB", "loss")
    lines = []
    for size in dict.fromkeys(row["size"] for row in rows):
        first = median(row["seconds"] for row in rows if row["size"] == size and row["strategy"] == "FBL")
        for name in ORDER:
            if here := [row for row in rows if (row["size"], row["strategy"]) == (size, name)]:
                seconds, alone, waiting = (median(r[k] for r in here) for k in ("seconds", "alone", "waiting"))
                peak = f"{max(r['pss'] for r in here) / MIB:,.0f}"
                lines.append(
                    (
                        size,
                        name,
                        f"{seconds:.2f}",
                        f"{seconds / first:.2f}x",
                        f"{alone:.2f}",
                        f"{waiting:.2f}",
                        peak,
                        f"{here[-1]['loss']:.3f}",
                    )
                )
    return EPOCH_SAID + table(heads, lines)


def disk_part(rows: Rows) -> str:
    """Return the part on batches that do not fit in memory."""
    parts = [DISK_SAID.format(files=rows[0]["files"] / MIB)]
    heads = (
        "strategy",
        "s a batch",
        "an epoch, s",
        "FBL over it",
        "disk, MB a batch",
        "FBL over it",
        "topology beside the cache",
        "filling, MB a batch",
        "cache, MB",
        "anonymous, MiB",
        "group's peak, MiB",
        "batches measured",
    )
    for fanouts, limit in dict.fromkeys((tuple(row["fanouts"]), row["limit"]) for row in rows):
        here = [row for row in rows if (tuple(row["fanouts"]), row["limit"]) == (fanouts, limit)]
        first = next(row for row in here if row["strategy"] == "FBL")
        lines = [_disk(row, first) for row in here]
        parts += [f"### Fanouts {', '.join(map(str, fanouts))}, {limit:,} MiB\n", table(heads, lines)]
    return "\n".join(parts)


def _disk(row: dict[str, Any], first: dict[str, Any]) -> tuple[str, ...]:
    return (
        row["strategy"],
        f"{row['seconds']:.2f}",
        f"{epoch_seconds(row):.0f}",
        f"{epoch_seconds(first) / epoch_seconds(row):.2f}x",
        f"{epoch_bytes(row) / row['epoch'] / 1e6:.0f}",
        f"{epoch_bytes(first) / epoch_bytes(row):.2f}x" if epoch_bytes(row) else "",
        f"{row['missed'] / 1e6:.2f} MB a batch" if row["cache"] else "all",
        f"{(row['filled'] + row['read_refreshing']) / 1e6:.2f}",
        f"{row['cache'] / 1e6:,.0f}",
        f"{row['anonymous'] / MIB:,.0f}",
        f"{row['peak'] / MIB:,.0f}",
        str(row["batches"]),
    )


def accuracy_part(rows: Rows) -> str:
    """Return the part on test scores compared with those of FBL."""
    heads = ("graph", "score", "strategy", "mean", "sd", "points to FBL", "Welch p")
    lines = []
    for graph in dict.fromkeys(row["graph"] for row in rows):
        scores = {name: scores_of(rows, graph, name) for name in ORDER if scores_of(rows, graph, name)}
        metric = next(row["metric"] for row in rows if row["graph"] == graph)
        for name, found in scores.items():
            apart = 100 * (fmean(found) - fmean(scores["FBL"]))
            p = "" if name == "FBL" or len(found) < 2 else f"{welch(found, scores['FBL']):.2f}"
            spread = f"{100 * stdev(found):.2f}" if len(found) > 1 else ""
            lines.append((graph, metric, name, f"{100 * fmean(found):.2f}", spread, f"{apart:+.2f}", p))
    return ACCURACY_SAID.format(seeds=len({row["seed"] for row in rows})) + table(heads, lines)


def published_part(found: Found) -> str:
    """Return the part that compares snapdb's figures with those published by GraphSnapShot."""
    ours = {(row["strategy"], tuple(row["fanouts"])): row for row in _of(found, "loader", size="products")}
    lines = []
    for strategy in STRATEGIES:
        if strategy.original in LOADER:
            theirs = LOADER[strategy.original]
            mine = (ours.get((strategy.name, fanouts)) for fanouts in ((10, 10, 10), (5, 5, 5)))
            shown = (_said(row, lambda row: f"{row['epoch_ratio']:.2f}x") for row in mine)
            seconds, score = EPOCHS.get(strategy.original, (0.0, 0.0))
            epoch = f"{seconds / EPOCHS['FBL'][0]:.2f}x, accuracy {score:.3f}" if seconds else ""
            lines.append((strategy.original, f"{theirs.ten:.2f}x", f"{theirs.five:.2f}x", epoch, strategy.name, *shown))
    heads = ("published", "10, 10, 10", "5, 5, 5", "epoch of FBL's (0.767)", "ours", "10, 10, 10", "5, 5, 5")
    claims = table(("claim", "figure", "what was measured"), [tuple(claim) for claim in CLAIMS])
    return PUBLISHED_SAID + table(heads, lines) + "\n" + claims


def _of(found: Found, part: str, **wanted: Any) -> list[dict[str, Any]]:
    return [row for row in found.get(part, ()) if all(row[key] == value for key, value in wanted.items())]


def _said(value: Any, words: Any) -> str:
    return str(words(value)) if value else ""


def _score(found: Found, graph: str, name: str) -> str:
    scores = scores_of(found.get("accuracy", ()), graph, name)
    return f"{100 * fmean(scores):.1f}" if scores else ""

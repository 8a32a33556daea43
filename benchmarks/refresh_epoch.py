"""Training epochs in memory with every strategy: a two-layer GraphSAGE with features and caches.

    python -m benchmarks.refresh_epoch '{"graph": …}'

prints one line of JSON. Epochs are measured in the same way as those of EPOCHS.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

import snapdb
from benchmarks.epoch_loop import Ready, Wish, measure, wished
from benchmarks.graphs import DATA, SIZES
from benchmarks.refresh_strategies import BATCH, STRATEGIES, define, linked, run_apart

FANOUTS = (10, 10)
SHARES = {"arxiv": 3, "products": 12}
"""Graph → n, where one of every n training nodes is a seed."""
TURNS = {"arxiv": 2, "products": 1}


def epoch_rows(*, quick: bool) -> list[dict[str, Any]]:
    """Return one row per graph, strategy and round. Each round measures all strategies."""
    rows = []
    for size, share in {"arxiv": 8}.items() if quick else SHARES.items():
        with linked(size) as path:
            with snapdb.connect(path) as database:
                seeds = f"train AND id % {share} = 0"
                names = {s.name: define(database, s, FANOUTS, seeds=seeds) for s in STRATEGIES}
            for turn in range(1 if quick else TURNS[size]):
                for strategy, sampler in names.items():
                    wish = Wish(str(DATA), f"{path}:{sampler}", FANOUTS, BATCH, None, SIZES[size].classes, 1, 2, 2)
                    epoch, pss = run_apart("refresh_epoch", asdict(wish))
                    rows.append({"size": size, "strategy": strategy, "turn": turn, "pss": pss, **epoch})
                    print(f"{size} {strategy}: {epoch['seconds']:.2f} s an epoch", flush=True)
    return rows


def main() -> None:
    """Run the requested measurement."""
    wish = wished()
    path, _, sampler = wish.database.rpartition(":")
    with snapdb.connect(path, read_only=True) as database, database.stream(sampler, threads=wish.workers) as stream:

        def epoch() -> Iterator[Ready]:
            for batch in stream:
                assert batch.y is not None
                yield Ready(batch.only.x, batch.only.edge_index, batch.y)

        measure(epoch, wish, f"snapdb {snapdb.__version__}")


if __name__ == "__main__":
    main()

"""snapdb's epochs, measured in the same way as PyG's.

python -m benchmarks.epoch_snapdb '{…}'
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import snapdb
from benchmarks.epoch_loop import Ready, measure, wished

QUERY = """SAMPLE FROM whole SEEDS (SELECT id FROM node WHERE train) AS node
  FANOUT (edge IN => [{fanouts}]) BATCH {batch} REPEATABLE (7)"""


def main() -> None:
    """Run the requested measurement."""
    wish = wished()
    query = QUERY.format(fanouts=", ".join(map(str, wish.fanouts)), batch=wish.batch)
    with (
        snapdb.connect(Path(wish.database), read_only=True) as database,
        database.stream(query, threads=wish.workers) as stream,
    ):

        def epoch() -> Iterator[Ready]:
            for batch in stream:
                assert batch.y is not None
                yield Ready(batch.only.x, batch.only.edge_index, batch.y)

        measure(epoch, wish, f"snapdb {snapdb.__version__}")


if __name__ == "__main__":
    main()

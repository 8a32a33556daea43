"""snapdb's batches, measured in the same way as those of its peers.

python -m benchmarks.ready_snapdb '{…}'
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate, count
from pathlib import Path

import snapdb
from benchmarks.peer import Asked, Counted, asked, measure
from snapdb.loading import BatchStream
from snapdb.sampling import epoch_order, vertex_input

SEED = 7


def main() -> None:
    """Run the requested measurement."""
    wish = asked()
    with snapdb.connect(Path(wish.database), read_only=True) as database:
        stream = database.stream(_query(wish), threads=max(wish.workers, 1), ids="int32" if wish.narrow else None)
        batches = _ready(stream, wish) if wish.mode == "ready" else _sampled(stream)
        measure(batches, wish, f"snapdb {snapdb.__version__}")


def _query(wish: Asked) -> str:
    return f"""SAMPLE FROM whole SEEDS (SELECT id FROM node WHERE train) AS node
      FANOUT (edge IN => [{", ".join(map(str, wish.fanouts))}])
      {"" if wish.layout == "NODES" else f"LAYOUT {wish.layout}"} BATCH {wish.batch} REPEATABLE ({SEED})"""


def _ready(stream: BatchStream, wish: Asked) -> Iterator[Counted]:
    while True:
        for batch in stream:
            if wish.edge_ids:
                for key in batch.edge_index:
                    batch.e_id[key]
            new = next(iter(batch.num_sampled_nodes.values()))
            edges = sum(index.shape[1] for index in batch.edge_index.values())
            yield Counted(sum(new), edges, _expanded(new, wish.layout))


def _sampled(stream: BatchStream) -> Iterator[Counted]:
    """Yield batches that are only sampled, on this thread."""
    scratch, layout = stream.sampler.scratch(), stream.sampler.spec.layout
    for number in count():
        epoch, index = divmod(number, stream.batches)
        if index == 0:
            order = epoch_order(stream.seeds, SEED, epoch, "SHUFFLE")
        ordinals = order[index * stream.sampler.spec.batch_size :][: stream.sampler.spec.batch_size]
        found = stream.sampler.sample(vertex_input("node", stream.seeds.ids[ordinals]), number, scratch)
        new = found.nodes_per_hop["node"]
        yield Counted(sum(new), sum(edges.position.size for edges in found.edges.values()), _expanded(new, layout))


def _expanded(new: tuple[int, ...] | list[int], layout: str) -> int:
    """Return the number of rows that a batch's hops looked up. `new` has the number of new nodes per hop."""
    return sum(new[:-1]) if layout == "NODES" else sum(list(accumulate(new))[:-1])


if __name__ == "__main__":
    main()

"""The rows of WALK: one row per walk and step, with the keys of the user's tables."""

from __future__ import annotations

from collections import deque
from typing import Any

import numpy as np
import pyarrow as pa

from snapdb.arrays import Array
from snapdb.execute.samples.row_batches import BatchSeeds
from snapdb.loading.budgets import WALK_SIZES, enough_memory, scratch_bytes
from snapdb.loading.source import StreamSource
from snapdb.loading.walk_rows import key_type, keys_of, step_values, walk_rows, walk_schema
from snapdb.sampling import Ints, SeedExpansion
from snapdb.sampling.walker import open_walker
from snapdb.sampling.walks import Walks, walk_of


class WalkRowMaker:
    """Builds the rows of batches of walks. Several threads share it, and a thread borrows one scratch per batch."""

    in_order = False
    """Whether rows depend on the accesses of earlier batches."""

    def __init__(self, opened: StreamSource) -> None:
        """Open the walker, and read the types of the keys that the rows contain."""
        spec = opened.spec
        self._view, self._spec, self._walk = opened.view, spec, walk_of(spec)
        self._walker = open_walker(opened.view, opened.hints.applied(spec))
        self._expansion = SeedExpansion(opened.view, spec, opened.seeds)
        self._idle: deque[Any] = deque()  # append and pop are atomic, so no lock is necessary
        self._adjacencies = {traversal.relation: traversal.adjacency for traversal in self._walker.traversals}
        self._largest = 0
        self.schema = walk_schema(key_type(opened.view, dict.fromkeys(self._walk.vertex_types)))

    @property
    def on_gpu(self) -> bool:
        """Whether walks are on a GPU."""
        return self._walker.on_gpu

    def rows(self, task: BatchSeeds) -> list[pa.RecordBatch]:
        """Return the steps of a batch, walk by walk. Any thread can call this."""
        try:
            scratch = self._idle.pop()
        except IndexError:
            scratch = self._walker.scratch()
        with enough_memory(task.epoch, task.index, WALK_SIZES):
            entry = self._expansion.entry(task.ordinals, task.epoch)
            walks = self._walker.sample(entry, task.number, scratch)
            self._idle.append(scratch)
            rows = self._rows(task, walks)
        if self._spec.memory is not None:
            # The arrays of the walks and the rows built from them have about the same size.
            self._largest = max(self._largest, scratch_bytes(scratch) + 2 * rows.nbytes)
        return [rows] if rows.num_rows else []

    def room(self, most: int) -> int:
        """Return the number of batches that can be in progress or unread within the statement's memory limit."""
        limit = self._spec.memory
        if limit is None:
            return most
        return max(1, min(most, limit // self._largest)) if self._largest else 1

    def _rows(self, task: BatchSeeds, walks: Walks) -> pa.RecordBatch:
        nodes, types = _on_host(walks.nodes), np.array(self._walk.vertex_types)
        keys = {
            name: keys_of(self._view.keys[name], nodes[:, types == name].ravel())
            for name in dict.fromkeys(self._walk.vertex_types)
        }
        position = _on_host(walks.position)
        e_id = step_values(self._walk, self._adjacencies, position, lambda rows: rows.edge_id, -1)
        first = task.first * self._walk.per_seed
        return walk_rows(self.schema, self._walk.vertex_types, keys, e_id, first=first, batch=task.number)


def _on_host(values: Ints) -> Array:
    return values if isinstance(values, np.ndarray) else values.cpu().numpy()

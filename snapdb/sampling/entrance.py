"""Who enters a batch: its seeds, of seed edges their ends and negatives, and the edges that they must not see."""

import numpy as np

from snapdb.arrays import Int64s
from snapdb.graph.view import GraphView
from snapdb.sampling.negatives import NegativeDraws
from snapdb.sampling.subgraph import Entry, Excluded, Group, Seeds, node_entry
from snapdb.types import Link, SampleSpec


class Entrance:
    """Makes the entries of a seed set's batches. It holds no state: threads share it."""

    def __init__(self, view: GraphView, spec: SampleSpec, seeds: Seeds) -> None:
        """Opens what negatives are drawn from, if any are.

        Raises:
            BindError: what is known of a source depends on times, and the seeds have none.
            ValueError: seed edges were asked, and the seeds are none.
        """
        if (spec.link is None) != (seeds.ends is None):
            raise ValueError("seeds have ends where the sampler's seeds are edges, and only there")
        self._seeds, self._link = seeds, spec.link
        asked = None if spec.link is None else spec.link.negatives
        self._draws: NegativeDraws | None = None
        if spec.link is not None and asked is not None:
            self._draws = NegativeDraws(view, spec.link, asked, spec.seed, timed=seeds.time is not None)

    def entry(self, ordinals: Int64s, epoch: int) -> Entry:
        """The entry of a batch of these seeds, in their order.

        Of seed edges the groups are sources, destinations and, where negatives are asked, those that were found.

        Raises:
            CorruptError: the row of a source leads out of its arrays.
        """
        seeds = self._seeds
        times = None if seeds.time is None else seeds.time[ordinals]
        if self._link is None or seeds.ends is None:
            return node_entry(seeds.type, seeds.ids[ordinals], ordinals, times)
        edge, trees = self._link.edge, np.arange(ordinals.size, dtype=np.int64)
        source, destination = (ends[ordinals] for ends in seeds.ends)
        groups = (Group(edge.source, source, trees), Group(edge.destination, destination, trees))
        excluded = _excluded(self._link, source, destination, trees)
        if self._draws is None:
            return Entry(groups, ordinals, times, excluded)
        drawn = self._draws.draw(source, ordinals, times, epoch)
        found = drawn >= 0
        negatives = Group(edge.destination, drawn[found], np.repeat(trees, found.sum(axis=1)))
        places = np.where(found, np.cumsum(found).reshape(found.shape) - 1, -1)
        return Entry((*groups, negatives), ordinals, times, excluded, places)


def _excluded(link: Link, source: Int64s, destination: Int64s, trees: Int64s) -> Excluded | None:
    """The pairs of ends; between different vertex types there is no edge of this type back."""
    if link.exclude == "NONE":
        return None
    if link.exclude == "BOTH" and link.edge.source == link.edge.destination:
        both = np.concatenate([source, destination]), np.concatenate([destination, source])
        return Excluded(link.edge, *both, np.concatenate([trees, trees]))
    return Excluded(link.edge, source, destination, trees)
